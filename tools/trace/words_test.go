package trace

import (
	"slices"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/wasm"
)

// word returns a frame's word.
func word(kind bpf.TraceFrameKind, rest uint64) uint64 { return uint64(kind)<<kindShift | rest }

func TestCallersAreLookedUpInTheCall(t *testing.T) {
	const pc = 0x1000
	kernel := ^uint64(0) - 0xfff
	native := word(bpf.TraceFrameKindFRAME_NATIVE, pc)
	typed := word(bpf.TraceFrameKindFRAME_TYPED, pc)
	for _, tt := range []struct {
		name  string
		words []uint64
		at    int
		want  place
	}{
		{"the leaf", []uint64{native}, 0, place{pc, pc}},
		{"where a call returns to", []uint64{native, native | isReturn}, 1, place{pc, pc - 1}},
		{"what a signal interrupted", []uint64{native, native}, 1, place{pc, pc}},
		{"V8's code at the leaf", []uint64{typed}, 0, place{pc, pc}},
		{"V8's code below", []uint64{native, typed}, 1, place{pc, pc - 1}},
		{"V8's code that an interrupt left", []uint64{kernel, typed}, 1, place{pc, pc}},
		{"the kernel's leaf", []uint64{kernel}, 0, place{kernel, kernel}},
		{"the kernel's caller", []uint64{kernel, kernel}, 1, place{kernel, kernel - 1}},
	} {
		if got := placeOf(tt.words, tt.at); got != tt.want {
			t.Errorf("%s: place = %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestFramesAreNamedByTheirKind names one frame of each kind without a process.
func TestFramesAreNamedByTheirKind(t *testing.T) {
	table := NewTable(Maps{})
	table.functions[1] = function{name: "f", script: scriptKey{1, 7}, line: 3, column: 5}
	table.functions[2] = function{script: scriptKey{1, 7}}
	table.functions[3] = function{name: "push"}
	table.functions[4] = function{name: "RegExp: /a/", regexp: true}
	table.functions[5] = function{name: "exported", script: scriptKey{1, 8}}
	table.scripts[scriptKey{1, 7}] = script{name: "/srv/a.js"}
	table.scripts[scriptKey{1, 8}] = script{wasm: true}
	named := table.number(namedFrame{symbolize.Frame{Kind: symbolize.Wasm, Name: "add"}, &wasmModule{url: "wasm://a"}})
	for _, tt := range []struct {
		name string
		word uint64
		want symbolize.Frame
	}{
		{"a function", word(bpf.TraceFrameKindFRAME_JS, 1), symbolize.Frame{Kind: symbolize.JS, Name: "f", File: "/srv/a.js", Line: 3, Column: 5}},
		{"one without a name", word(bpf.TraceFrameKindFRAME_JS, 2), symbolize.Frame{Kind: symbolize.JS, Name: Anonymous, File: "/srv/a.js"}},
		{"one of V8's own", word(bpf.TraceFrameKindFRAME_JS, 3), symbolize.Frame{Kind: symbolize.Builtin, Name: "push"}},
		{"one whose record was lost", word(bpf.TraceFrameKindFRAME_JS, 99), symbolize.Frame{Name: symbolize.Unknown, Module: jit}},
		{"a wrapper of WebAssembly", word(bpf.TraceFrameKindFRAME_JS, 5), symbolize.Frame{Kind: symbolize.Wasm, Name: toWasm}},
		{"WebAssembly", named, symbolize.Frame{Kind: symbolize.Wasm, Name: "add", File: "wasm://a"}},
		{"a text", word(bpf.TraceFrameKindFRAME_TEXT, 1), symbolize.Frame{Name: "f"}},
		{"a regular expression", word(bpf.TraceFrameKindFRAME_TEXT, 4), symbolize.Frame{Kind: symbolize.RegExp, Name: "RegExp: /a/"}},
		{"a gap", word(bpf.TraceFrameKindFRAME_GAP, 0), symbolize.Frame{Name: symbolize.Broken}},
		{"an object without a process", word(bpf.TraceFrameKindFRAME_DATA, 0x1000), symbolize.Frame{Name: symbolize.Unknown}},
		{"native code without a process", word(bpf.TraceFrameKindFRAME_NATIVE, 0x1000), symbolize.Frame{Name: symbolize.Unknown, Offset: 0x1000}},
	} {
		if got := table.frame(nil, tt.word, placeOf([]uint64{tt.word}, 0)); got != tt.want {
			t.Errorf("%s: frame = %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestEndsOfStacksAreMarked has stacks that were cut, and that broke off.
func TestEndsOfStacksAreMarked(t *testing.T) {
	table := NewTable(Maps{})
	table.functions[1] = function{name: "f", script: scriptKey{1, 7}}
	words := []uint64{word(bpf.TraceFrameKindFRAME_JS, 1), word(bpf.TraceFrameKindFRAME_JS, 1)}
	for _, tt := range []struct {
		stack Stack
		want  string // the last frame's name
	}{
		{Stack{words: words}, "f"},
		{Stack{words: words, Truncated: true}, symbolize.Truncated},
		{Stack{words: words, broken: true}, symbolize.Broken},
		{Stack{words: words, broken: true, Truncated: true}, symbolize.Truncated},
	} {
		frames, unknown := table.Frames(tt.stack)
		if got := frames[len(frames)-1].Name; got != tt.want || unknown != 0 {
			t.Errorf("last frame = %q, %d unknown, want %q", got, unknown, tt.want)
		}
	}
}

func TestOutermostFrameIsTheCLibrarys(t *testing.T) {
	libc, ld := symbolize.Frame{Name: "clone", Module: "/lib/libc.so.6"}, symbolize.Frame{Module: "/lib64/ld-linux-x86-64.so.2"}
	old := symbolize.Frame{Module: "/lib/libc-2.31.so"}
	main := symbolize.Frame{Name: "main", Module: "/bin/node"}
	for _, tt := range []struct {
		frames []symbolize.Frame
		want   bool
	}{
		{nil, true},
		{[]symbolize.Frame{libc}, false},
		{[]symbolize.Frame{main, libc}, true},
		{[]symbolize.Frame{main, ld}, true},
		{[]symbolize.Frame{main, old}, true},
		{[]symbolize.Frame{libc, libc}, false},
		{[]symbolize.Frame{libc, main}, false},
	} {
		if got := isOutermost(tt.frames); got != tt.want {
			t.Errorf("%+v: outermost = %v, want %v", tt.frames, got, tt.want)
		}
	}
}

func TestTypedFramesAreLabeled(t *testing.T) {
	g := &target{}
	at := word(bpf.TraceFrameKindFRAME_TYPED, 3<<typeShift)
	for name, want := range map[string]string{"Builtins_JSEntry": "<< typed >> JSEntry", "main": "<< typed >>", "": "<< typed >>"} {
		if got := g.label(at, symbolize.Frame{Name: name}); got != want {
			t.Errorf("label of %q = %q, want %q", name, got, want)
		}
	}
	for label, want := range map[string]string{
		"<< js to wasm >>": toWasm, "<< wasm to js >> Wrapper": fromWasm, "<< wasm to js function >>": fromWasm,
		"<< cwasm entry >>": "c-to-wasm", "<< stub >> WasmToJsWrapperCSA": fromWasm, "<< stub >> Other": "", "<< typed >>": "",
	} {
		if got, ok := wrapperOf(label); got != want || ok != (want != "") {
			t.Errorf("wrapper of %q = %q, %v, want %q", label, got, ok, want)
		}
	}
	for _, tt := range []struct {
		f    symbolize.Frame
		want bool
	}{
		{symbolize.Frame{Kind: symbolize.Typed, Name: "LdaZeroHandler"}, true},
		{symbolize.Frame{Kind: symbolize.Typed, Name: "InterpreterEntryTrampoline"}, true},
		{symbolize.Frame{Kind: symbolize.Typed, Name: "<< exit >>"}, false},
		{symbolize.Frame{Name: "ReadHandler"}, false},
	} {
		if got := inHandler(tt.f); got != tt.want {
			t.Errorf("%+v: in a handler = %v, want %v", tt.f, got, tt.want)
		}
	}
}

// TestNamedFramesHaveOneNumberEach numbers equal frames alike, and distinct modules apart.
func TestNamedFramesHaveOneNumberEach(t *testing.T) {
	table := NewTable(Maps{})
	a, b := &wasmModule{url: "a"}, &wasmModule{url: "b"}
	f := symbolize.Frame{Kind: symbolize.Wasm, Name: "f"}
	numbers := []uint64{table.number(namedFrame{f, a}), table.number(namedFrame{f, b}), table.number(namedFrame{f, nil})}
	if again := table.number(namedFrame{f, a}); again != numbers[0] {
		t.Errorf("number = %#x, then %#x", numbers[0], again)
	}
	slices.Sort(numbers)
	if distinct := slices.Compact(numbers); len(distinct) != 3 {
		t.Errorf("numbers = %#x, want 3", distinct)
	}
	for _, n := range numbers {
		if kindOf(n) != bpf.TraceFrameKindFRAME_NAMED {
			t.Errorf("kind of %#x = %d, want %d", n, kindOf(n), bpf.TraceFrameKindFRAME_NAMED)
		}
	}
}

// TestModulesAreBounded asks for more modules than are kept.
func TestModulesAreBounded(t *testing.T) {
	g := &target{modules: make(map[uint64]*wasmModule)}
	for id := range uint64(maxWasmModules + 1) {
		if first := g.module(id); g.module(id) != first {
			t.Fatalf("module %d has two descriptions", id)
		}
	}
	if len(g.modules) > maxWasmModules {
		t.Errorf("modules = %d, want %d at most", len(g.modules), maxWasmModules)
	}
}

// A finder is a codeFinder that has code at some addresses only.
type finder map[uint64]string

func (f finder) Lookup(pc uint64) (wasm.Code, string, error) {
	if name, ok := f[pc]; ok {
		return wasm.Code{Module: 1}, name, nil
	}
	return wasm.Code{}, "", wasm.ErrNoCode
}

// wasmTarget returns a target that runs WebAssembly code, and the words of its frames.
func wasmTarget(code finder) (g *target, frame func(pc uint64) uint64) {
	const frameWasm = 10
	g = &target{
		wasm: code, modules: make(map[uint64]*wasmModule),
		binary: &binary{v8: &v8.Binary{Layout: v8.Layout{FrameWasm: frameWasm}}},
	}
	return g, func(pc uint64) uint64 {
		return word(bpf.TraceFrameKindFRAME_TYPED, frameWasm<<typeShift|pc)
	}
}

func TestCodeThatWasNotFoundIsLookedUpAgain(t *testing.T) {
	code := finder{}
	g, frame := wasmTarget(code)
	table := NewTable(Maps{})
	words := table.nameWasm(g, []uint64{frame(0x1000), frame(0x2001)})
	code[0x2000] = "half"
	g.retried = time.Time{}
	table.nameWasm(g, nil) // another stack, some time later
	for i, want := range []string{unknownWasm.Name, "half"} {
		if got := table.frame(g, words[i], place{}).Name; got != want {
			t.Errorf("frame %d: %s, want %s", i, got, want)
		}
	}
	if len(g.retries) != 1 {
		t.Errorf("frames to look up again = %d, want 1", len(g.retries))
	}
	g.retries[0].until = time.Now()
	code[0x1000] = "later"
	g.retried = time.Time{}
	table.nameWasm(g, nil)
	if got := table.frame(g, words[0], place{}).Name; got != unknownWasm.Name || len(g.retries) != 0 {
		t.Errorf("long after: %s and %d frames to look up again, want %s and none", got, len(g.retries), unknownWasm.Name)
	}
}

func TestCallersOfCodeWithoutFrameAreNamed(t *testing.T) {
	g, frame := wasmTarget(finder{0x1000: "leaf", 0x2000: "caller"})
	leaf := word(bpf.TraceFrameKindFRAME_TYPED, 5<<typeShift|0x1000)
	table := NewTable(Maps{})
	words := table.nameWasm(g, []uint64{leaf, frame(0x2001)})
	if len(words) != 3 || words[1] != leaf&^pcMask {
		t.Fatalf("words = %#x, want the leaf's, its caller's type, the caller's", words)
	}
	for i, want := range map[int]string{0: "leaf", 2: "caller"} {
		if got := table.frame(g, words[i], place{}).Name; got != want {
			t.Errorf("frame %d: %s, want %s", i, got, want)
		}
	}
}
