package disasm

import (
	"slices"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// eachARM runs test with the file for arm64 of each major version.
func eachARM(t *testing.T, test func(t *testing.T, version string, f *elfsym.File)) {
	for _, version := range nodetest.VersionsFor("arm64") {
		t.Run(version, func(t *testing.T) {
			test(t, version, nodetest.OpenELF(t, nodetest.NodeFor(t, version, "arm64")))
		})
	}
}

// TestOffsetsAreAlikeOnARM: they are the same in all 64-bit builds of a release.
func TestOffsetsAreAlikeOnARM(t *testing.T) {
	eachARM(t, func(t *testing.T, version string, f *elfsym.File) {
		want, functions := measured[version], FindFunctions(f)
		if got := functions.HeapOffset(); got != want.heap {
			t.Errorf("heap is at %#x of the isolate, want %#x", got, want.heap)
		}
		if got := functions.CEntryFP(); got != want.entryFP {
			t.Errorf("c_entry_fp is at %#x of the isolate, want %#x", got, want.entryFP)
		}
		whole := FindFunctions(nodetest.OpenELF(t, nodetest.NodeFor(t, version, "amd64")))
		if got := functions.GCCount(); got == 0 || got != whole.GCCount() {
			t.Errorf("the count of collections is at %#x of the isolate, want %#x", got, whole.GCCount())
		}
		d, ok := functions.DispatchTable()
		if has := want.inGroup != 0 || want.inIsolate != 0; ok != has || d.Offset != want.inGroup || int64(d.Isolate) != want.inIsolate {
			t.Errorf("dispatch table = %+v, %t, want %#x in a group or %#x in the isolate", d, ok, want.inGroup, want.inIsolate)
		}
		if got := NodeVersion(f); got != "v"+version {
			t.Errorf("version = %q, want %q", got, "v"+version)
		}
	})
}

// TestPlacesAreThoseOfSymbolsOnARM compares what is decoded with symbols.
func TestPlacesAreThoseOfSymbolsOnARM(t *testing.T) {
	eachARM(t, func(t *testing.T, version string, f *elfsym.File) {
		if s, ok := f.Symbol(wasmState); ok && WasmState(f) != s.Address {
			t.Errorf("state of WebAssembly = %#x, want %#x", WasmState(f), s.Address)
		}
		words := FindBlobWords(f)
		if words.Code == 0 || words.Size == 0 || words.Code == words.Size {
			t.Errorf("variables of the builtins = %+v, want two", words)
		}
		code, ok := f.Symbol("v8_Default_embedded_blob_code_data_") // up to V8 10
		if !ok {
			code, ok = f.Symbol("v8_Default_embedded_blob_code_")
		}
		offset, inFile := f.Offset(code.Address)
		if !ok || !inFile {
			t.Fatal("no symbol of the builtins")
		}
		start, size := Uncovered(f)
		if start > code.Address || code.Address-start >= 1<<16 || start%builtinAlignment != 0 {
			t.Errorf("builtins begin at %#x, want it aligned, at most 64 KiB before %#x", start, code.Address)
		}
		builtins := Builtins(f, offset, size)
		if at := FindFunctions(f).CEntryFP(); !StoresFP(f, builtins, at) || StoresFP(f, builtins, at+24) {
			t.Errorf("builtins store the frame pointer at %#x: %t, at %#x: %t, want only the former",
				at, StoresFP(f, builtins, at), at+24, StoresFP(f, builtins, at+24))
		}
		s, _ := f.Symbol("Builtins_BaselineOutOfLinePrologue")
		got := FindFrameBuilder(f, builtins)
		if code.Address+uint64(got.Start) != s.Address || got.ReturnsTo == 0 || uint64(got.ReturnsTo) >= s.Size {
			t.Errorf("builder = %+v, want it at %#x with a return in %d bytes", got, s.Address, s.Size)
		}
		if twice := FindFrameBuilder(f, slices.Concat(builtins[:len(builtins)/builtinAlignment*builtinAlignment], builtins)); twice != (FrameBuilder{}) {
			t.Errorf("builder = %+v where there are two", twice)
		}
		end := int(got.Start) + int(got.ReturnsTo)
		for cut := end - maxBuilder; cut < end; cut++ {
			if part := FindFrameBuilder(f, builtins[:max(cut, 0)]); part != (FrameBuilder{}) {
				t.Errorf("builder = %+v in code that ends at %#x, before it returns", part, cut)
			}
		}
	})
}
