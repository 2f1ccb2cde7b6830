package v8

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8/disasm"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// A patched file reads as another file with one byte changed.
type patched struct {
	io.ReaderAt
	offset int64
	value  byte
}

func (f patched) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, at)
	if i := f.offset - at; i >= 0 && i < int64(n) {
		p[i] = f.value
	}
	return n, err
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

func open(t *testing.T, r io.ReaderAt) *elfsym.File {
	t.Helper()
	f, err := elfsym.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestOtherProgramsHaveNoV8(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Inspect(nodetest.OpenELF(t, path))
	if b != nil || !errors.Is(err, ErrNotV8) {
		t.Errorf("Inspect() = %v, %v, want %v", b, err, ErrNotV8)
	}
}

func TestUnknownVersionIsNotGuessedAt(t *testing.T) {
	file := openFile(t, nodetest.Node(t, "26.10.0"))
	f := open(t, file)
	major, ok := f.Symbol(versionSymbol + "6major_E")
	if !ok {
		t.Fatal("no symbol for V8's major version")
	}
	offset, ok := f.Offset(major.Address)
	if !ok {
		t.Fatal("V8's major version is not in the file")
	}
	b, err := Inspect(open(t, patched{file, int64(offset), 15}))
	var unknown *release.UnknownVersionError
	if b != nil || !errors.As(err, &unknown) {
		t.Fatalf("Inspect() = %v, %v, want an UnknownVersionError", b, err)
	}
	if want := (release.Version{Major: 15, Minor: 6, Build: 202, Patch: 34}); unknown.Version != want {
		t.Errorf("unknown version = %v, want %v", unknown.Version, want)
	}
	if want := "V8 15.6.202.34"; !contains(err, want) {
		t.Errorf("error = %q, want %q in it", err, want)
	}
}

// TestStrippedFileTellsTheSame compares what is known about a stripped binary
// with what its symbols say.
func TestStrippedFileTellsTheSame(t *testing.T) {
	versions := nodetest.Versions
	if os.Getenv("USTACK_MATRIX") != "1" {
		versions = []string{"18.20.8", "24.21.0"}
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			whole, got := inspect(t, nodetest.Node(t, version)), inspect(t, nodetest.StrippedNode(t, version))
			if len(got.Missing) > 0 {
				t.Errorf("missing = %q, want nothing", got.Missing)
			}
			address, size := builtinsOf(t, nodetest.Node(t, version), whole)
			gotAddress, gotSize := builtinsOf(t, nodetest.StrippedNode(t, version), got)
			const alignment = 4 << 12 // of the builtins: pages before and after
			if gotAddress > address || gotAddress+gotSize < address+size || gotSize > size+alignment {
				t.Errorf("builtins = %#x, %d bytes, want %#x, %d bytes", gotAddress, gotSize, address, size)
			}
			want := whole.Layout
			if whole.dispatch.Group != 0 { // its accessor is gone: each isolate points to the table
				want.DispatchTable = got.Layout.DispatchTable
			}
			if want.Handlers == 0 {
				t.Error("the bytecode handlers have symbols, but no place")
			}
			want.Handlers = 0                            // only symbols tell
			want.Builder += uint32(address - gotAddress) // from where the builtins are taken to begin
			if diff := cmp.Diff(want, got.Layout); diff != "" {
				t.Errorf("layout (-whole +stripped):\n%s", diff)
			}
			if got.NodeVersion != whole.NodeVersion {
				t.Errorf("node = %s, want %s", got.NodeVersion, whole.NodeVersion)
			}
		})
	}
}

// builtinsOf returns the builtins' address: strip moves the file's contents.
func builtinsOf(t *testing.T, path string, b *Binary) (address, size uint64) {
	t.Helper()
	offset, size := b.Builtins()
	address, ok := nodetest.OpenELF(t, path).Address(offset)
	if !ok {
		t.Fatalf("%s has no builtins", path)
	}
	return address, size
}

func TestBuiltinsThatAreElsewhereAreRefused(t *testing.T) {
	mem := make(space, 16)
	b := &Binary{
		guessed: true, blobOffset: 0x1000, blobSize: 0x100000,
		words:  disasm.BlobWords{Code: fuzzBase, Size: fuzzBase + 8},
		offset: func(address uint64) (uint64, bool) { return address - 0x400000, address >= 0x400000 },
	}
	if err := b.CheckBuiltins(mem, 0); err != nil || !b.guessed {
		t.Errorf("before V8 starts: %v, guessed = %v, want no answer", err, b.guessed)
	}
	binary.LittleEndian.PutUint64(mem[8:], 0x80000)
	for start, want := range map[uint64]bool{0x401000: true, 0x481000: true, 0x400f00: false, 0x481001: false, 0x1000: false} {
		binary.LittleEndian.PutUint64(mem, start)
		b.guessed, b.blobOffset, b.blobSize = true, 0x1000, 0x100000
		if err := b.CheckBuiltins(mem, 0); (err == nil) != want {
			t.Errorf("builtins at %#x: %v, want success: %v", start, err, want)
		}
	}
}

func TestThreadsIsolateIsNotLookedForInAHostileKey(t *testing.T) {
	key := make(space, 4)
	b := &Binary{machine: elf.EM_X86_64, isolate: disasm.Slot{Key: fuzzBase}}
	for first, want := range map[byte]int64{0: 0x318, 6: 0x378, 31: 0x508, 32: 0} {
		key[0] = first
		got, err := b.TLSIsolate(key, 0)
		if got.Offset != want || err != nil {
			t.Errorf("TLSIsolate() with key %d = %#x, %v, want %#x", first, got.Offset, err, want)
		}
	}
	if _, err := b.TLSIsolate(key, 8); err == nil {
		t.Error("TLSIsolate() succeeded where the key cannot be read")
	}
}

func TestDispatchBaseIsZeroBeforeV8Starts(t *testing.T) {
	b := &Binary{dispatch: disasm.Dispatch{Group: fuzzBase, Offset: 16}}
	if base, err := b.DispatchBase(make(space, 8), 0); base != 0 || err != nil {
		t.Errorf("DispatchBase() = %#x, %v, want 0", base, err)
	}
	if _, err := b.DispatchBase(make(space, 4), 0); err == nil {
		t.Error("DispatchBase() succeeded where the group cannot be read")
	}
}
