package disasm

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// openFile opens a file until the test ends.
func openFile(t testing.TB, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

// measured has what was measured in processes of each version: offsets in the
// Isolate, and the dispatch table's in the isolate group or the Isolate.
var measured = map[string]struct {
	heap, entryFP        uint32
	inGroup, inIsolate   int64
	key, wordsOfBuiltins bool // the isolate is a pthread's; the file has accessors of the builtins
}{
	"16.20.2": {heap: 0xa300, entryFP: 0x36b8, key: true, wordsOfBuiltins: true},
	"18.20.8": {heap: 0xc638, entryFP: 0x4538, key: true, wordsOfBuiltins: true},
	"20.20.2": {heap: 0xd2c0, entryFP: 0x180, wordsOfBuiltins: true},
	"22.23.3": {heap: 0xdea0, entryFP: 0x110, wordsOfBuiltins: true},
	"24.21.0": {heap: 0xeff8, entryFP: 0x140, inGroup: 0x3270},
	"25.9.0":  {heap: 0xd8a8, entryFP: 0x148, inGroup: 0x29c0},
	"26.10.0": {heap: 0xf3c0, entryFP: 0x148, inIsolate: 0x268},
}

// eachNode runs test with the file of each major version.
func eachNode(t *testing.T, test func(t *testing.T, version string, f *elfsym.File)) {
	for _, version := range nodetest.Versions {
		t.Run(version, func(t *testing.T) {
			test(t, version, nodetest.OpenELF(t, nodetest.Node(t, version)))
		})
	}
}

func TestOffsetsAreThoseOfProcesses(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		want := measured[version]
		if got := FindFunctions(f).HeapOffset(); got != want.heap {
			t.Errorf("heap is at %#x of the isolate, want %#x", got, want.heap)
		}
		if got := FindFunctions(f).CEntryFP(); got != want.entryFP {
			t.Errorf("c_entry_fp is at %#x of the isolate, want %#x", got, want.entryFP)
		}
		if got := FindFunctions(f).GCCount(); got <= want.heap || got > want.heap+1<<14 {
			t.Errorf("the count of collections is at %#x of the isolate, want it in the heap, at %#x", got, want.heap)
		}
		if got := NodeVersion(f); got != "v"+version {
			t.Errorf("version = %q, want %q", got, "v"+version)
		}
	})
}

func TestDispatchTableIsInAGroupOrTheIsolate(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		want := measured[version]
		got, ok := FindFunctions(f).DispatchTable()
		if has := want.inGroup != 0 || want.inIsolate != 0; ok != has {
			t.Fatalf("dispatch table = %+v, %t, want %t", got, ok, has)
		}
		if got.Offset != want.inGroup || int64(got.Isolate) != want.inIsolate || (got.Group != 0) != (want.inGroup != 0) {
			t.Errorf("dispatch table = %+v, want %#x in a group or %#x in the isolate", got, want.inGroup, want.inIsolate)
		}
	})
}

// TestIsolateIsWhereTheSymbolSays compares the code of Isolate::GetCurrent with the
// symbol of the variable that it returns.
func TestIsolateIsWhereTheSymbolSays(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		got := Isolate(f)
		if key := measured[version].key; key {
			s, ok := f.Symbol(isolateKey)
			if !ok || got != (Slot{Key: s.Address}) {
				t.Errorf("isolate = %+v, want the key at %#x", got, s.Address)
			}
			return
		}
		if got.Offset >= 0 {
			t.Errorf("isolate is at %d of the thread pointer, want it below", got.Offset)
		}
		decoded := decodeIsolate(f)
		if decoded.GOT != 0 { // a variable in which the loader puts the offset
			relocated(t, nodetest.Node(t, version), decoded.GOT)
			return
		}
		if decoded != got {
			t.Errorf("decoded isolate = %+v, want %+v by the symbol", decoded, got)
		}
	})
}

