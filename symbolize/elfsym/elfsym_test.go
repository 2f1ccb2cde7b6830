package elfsym_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// open opens the ELF file at path until the test ends.
func open(t testing.TB, path string) *elfsym.File {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elfsym.Open(r)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := f.Partial(); err != nil {
		t.Errorf("partial: %v", err)
	}
	return f
}

// library builds testdata/functions.c.
func library(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libfunctions.so")
	run(t, "gcc", "-O2", "-shared", "-fPIC", "-Wl,--build-id=sha1", "-o", path, "testdata/functions.c")
	return path
}

// run returns a command's standard output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		nodetest.MustRun(t, name+" is not installed")
	}
	cmd := exec.Command(name, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, &stderr)
	}
	return string(out)
}

func TestLookupPrefersTheBestName(t *testing.T) {
	f := open(t, library(t))
	tests := []struct {
		from   string // an address is a symbol's plus an offset
		offset uint64
		want   string
	}{
		{"exported", 0, "exported or public_alias"}, // not __exported; weak counts as much
		{"hidden_helper", 4, "hidden_helper"},
		{"choose", 0, "indirect"}, // the symbol of an indirect function is at its resolver
		{"outer", 0, "outer"},
		{"outer", 1, "outer"}, // a label within a sized function is not a function
		{"outer", 2, "outer"},
		{"nested", 0, "nested"},
		{"nested", 1, "nested"},
		{"nested", 2, "outer"}, // again
		{"after_outer", 0, "after_outer"},
		{"after_outer", 1, "after_outer"},
		{"typed_sizeless", 1, "typed_sizeless"},
		{"sized_global", 0, "sized_global"},
		{"sized_global", 1, "sized_global"},
		{"sized_global", 2, "sized_local"}, // which is longer
		{"sized_global", 4, ""},
		{"initialised", 0, ""}, // data
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s+%d", tt.from, tt.offset), func(t *testing.T) {
			from, ok := f.Symbol(tt.from)
			if !ok {
				t.Fatalf("no symbol %s", tt.from)
			}
			got, ok := f.Lookup(from.Address + tt.offset)
			if ok != (tt.want != "") || ok && !slices.Contains(strings.Split(tt.want, " or "), got.Name) {
				t.Errorf("Lookup = %q, %v, want %q", got.Name, ok, tt.want)
			}
		})
	}
}

func TestSymbolKinds(t *testing.T) {
	f := open(t, library(t))
	type kind struct {
		Size uint64
		Type elf.SymType
		Bind elf.SymBind
	}
	tests := []struct {
		name string
		want kind
	}{
		{"initialised", kind{16, elf.STT_OBJECT, elf.STB_GLOBAL}},
		{"zeroed", kind{4096, elf.STT_OBJECT, elf.STB_GLOBAL}},
		{"per_thread", kind{8, elf.STT_TLS, elf.STB_GLOBAL}},
		{"nested", kind{2, elf.STT_FUNC, elf.STB_LOCAL}},
		{"after_outer", kind{0, elf.STT_NOTYPE, elf.STB_LOCAL}},
		{"public_alias", kind{0, elf.STT_FUNC, elf.STB_WEAK}},
		{"indirect", kind{0, elf.STT_GNU_IFUNC, elf.STB_GLOBAL}},
	}
	for _, tt := range tests {
		s, ok := f.Symbol(tt.name)
		if !ok || s.Name != tt.name {
			t.Errorf("Symbol(%q) = %v, %v", tt.name, s, ok)
		}
		got := kind{s.Size, s.Type, s.Bind}
		if tt.want.Size == 0 && tt.want.Type != elf.STT_NOTYPE {
			got.Size = 0 // up to the compiler
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Symbol(%q) (-want +got):\n%s", tt.name, diff)
		}
	}
	for _, name := range []string{"", "export", "exported2", "functions.c", "hidden_helper\x00"} {
		if s, ok := f.Symbol(name); ok {
			t.Errorf("Symbol(%q) = %v, want none", name, s)
		}
	}
}

