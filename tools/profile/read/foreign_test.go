package read_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	pprof "github.com/google/pprof/profile"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/read"
)

func zipped(t testing.TB, plain []byte) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

// perfScript is as perf 6.1 prints it, with the names of Node.js 16 to 26.
const perfScript = `node 17620/17621 [001]   785.939376:    2004008 cpu-clock:ppp: 
	ffffffff8225f2d9 pvm_irq_enable+0x19 ([kernel.kallsyms])
	           1da5d dl_main+0x1a9d (/usr/lib/ld-linux-x86-64.so.2)
	    7f3b8627a758 [unknown] ([unknown])
	           fdbb0 [unknown] (/usr/lib/libz.so.1)

node 17620/17621 [001]   786.939376:    2004008 cpu-clock:ppp: 
	    7f3b47003e56 JS:*'insert /srv/pure cpu.js:33:9+0x156 (/tmp/perf-17620.map)
	    7f3b47000354 JS:~ node:internal/main/run_main_module:1:1+0xd4 (/tmp/perf-17620.map)
	    7f22fc067a20 Function:^mixedMain /srv/mixed.js:125+0x2e0 (/tmp/perf-17887.map)
	    7f22fc067a21 LazyCompile:+Object.<anonymous> /srv/mixed.js:1+0x2e0 (/tmp/perf-17887.map)
	    7f22fc067a22 RegExp:(?<user>\w+) (?<id>\d+):1+0x2e0 (/tmp/perf-17887.map)
	    7f22fc067a23 Eval:~ /srv/eval.js:1:1+0x2 (/tmp/perf-17887.map)
	         1634654 Builtins_InterpreterEntryTrampoline+0xd4 (/usr/bin/node)
	         1634655 Builtins_ArrayMap+0xd4 (/usr/bin/node)
	         1634656 node::Start(int, char**)+0x4 (/usr/bin/node (deleted))
	         1634657 uv_run (inlined)

V8 Worker 17620/17622 [000]   787.000000:          3 page-faults:u: 
	         1634656 clone+0x4 (/lib/libc.so.6)

`

func perfFrames() []symbolize.Frame {
	js := func(name, file string, tier symbolize.Tier, at ...int) symbolize.Frame {
		return symbolize.Frame{Kind: symbolize.JS, Name: name, File: file, Tier: tier, Line: at[0], Column: at[1]}
	}
	return []symbolize.Frame{
		js("insert", "/srv/pure cpu.js", symbolize.Turbofan, 33, 9),
		js("(anonymous)", "node:internal/main/run_main_module", symbolize.Interpreted, 1, 1),
		js("mixedMain", "/srv/mixed.js", symbolize.Baseline, 125, 0),
		js("Object.<anonymous>", "/srv/mixed.js", symbolize.Maglev, 1, 0),
		{Kind: symbolize.RegExp, Name: `RegExp: (?<user>\w+) (?<id>\d+):1`},
		js("(anonymous)", "/srv/eval.js", symbolize.Interpreted, 1, 1),
		{Kind: symbolize.Typed, Name: "InterpreterEntryTrampoline", Module: "/usr/bin/node"},
		{Kind: symbolize.Builtin, Name: "ArrayMap", Module: "/usr/bin/node"},
		{Name: "node::Start(int, char**)", Module: "/usr/bin/node", Offset: 4},
		{Name: "uv_run", Inlined: true},
	}
}

