package disasm

import (
	"encoding/binary"
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
		_, size := Uncovered(f)
		builtins := Builtins(f, offset, size)
		if at := FindFunctions(f).CEntryFP(); !StoresFP(f, builtins, at) || StoresFP(f, builtins, at+24) {
			t.Errorf("builtins store the frame pointer at %#x: %t, at %#x: %t, want only the former",
				at, StoresFP(f, builtins, at), at+24, StoresFP(f, builtins, at+24))
		}
		s, _ := f.Symbol(frameBuilderName)
		got := FindFrameBuilder(f, builtins, offset)
		if code.Address+uint64(got.Start) != s.Address || got.ReturnsTo == 0 || uint64(got.ReturnsTo) >= s.Size {
			t.Errorf("builder = %+v, want it at %#x with a return in %d bytes", got, s.Address, s.Size)
		}
	})
}

// assemble returns code of these instructions.
func assemble(words ...uint32) []byte {
	var code []byte
	for _, w := range words {
		code = binary.LittleEndian.AppendUint32(code, w)
	}
	return code
}

func TestRegistersAreFollowed(t *testing.T) {
	for name, test := range map[string]struct {
		code []byte
		want value // of x0
	}{
		"mov of a number":         {assemble(0xd29bd400), value{of: number, n: 0xdea0}},                       // mov x0, #0xdea0
		"movk":                    {assemble(0xd2800020, 0xf2a00040), value{of: number, n: 0x20001}},          // mov x0, #1; movk x0, #2, lsl 16
		"add to an argument":      {assemble(0xd29bd403, 0x8b030000), value{of: argument, n: 0xdea0}},         // mov x3, #0xdea0; add x0, x0, x3
		"add of a shifted number": {assemble(0x91403c00), value{of: argument, n: 15 << 12}},                   // add x0, x0, #15, lsl 12
		"sub":                     {assemble(0xd1004000), value{of: argument, n: -16}},                        // sub x0, x0, #16
		"mov of bits":             {assemble(0xb2403fe0), value{of: number, n: 0xffff}},                       // mov x0, #0xffff
		"what a call keeps":       {assemble(0xaa0103f3, 0x94000001, 0xaa1303e0), value{of: argument, at: 1}}, // mov x19, x1; bl; mov x0, x19
		"what a call changes":     {assemble(0x94000001), value{of: opaque}},                                  // bl
		"load of a variable":      {assemble(0xb0000000, 0xf9400400), value{of: variable, at: 0x11008}},       // adrp x0, 0x11000; ldr x0, [x0, #8]
		"compare":                 {assemble(0xeb01001f), value{of: argument}},                                // cmp x0, x1
		"branch":                  {assemble(0xb4000040), value{of: argument}},                                // cbz x0
		"vector":                  {assemble(0x4e080c00), value{of: argument}},                                // dup v0.2d, x0
		"write back":              {assemble(0xf8408420, 0xaa0103e0), value{of: opaque, at: 1}},               // ldr x0, [x1], #8; mov x0, x1
		"load of a pair":          {assemble(0xa9400001), value{of: field, at: 8 << 8}},                       // ldp x1, x0, [x0]
		"thread pointer":          {assemble(0xd53bd040, 0x91400000, 0x91038000), value{of: thread, n: 224}},  // mrs; add #0, lsl 12; add #224
		"zero":                    {assemble(0xaa1f03e0), value{of: number}},                                  // mov x0, xzr
		"movn":                    {assemble(0x92800000), value{of: number, n: -1}},                           // mov x0, #-1
	} {
		t.Run(name, func(t *testing.T) {
			var got value
			for r := range traceCode(append(test.code, assemble(0xd503201f)...), 0x10000) { // nop
				got = r[0]
			}
			if got != test.want {
				t.Errorf("x0 = %+v, want %+v", got, test.want)
			}
		})
	}
}