func TestMemory(t *testing.T) {
	path := library(t)
	f := open(t, path)
	initialised, _ := f.Symbol("initialised")
	got := make([]byte, 16)
	if n, err := f.ReadAt(got, initialised.Address); n != 16 || err != nil {
		t.Fatalf("ReadAt = %d, %v", n, err)
	}
	want := []byte{11, 0, 0, 0, 22, 0, 0, 0, 33, 0, 0, 0, 44, 0, 0, 0}
	if !bytes.Equal(got, want) {
		t.Errorf("initialised = %v, want %v", got, want)
	}
	zeroed, _ := f.Symbol("zeroed")
	got = bytes.Repeat([]byte{0xff}, int(zeroed.Size))
	if n, err := f.ReadAt(got, zeroed.Address); n != len(got) || err != nil || !bytes.Equal(got, make([]byte, len(got))) {
		t.Errorf("zeroed: read %d bytes, not all zero or %v", n, err)
	}
	if offset, ok := f.Offset(zeroed.Address); ok {
		t.Errorf("Offset of .bss = %#x, want none", offset)
	}
	for _, address := range []uint64{1 << 40, ^uint64(0)} {
		if n, err := f.ReadAt(make([]byte, 4), address); n != 0 || err == nil {
			t.Errorf("ReadAt(%#x) = %d, %v, want an error", address, n, err)
		}
	}
	// Past the end of the data: ReadAt reads what is there, then returns an
	// error.
	last := zeroed.Address + zeroed.Size
	if n, err := f.ReadAt(make([]byte, 1<<20), last-8); n < 8 || n > 64 || err == nil {
		t.Errorf("ReadAt over the end = %d, %v, want 8 bytes or a few more and an error", n, err)
	}
	if f.TLSSize() != 8 || f.TLSAlign() != 64 {
		t.Errorf("TLS %d, %d, want 8, 64", f.TLSSize(), f.TLSAlign())
	}
}

// TestOffsetsAndAddresses converts back and forth around each loaded byte, and
// compares code with the file's contents.
func TestOffsetsAndAddresses(t *testing.T) {
	path := library(t)
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	for offset := uint64(0); offset < uint64(len(content)); offset += 3 {
		address, ok := f.Address(offset)
		if !ok {
			continue
		}
		if back, ok := f.Offset(address); !ok || back != offset {
			t.Fatalf("Offset(Address(%#x)) = %#x, %v", offset, back, ok)
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], address); err != nil || b[0] != content[offset] {
			t.Fatalf("ReadAt(%#x) = %#x, %v, want %#x", address, b[0], err, content[offset])
		}
	}
	if address, ok := f.Address(uint64(len(content))); ok {
		t.Errorf("Address beyond the file = %#x, want none", address)
	}
}

// TestDebugData strips a library as distributions with mini debug information do:
// the symbols that .dynsym lacks are packed.
func TestDebugData(t *testing.T) {
	path := library(t)
	dir := filepath.Dir(path)
	mini, stripped, packed := filepath.Join(dir, "mini"), filepath.Join(dir, "stripped.so"), filepath.Join(dir, "packed.so")
	run(t, "objcopy", "--only-keep-debug", path, mini)
	run(t, "xz", "-9", "--keep", mini)
	run(t, "strip", "-o", stripped, path)
	run(t, "objcopy", "--add-section", ".gnu_debugdata="+mini+".xz", stripped, packed)

	whole := open(t, path)
	want, _ := whole.Symbol("hidden_helper")
	bare := open(t, stripped)
	if !bare.Stripped() || whole.Stripped() {
		t.Errorf("stripped = %v, %v, want true of the stripped file alone", bare.Stripped(), whole.Stripped())
	}
	if got, ok := bare.Lookup(want.Address); ok {
		t.Errorf("Lookup in the stripped file = %v, want nothing", got)
	}
	f := open(t, packed)
	if f.Stripped() {
		t.Error("stripped, although .gnu_debugdata is there")
	}
	if got, _ := f.Lookup(want.Address + 1); got != want {
		t.Errorf("Lookup = %v, want %v", got, want)
	}
	if got, _ := f.Symbol("hidden_helper"); got != want {
		t.Errorf("Symbol = %v, want %v", got, want)
	}
	exported := 0
	for range f.Symbols("exported") {
		exported++
	}
	if exported != 1 {
		t.Errorf("exported is there %d times, want once", exported)
	}
}