func TestPerfScript(t *testing.T) {
	got, err := read.Profile(strings.NewReader(perfScript), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := got.Profile
	if got.Format != "perf" || p.Hz != 499 || p.Total != 2 || p.Duration != time.Second || !slices.Equal(got.Types, []string{"cpu-clock", "page-faults"}) {
		t.Errorf("%s: %d samples at %d Hz in %v, of %v", got.Format, p.Total, p.Hz, p.Duration, got.Types)
	}
	frames := map[string][]symbolize.Frame{}
	for _, s := range p.Stacks {
		frames[s.Frames[0].Name] = s.Frames
		if s.PID != 17620 || s.TID != 17621 || s.Thread != "node" {
			t.Errorf("thread = %d/%d %s", s.PID, s.TID, s.Thread)
		}
	}
	if diff := cmp.Diff(perfFrames(), frames["insert"]); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
	want := []symbolize.Frame{
		{Kind: symbolize.Kernel, Name: "pvm_irq_enable", Module: "[kernel]", Offset: 0x19},
		{Name: "dl_main", Module: "/usr/lib/ld-linux-x86-64.so.2", Offset: 0x1a9d},
		{Name: symbolize.Unknown},
		{Module: "/usr/lib/libz.so.1", Offset: 0xfdbb0},
	}
	if diff := cmp.Diff(want, frames["pvm_irq_enable"]); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

func TestAnEventOfPerfIsChosen(t *testing.T) {
	got, err := read.Profile(strings.NewReader(perfScript), read.Options{Values: "page-faults"})
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Profile; p.Total != 3 || p.ValueType != (profile.ValueType{Type: "page-faults", Unit: "count"}) || p.Stacks[0].Thread != "V8 Worker" {
		t.Errorf("%d of %v on %q, want 3 page-faults on V8 Worker", p.Total, p.ValueType, p.Stacks[0].Thread)
	}
	if _, err := read.Profile(strings.NewReader(perfScript), read.Options{Values: "cycles"}); err == nil || !strings.Contains(err.Error(), `there are: "cpu-clock", "page-faults"`) {
		t.Errorf("error = %v, want what there is", err)
	}
}

func TestDTraceOfAnotherSystem(t *testing.T) {
	const text = "CPU     ID                    FUNCTION:NAME\n  0  70231                       :tick-30s \n\n\n" +
		"  node                                              \n" +
		"              libc.so.1`_write+0x15\n              << adaptor >>\n              Socket.emit at net.js position 1234\n" +
		"              node`0x8a1c\n              genunix`syscall+0x3\n               42\n"
	got, err := read.Profile(strings.NewReader(text), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := profile.Stack{Value: 42, Thread: "node", Frames: []symbolize.Frame{
		{Name: "_write", Module: "libc.so.1", Offset: 0x15},
		{Kind: symbolize.Typed, Name: "<< adaptor >>"},
		{Kind: symbolize.JS, Name: "Socket.emit", File: "net.js"},
		{Module: "node", Offset: 0x8a1c},
		{Kind: symbolize.Kernel, Name: "syscall", Module: "[kernel]", Offset: 3},
	}}
	if diff := cmp.Diff([]profile.Stack{want}, got.Profile.Stacks); diff != "" || got.Profile.Duration != 30*time.Second {
		t.Errorf("in %v (-want +got):\n%s", got.Profile.Duration, diff)
	}
}

func TestEventedSpeedscope(t *testing.T) {
	const text = `{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{"frames":[{"name":"a","file":"/a.js","line":1},{"name":"b"}]},
		"profiles":[{"type":"evented","name":"main","unit":"milliseconds","startValue":0,"endValue":10,"events":[
		{"type":"O","frame":0,"at":0},{"type":"O","frame":1,"at":2.5},{"type":"C","frame":1,"at":4},{"type":"C","frame":0,"at":10}]}]}`
	got, err := read.Profile(strings.NewReader(text), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	a, b := symbolize.Frame{Kind: symbolize.JS, Name: "a", File: "/a.js", Line: 1}, symbolize.Frame{Name: "b"}
	want := []profile.Stack{
		{Value: 8_500_000, Thread: "main", Frames: []symbolize.Frame{a}},
		{Value: 1_500_000, Thread: "main", Frames: []symbolize.Frame{b, a}},
	}
	if diff := cmp.Diff(want, got.Profile.Stacks); diff != "" || got.Profile.ValueType != profile.Time {
		t.Errorf("%v (-want +got):\n%s", got.Profile.ValueType, diff)
	}
}

func TestStackvisTree(t *testing.T) {
	const text = `{"":{"svUnique":0,"svTotal":5,"svChildren":{"node` + "`" + `main":{"svUnique":2,"svTotal":5,"svChildren":{"f at /a.js line 3":{"svUnique":3,"svTotal":3,"svChildren":{}}}}}}}`
	got, err := read.Profile(strings.NewReader(text), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	main := symbolize.Frame{Name: "main", Module: "node"}
	want := []profile.Stack{
		{Value: 3, Frames: []symbolize.Frame{{Kind: symbolize.JS, Name: "f", File: "/a.js", Line: 3}, main}},
		{Value: 2, Frames: []symbolize.Frame{main}},
	}
	if diff := cmp.Diff(want, got.Profile.Stacks); diff != "" || got.Format != "stackvis" {
		t.Errorf("%s (-want +got):\n%s", got.Format, diff)
	}
}

func TestV8sOwnCPUProfile(t *testing.T) {
	const text = `{"nodes":[{"id":1,"callFrame":{"functionName":"(root)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"hitCount":0,"children":[2,3]},
		{"id":2,"callFrame":{"functionName":"(garbage collector)","scriptId":"0","url":"","lineNumber":-1,"columnNumber":-1},"hitCount":1},
		{"id":3,"callFrame":{"functionName":"","scriptId":"9","url":"file:///a%20b.js","lineNumber":0,"columnNumber":0},"hitCount":3,"positionTicks":[{"line":7,"ticks":2}]}],
		"startTime":1000,"endTime":6000,"samples":[3,3,2,3],"timeDeltas":[100,1250,1240,1260]}`
	got, err := read.Profile(strings.NewReader(text), read.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := symbolize.Frame{Kind: symbolize.JS, Name: "(anonymous)", File: "/a b.js", Line: 1, Column: 1}
	on := f
	on.ExecutingLine = 7
	want := []profile.Stack{
		{Value: 2, Frames: []symbolize.Frame{on}},
		{Value: 1, Frames: []symbolize.Frame{f}},
		{Value: 1, Frames: []symbolize.Frame{{Kind: symbolize.Runtime, Name: "[GC]"}}},
	}
	if diff := cmp.Diff(want, got.Profile.Stacks); diff != "" || got.Profile.Hz != 800 || got.Profile.Duration != 5*time.Millisecond {
		t.Errorf("%d Hz in %v (-want +got):\n%s", got.Profile.Hz, got.Profile.Duration, diff)
	}
}

func TestPprofOfAnotherProgram(t *testing.T) {
	m := &pprof.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, Offset: 0x1000, File: "/bin/server"}
	fn := &pprof.Function{ID: 1, Name: "main.work", Filename: "/src/main.go", StartLine: 10}
	l := []*pprof.Location{{ID: 1, Mapping: m, Address: 0x400010, Line: []pprof.Line{{Function: fn, Line: 12}}}, {ID: 2, Mapping: m, Address: 0x400123}}
	in := &pprof.Profile{
		SampleType: []*pprof.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		Mapping:    []*pprof.Mapping{m}, Function: []*pprof.Function{fn}, Location: l,
		Sample: []*pprof.Sample{{Value: []int64{3, 4096}, Location: l}},
	}
	var b bytes.Buffer
	if err := in.Write(&b); err != nil {
		t.Fatal(err)
	}
	for values, want := range map[string]profile.ValueType{"": {Type: "inuse_space", Unit: "bytes"}, "alloc_objects": {Type: "alloc_objects", Unit: "count"}} {
		got, err := read.Profile(bytes.NewReader(b.Bytes()), read.Options{Values: values})
		if err != nil {
			t.Fatal(err)
		}
		frames := []symbolize.Frame{
			{Name: "main.work", File: "/src/main.go", Line: 10, ExecutingLine: 12, Module: "/bin/server"},
			{Module: "/bin/server", Offset: 0x1123},
		}
		if diff := cmp.Diff(frames, got.Profile.Stacks[0].Frames); diff != "" || got.Profile.ValueType != want {
			t.Errorf("%v (-want +got):\n%s", got.Profile.ValueType, diff)
		}
	}
}