// relocated fails the test unless the loader puts the offset of a thread-local
// variable at an address.
func relocated(t *testing.T, path string, address uint64) {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := f.Section(".rela.dyn")
	if section == nil {
		t.Fatal("no relocations")
	}
	var r elf.Rela64
	for entries := bufio.NewReader(section.Open()); ; {
		if err := binary.Read(entries, binary.LittleEndian, &r); err != nil {
			t.Fatalf("relocation at %#x: %v", address, err)
		}
		if r.Off == address {
			break
		}
	}
	if kind := elf.R_X86_64(elf.R_TYPE64(r.Info)); kind != elf.R_X86_64_TPOFF64 {
		t.Errorf("relocation at %#x = %v, want %v", address, kind, elf.R_X86_64_TPOFF64)
	}
}

// TestBuiltinsAreTheCodeThatNothingCovers compares the longest run of code without
// unwind tables with the symbols of the builtins.
func TestBuiltinsAreTheCodeThatNothingCovers(t *testing.T) {
	eachNode(t, func(t *testing.T, _ string, f *elfsym.File) {
		code, ok := f.Symbol("v8_Default_embedded_blob_code_data_") // up to V8 10
		if !ok {
			code, ok = f.Symbol("v8_Default_embedded_blob_code_")
		}
		length, okLength := f.Symbol("v8_Default_embedded_blob_code_size_")
		if !ok || !okLength {
			t.Fatal("no symbols of the builtins")
		}
		var word [4]byte
		if _, err := f.ReadAt(word[:], length.Address); err != nil {
			t.Fatal(err)
		}
		size := uint64(binary.LittleEndian.Uint32(word[:]))
		address, found := Uncovered(f)
		const around = 4 << 12 // alignment
		if address > code.Address || address+found < code.Address+size || found > size+around {
			t.Fatalf("builtins = %#x, %d bytes, want %#x, %d bytes", address, found, code.Address, size)
		}
		builtins := make([]byte, size)
		if _, err := f.ReadAt(builtins, code.Address); err != nil {
			t.Fatal(err)
		}
		if at := FindFunctions(f).CEntryFP(); !StoresFP(f, builtins, at) || StoresFP(f, builtins, at+3) {
			t.Errorf("builtins store the frame pointer at %#x: %t, at %#x: %t, want only the former",
				at, StoresFP(f, builtins, at), at+3, StoresFP(f, builtins, at+3))
		}
	})
}

// TestAccessorsLeadToTheVariables: the two accessors of the builtins, where they are
// exported, return the variables that GetEmbeddedCodeRange stores.
func TestFrameBuilderIsWhereTheSymbolSays(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		s, ok := f.Symbol("Builtins_BaselineOutOfLinePrologue")
		if !ok {
			t.Fatal("the builtin has no symbol")
		}
		address, size := Uncovered(f)
		code := make([]byte, size)
		if _, err := f.ReadAt(code, address); err != nil {
			t.Fatal(err)
		}
		got := FindFrameBuilder(f, code)
		if address+uint64(got.Start) != s.Address {
			t.Fatalf("builtin = %#x, want %#x", address+uint64(got.Start), s.Address)
		}
		builtin := code[got.Start:]
		for at, want := range map[uint16][]byte{
			got.SavesFP - 2: {0x41}, got.SavesFP: buildsFrame, got.ReturnsTo: {0x41}, // pop and push of r11 or r15
		} {
			if !bytes.HasPrefix(builtin[at:], want) {
				t.Errorf("code at %#x = %x, want %x", at, builtin[at:at+5], want)
			}
		}
		if push, pop := builtin[got.ReturnsTo+1], builtin[got.SavesFP-1]; push != pop-8 {
			t.Errorf("pops into register %#x, pushes %#x", pop-0x58, push-0x50)
		}
		if twice := FindFrameBuilder(f, append(code, code...)); twice != (FrameBuilder{}) {
			t.Errorf("builtin = %+v where there are two", twice)
		}
	})
}