func TestDamagedDebugDataLeavesTheRest(t *testing.T) {
	path := library(t)
	dir := filepath.Dir(path)
	garbage, damaged := filepath.Join(dir, "garbage"), filepath.Join(dir, "damaged.so")
	if err := os.WriteFile(garbage, []byte("not packed"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "objcopy", "--strip-all", "--add-section", ".gnu_debugdata="+garbage, path, damaged)
	r, err := os.Open(damaged)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elfsym.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Partial(); err == nil || !strings.Contains(err.Error(), ".gnu_debugdata") {
		t.Errorf("partial = %v, want one about .gnu_debugdata", err)
	}
	if _, ok := f.Symbol("exported"); !ok {
		t.Error("no symbol exported")
	}
}

func TestVDSO(t *testing.T) {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	var start, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.HasSuffix(line, "[vdso]\n") {
			if _, err := fmt.Sscanf(line, "%x-%x", &start, &end); err != nil {
				t.Fatal(err)
			}
		}
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	image := make([]byte, end-start)
	if _, err := mem.ReadAt(image, start); err != nil {
		t.Fatal(err)
	}
	f, err := elfsym.Open(bytes.NewReader(image))
	if err != nil {
		t.Fatal(err)
	}
	want, ok := f.Symbol("__vdso_clock_gettime")
	if !ok {
		t.Fatal("no __vdso_clock_gettime")
	}
	got, ok := f.Lookup(want.Address + want.Size/2)
	if !ok || got.Address != want.Address {
		t.Errorf("Lookup = %v, %v, want %v", got, ok, want)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	small := func(edit func([]byte)) []byte {
		header := make([]byte, 64)
		copy(header, "\x7fELF\x02\x01\x01")
		header[16], header[18], header[20] = 3, 62, 1 // ET_DYN, x86-64, version
		header[52], header[54], header[58] = 64, 56, 64
		edit(header)
		return header
	}
	tests := []struct {
		name  string
		image []byte
		want  string // part of the error; empty for no error
	}{
		{"a header alone", small(func([]byte) {}), ""},
		{"empty", nil, "EOF"},
		{"text", []byte(strings.Repeat("#!/bin/sh\n", 20)), "bad magic"},
		{"big endian", small(func(h []byte) {
			h[5] = 2
			h[16], h[17], h[18], h[19], h[20], h[23] = 0, 3, 0, 62, 0, 1
			h[52], h[53], h[54], h[55], h[58], h[59] = 0, 64, 0, 56, 0, 64
		}), "little endian"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, err := elfsym.Open(bytes.NewReader(tt.image))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error = %v, want one with %q", err, tt.want)
			}
			if err := f.Close(); err != nil { // a nil File too
				t.Error(err)
			}
		})
	}
}

func TestDemangled(t *testing.T) {
	tests := []struct{ name, want string }{
		{"main", "main"},
		{"uv__work_submit", "uv__work_submit"},
		{"_ZN4node2fsL4OpenERKN2v820FunctionCallbackInfoINS1_5ValueEEE", "node::fs::Open"},
		{"_ZN2v88internal4Heap14CollectGarbageENS0_15AllocationSpaceENS0_23GarbageCollectionReasonE", "v8::internal::Heap::CollectGarbage"},
		{"_ZN6icu_786Locale5getUSEv.cold", "icu_78::Locale::getUS"},
		{"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector<int, std::allocator<int> >::push_back"},
		{"_ZN1AcvT_IiEEv", "A::operator int<int>"},
		{"_ZZN4node3fooEiENKUlvE_clEv", "node::foo()::{lambda()#1}::operator()"},
		{"_ZThn16_N3Foo3barEv", "non-virtual thunk to Foo::bar()"},
		{"_RNvC6_123foo3bar", "123foo::bar"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
		{"_Znonsense", "_Znonsense"},
		{"Builtins_InterpreterEntryTrampoline", "Builtins_InterpreterEntryTrampoline"},
	}
	for _, tt := range tests {
		if got := (elfsym.Symbol{Name: tt.name}).Demangled(); got != tt.want {
			t.Errorf("Demangled(%q) = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	f := open(t, library(t))
	want, _ := f.Symbol("exported")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, _ := f.Symbol("exported"); got != want {
				t.Errorf("Symbol = %v, want %v", got, want)
			}
			if got, _ := f.Lookup(want.Address); got.Address != want.Address {
				t.Errorf("Lookup = %v, want one at %#x", got, want.Address)
			}
		})
	}
	group.Wait()
}

// TestMemoryOfAnOpenFile checks the memory budget of a large binary: 15 MB, of
// which the index takes less than half.
func TestMemoryOfAnOpenFile(t *testing.T) {
	const budget = 15 << 20
	before := heap()
	f := open(t, nodetest.Node(t, newest))
	if _, ok := f.Symbol("uv_run"); !ok {
		t.Error("no uv_run")
	}
	if used := heap() - before; used > budget {
		t.Errorf("%d bytes are in use, want at most %d", used, budget)
	}
	runtime.KeepAlive(f)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestSearch looks for bytes of a node binary: also for those where one step of the search
// ends, and for those that programs can write.
func TestSearch(t *testing.T) {
	f := open(t, nodetest.Node(t, "24.21.0"))
	const pattern = 24
	for name, symbol := range map[string]string{
		"constant": "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE",
		"code":     "_ZN2v87Isolate10GetCurrentEv",
	} {
		s, ok := f.Symbol(symbol)
		if !ok {
			t.Fatalf("no symbol %s", symbol)
		}
		for _, address := range []uint64{s.Address, s.Address&^(1<<20-1) + 1<<20 - 5} {
			b := make([]byte, pattern)
			if _, err := f.ReadAt(b, address); err != nil {
				t.Fatal(err)
			}
			found, err := f.Search(b)
			if err != nil || len(found) < 64 && !slices.Contains(found, address) {
				t.Errorf("%s: found at %#x, %v, want %#x among them", name, found, err, address)
			}
		}
	}
	if found, err := f.Search([]byte("these bytes are in no version of node")); len(found) != 0 || err != nil {
		t.Errorf("found at %#x, %v, want nowhere", found, err)
	}
}
