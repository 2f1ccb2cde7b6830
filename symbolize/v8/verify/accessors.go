package verify

import (
	"errors"
	"fmt"
	"slices"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/disasm"
)

// An accessor is a function of V8 that reads or writes fields at offsets which a release
// gives.
type accessor struct {
	function string // its symbol
	of       string // what remains unverified without it
	offsets  []int64
	within   bool // its first argument is not the object itself but holds its address
}

// accessors returns the accessors whose code a layout must agree with. The Heap is at an
// offset in the Isolate.
func accessors(l *v8.Layout, heap uint32) []accessor {
	return []accessor{
		{disasm.SetIdle, "the state of collections", []int64{int64(l.VMState)}, false},
		{disasm.SetGCState, "the state of collections", []int64{int64(l.GCState) - int64(heap)}, false},
		{disasm.BuiltinExitFunction, "frames of functions in C++", []int64{int64(l.BuiltinExitFunction)}, true},
		{disasm.APIExitTemplate, "frames of functions in C++", []int64{int64(l.APIExitFunction)}, true},
		{disasm.TemplateShared, "frames of functions in C++", []int64{tagged(l.TemplateShared)}, true},
		{disasm.UpdateDataCache, "texts of an embedder", []int64{int64(l.ExternalData)}, false},
		{disasm.SourceURL, "names of evaluated scripts", []int64{tagged(l.ScriptSourceURL)}, true},
		{disasm.SourceMapURL, "source maps", []int64{tagged(l.ScriptSourceMapURL)}, true},
		{
			disasm.PositionInfo, "lines of scripts that are part of a file",
			[]int64{smiAt(l.ScriptType), smiAt(l.ScriptLineOffset), smiAt(l.ScriptColumnOffset)},
			true,
		},
		{
			disasm.WasmScript, "frames of WebAssembly",
			[]int64{tagged(l.WasmInstance), tagged(l.WasmModule), tagged(l.WasmScript)},
			true,
		},
	}
}

const (
	wordSize = 8
	heapTag  = 1
	smiShift = 32
)

// tagged returns the displacement by which code accesses a field of a tagged object.
func tagged(offset uint16) int64 { return int64(offset) - heapTag }

// smiAt is tagged for the value of a small integer, which is in the upper half of its word.
func smiAt(offset uint16) int64 { return tagged(offset) + wordSize/2 }

// notInCode lists what V8's accessors do not show, nor a process without such frames.
var notInCode = []string{"frames of regular expressions", "initializers of static fields", "tiers of WebAssembly"}

// checkCode compares the layout of b with the code of V8's own accessors in f, which b was
// read from. It returns an error for the first that disagrees, and lists what remains
// unverified since f does not say where that code is.
func checkCode(b *v8.Binary, f *elfsym.File) (unverified []string, err error) {
	unverified = slices.Clone(notInCode)
	omit := func(of string) {
		if !slices.Contains(unverified, of) {
			unverified = append(unverified, of)
		}
	}
	for _, a := range accessors(&b.Layout, disasm.FindFunctions(f).HeapOffset()) {
		found, ok := disasm.Accesses(f, a.function, a.within)
		if !ok {
			omit(a.of)
			continue
		}
		for _, offset := range a.offsets {
			if !found[offset] {
				return nil, fmt.Errorf("%s: V8's %s does not access offset %#x", a.of, a.function, offset)
			}
		}
	}
	if b.Layout.ScriptLineOffset == b.Layout.ScriptColumnOffset {
		return nil, errors.New("lines and columns of scripts have the same offset")
	}
	for _, c := range []struct {
		of    string
		check func(*v8.Binary, *elfsym.File) (ok bool, err error)
	}{{"scopes with many variables", checkScopes}, {"tiers", checkKinds}} {
		switch ok, err := c.check(b, f); {
		case err != nil:
			return nil, fmt.Errorf("%s: %w", c.of, err)
		case !ok:
			omit(c.of)
		}
	}
	slices.Sort(unverified)
	return unverified, nil
}

// moduleScope is the type of a module's scope.
const moduleScope = "module"

// checkScopes compares the form of ScopeInfos with V8's own decoder. It reports whether
// f has that.
func checkScopes(b *v8.Binary, f *elfsym.File) (ok bool, err error) {
	found, ok := disasm.Constants(f, disasm.ScopeLocals)
	if !ok {
		return false, nil
	}
	scopes := &b.Release.Scopes
	if inlined := int64(scopes.MaxInlined); !found[inlined] && !found[inlined<<smiShift] {
		return false, fmt.Errorf("V8's %s does not compare with %d variables", disasm.ScopeLocals, inlined)
	}
	module := int64(slices.Index(scopes.Types, moduleScope))
	if found[module] != scopes.ModuleVariables {
		return false, fmt.Errorf("V8's %s compares with the type of modules: %v", disasm.ScopeLocals, found[module])
	}
	return true, nil
}

// kindNames has the names that V8 gives the kinds of code.
const (
	nameBaseline = "BASELINE"
	nameMaglev   = "MAGLEV"
	nameTurbofan = "TURBOFAN_JS"
)

// checkKinds compares the kinds of code with V8's own names for them. It reports whether
// f has those at fixed addresses.
func checkKinds(b *v8.Binary, f *elfsym.File) (ok bool, err error) {
	names, ok := disasm.Table(f, disasm.KindNames)
	if !ok {
		return false, nil
	}
	for _, k := range []struct {
		kind uint8
		name string
	}{
		{b.Layout.KindBaseline, nameBaseline}, {b.Layout.KindMaglev, nameMaglev}, {b.Layout.KindTurbofan, nameTurbofan},
	} {
		at, err := v8.ReadWord(f, names+uint64(k.kind)*wordSize)
		if err != nil {
			return false, err
		}
		text := make([]byte, len(k.name)+1)
		if _, err := f.ReadAt(text, at); err != nil || string(text) != k.name+"\x00" {
			return false, fmt.Errorf("V8 calls kind %d %q, not %q", k.kind, text, k.name)
		}
	}
	return true, nil
}