func TestAccessorsLeadToTheVariables(t *testing.T) {
	eachNode(t, func(t *testing.T, version string, f *elfsym.File) {
		words := FindBlobWords(f)
		if words.Code == 0 || words.Size == 0 || words.Code == words.Size {
			t.Fatalf("variables of the builtins = %+v, want two", words)
		}
		s, ok := f.Symbol(embeddedRange)
		if !ok {
			t.Fatalf("no %s", embeddedRange)
		}
		if got := decoderOf(f).stored(f, s); got != words {
			t.Errorf("variables that %s stores = %+v, want %+v", embeddedRange, got, words)
		}
		if _, ok := f.Symbol(embeddedCode); measured[version].wordsOfBuiltins && !ok {
			t.Errorf("no %s, which this version exports", embeddedCode)
		}
	})
}

func TestWasmStateIsWhereTheSymbolSays(t *testing.T) {
	eachNode(t, func(t *testing.T, _ string, f *elfsym.File) {
		s, ok := f.Symbol(wasmState)
		if got := WasmState(f); got == 0 || ok && got != s.Address {
			t.Errorf("pointer to the state of WebAssembly is at %#x, want %#x", got, s.Address)
		}
	})
}

func TestOtherProgramsHaveNothing(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f := nodetest.OpenELF(t, path)
	functions := FindFunctions(f)
	_, hasTable := functions.DispatchTable()
	if functions.HeapOffset() != 0 || functions.CEntryFP() != 0 || functions.GCCount() != 0 || hasTable || WasmState(f) != 0 || NodeVersion(f) != "" {
		t.Error("a program without V8 has offsets of it")
	}
	for _, name := range []string{codeKindName, TableAddress} {
		_, accesses := Accesses(f, name, false)
		_, constants := Constants(f, name)
		if _, table := Table(f, name); accesses || constants || table {
			t.Errorf("a program without V8 has %s", name)
		}
	}
	if s, w := Isolate(f), FindBlobWords(f); s != (Slot{}) || w != (BlobWords{}) {
		t.Errorf("isolate = %+v, builtins = %+v, want neither", s, w)
	}
}

// A patched file has other bytes in some places.
type patched struct {
	io.ReaderAt
	bytes map[int64]byte // by offset
}

func (p patched) ReadAt(b []byte, at int64) (int, error) {
	n, err := p.ReaderAt.ReadAt(b, at)
	for offset, value := range p.bytes {
		if i := offset - at; i >= 0 && i < int64(n) {
			b[i] = value
		}
	}
	return n, err
}

// FuzzDamagedCode decodes functions of which random bytes are wrong: an offset is
// within the Isolate, or not known.
func FuzzDamagedCode(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed)
	}
	path := nodetest.Node(f, "24.21.0")
	file, whole := openFile(f, path), nodetest.OpenELF(f, path)
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		wrong := patched{file, map[int64]byte{}}
		for _, name := range []string{addCallback, GCPrologue, CallsC, TableAddress, napiVersion, codeManager, embeddedRange, currentGetter, codeKindName} {
			for s := range whole.Symbols(name) {
				if offset, ok := whole.Offset(s.Address); ok {
					for range 4 {
						wrong.bytes[int64(offset)+int64(random.IntN(64))] = byte(random.Uint32())
					}
				}
			}
		}
		damaged, err := elfsym.Open(wrong)
		if err != nil {
			t.Fatal(err)
		}
		functions := FindFunctions(damaged)
		for name, offset := range map[string]uint32{"heap": functions.HeapOffset(), "c_entry_fp": functions.CEntryFP()} {
			if offset > maxIsolate+0x100 {
				t.Errorf("%s is at %#x of the isolate, of %#x bytes", name, offset, maxIsolate)
			}
		}
		if at := functions.GCCount(); at > 2*maxIsolate {
			t.Errorf("count of collections is at %#x of the isolate", at)
		}
		if d, ok := functions.DispatchTable(); ok && d.Isolate >= maxIsolate {
			t.Errorf("dispatch table is at %#x of the isolate", d.Isolate)
		}
		if version := NodeVersion(damaged); len(version) > 3*len(".4294967295") {
			t.Errorf("version = %q", version)
		}
		Accesses(damaged, codeKindName, true)
		Constants(damaged, codeKindName)
		Table(damaged, codeKindName)
		FindBlobWords(damaged)
		decodeIsolate(damaged)
		WasmState(damaged)
	})
}
