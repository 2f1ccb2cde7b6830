package read_test

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/read"
)

const node = "/usr/local/bin/node"

// rich returns a profile with all that a profile can have: stacks of all kinds of
// frames, on several threads.
func rich() *profile.Profile {
	js := func(name, file string, line, column, executing int) symbolize.Frame {
		return symbolize.Frame{
			Kind: symbolize.JS, Name: name, File: file, Line: line, Column: column, Tier: symbolize.Turbofan,
			ExecutingLine: executing, ExecutingColumn: 5,
		}
	}
	inlined := js("pad", "/srv/shop/lib/pad.js", 3, 14, 4)
	inlined.Inlined = true
	native := symbolize.Frame{Name: "node::Start(int, char**)", Module: node, Offset: 0x2f1}
	base := []symbolize.Frame{js("(anonymous)", "/srv/shop/server.js", 41, 31, 44), js("emit", "node:events", 466, 44, 508), native}
	mapped := js("render", "/srv/shop/src/view.ts", 12, 3, 15)
	mapped.GeneratedFile, mapped.GeneratedLine, mapped.GeneratedColumn = "/srv/shop/dist/view.js", 1, 557
	leaves := [][]symbolize.Frame{
		{inlined, js("escape html", "/srv/my shop/escape.js", 9, 2, 11)},
		{{Kind: symbolize.Builtin, Name: "ArrayPrototypeSort", Module: node}},
		{{Kind: symbolize.Kernel, Name: "do_syscall_64", Module: "[kernel]", Offset: 0x3a}, {Name: "writev", Module: "/lib/libc.so.6", Offset: 0x1d}},
		{{Module: "/lib/libz.so.1", Offset: 0x7a1c}},
		{{Kind: symbolize.RegExp, Name: "RegExp: /[a-z]/g"}},
		{{Kind: symbolize.Runtime, Name: "[GC scavenge]"}},
		{{Kind: symbolize.Typed, Name: "<< entry >>"}},
		{{Kind: symbolize.Wasm, Name: "wasm-function[3]", File: "wasm://wasm/8a2f1c"}},
		{{Name: symbolize.Broken}},
		{mapped},
	}
	p := &profile.Profile{
		Node: "v22.23.3", V8: "12.4.254.21", Hz: 99, HzAsked: 199, Throttled: 5, Lost: 2, Truncated: 3, UnknownFrames: 29,
		Start: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Duration: 10 * time.Second,
		Failures:  map[string]uint64{"name": 7},
		Processes: []profile.Process{{PID: 4242, Title: "node 4242 server.js", Node: "v22.23.3", V8: "12.4.254.21"}},
	}
	for i, leaf := range leaves {
		value := uint64(10 + 7*i)
		p.Stacks = append(p.Stacks, profile.Stack{Value: value, PID: 4242, TID: 4242 + i%2, Thread: []string{"node", "worker 1"}[i%2], Frames: slices.Concat(leaf, base)})
		p.Total += value
	}
	return p
}

// A holding says what a format holds of a profile: it removes the rest.
type holding struct {
	format  string
	frame   func(f symbolize.Frame, leaf bool) symbolize.Frame
	profile func(p *profile.Profile)
}

// definition keeps the parts of a frame that nearly every format has.
func definition(f symbolize.Frame) symbolize.Frame {
	kept := symbolize.Frame{Kind: f.Kind, Name: f.Name, File: f.File, Line: f.Line, Column: f.Column, Module: f.Module}
	if f.Name == "" {
		kept.Offset = f.Offset
	}
	return kept
}

// kinds removes the difference between builtins, typed frames and native code.
func plainKinds(f symbolize.Frame) symbolize.Frame {
	if f.Kind == symbolize.Builtin {
		f.Kind = symbolize.Native
	}
	return f
}

func base(module string) string {
	if module == "" {
		return ""
	}
	return path.Base(module)
}

// text keeps what a format of text without threads and losses has.
func text(p *profile.Profile) {
	*p = profile.Profile{Stacks: p.Stacks, Total: p.Total, ValueType: p.ValueType}
	for i := range p.Stacks {
		p.Stacks[i].PID, p.Stacks[i].TID, p.Stacks[i].Thread = 0, 0, ""
	}
}

func holdings() []holding {
	collapsed := func(f symbolize.Frame, _ bool) symbolize.Frame {
		f = plainKinds(definition(f))
		if f.Kind != symbolize.Kernel {
			f.Module = ""
		}
		if f.Name == "" {
			f.Module = "libz.so.1"
		}
		return f
	}
	return []holding{
		{"json", func(f symbolize.Frame, _ bool) symbolize.Frame { return f }, func(p *profile.Profile) {
			p.Start, p.Duration = time.Time{}, 0
		}},
		{"pprof", func(f symbolize.Frame, _ bool) symbolize.Frame {
			kept := definition(f)
			kept.Inlined, kept.ExecutingLine, kept.ExecutingColumn = f.Inlined, f.ExecutingLine, f.ExecutingColumn
			if f.Name != "(anonymous)" {
				kept.Column = 0
			}
			return kept
		}, func(p *profile.Profile) { p.Failures, p.Processes = nil, nil }},
		{"speedscope", func(f symbolize.Frame, _ bool) symbolize.Frame { return plainKinds(definition(f)) }, func(p *profile.Profile) {
			*p = profile.Profile{Stacks: p.Stacks, Total: p.Total, Node: p.Node, V8: p.V8, Hz: p.Hz}
		}},
		{"cpuprofile", func(f symbolize.Frame, leaf bool) symbolize.Frame {
			kept := plainKinds(definition(f))
			if leaf {
				kept.ExecutingLine = f.ExecutingLine
			}
			return kept
		}, func(p *profile.Profile) {
			*p = profile.Profile{Stacks: p.Stacks, Total: p.Total, Hz: p.Hz, Start: p.Start}
		}},
		{"dtrace", func(f symbolize.Frame, _ bool) symbolize.Frame {
			kept := plainKinds(definition(f))
			kept.Column, kept.Module = 0, base(f.Module)
			if f.Kind != symbolize.JS && f.Kind != symbolize.Wasm {
				kept.Offset = f.Offset
			}
			return kept
		}, text},
		{"collapsed", collapsed, text},
		{"stackvis", collapsed, text},
	}
}

// held returns what the format holds of p.
func (h holding) held(p *profile.Profile) *profile.Profile {
	held := *p
	held.Stacks = slices.Clone(p.Stacks)
	for i := range held.Stacks {
		frames := slices.Clone(held.Stacks[i].Frames)
		for j, f := range frames {
			frames[j] = h.frame(f, j == 0)
		}
		held.Stacks[i].Frames = frames
	}
	h.profile(&held)
	return held.Merge()
}

// through writes p in a format and reads that again, by its contents.
func through(t *testing.T, format string, p *profile.Profile) *profile.Profile {
	t.Helper()
	f, err := profile.Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := f.Write(&b, p, profile.Options{}); err != nil {
		t.Fatal(err)
	}
	got, err := read.Profile(&b, read.Options{})
	if err != nil {
		t.Fatalf("%s: %v", format, err)
	}
	if got.Format != format {
		t.Errorf("%s is recognized as %s", format, got.Format)
	}
	return got.Profile
}

// fields that a reader may find, but that the profile that is written cannot be expected
// to keep: a format without them makes others from the rest.
var unstable = cmp.Options{
	cmpopts.IgnoreUnexported(profile.Profile{}), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(profile.Profile{}, "Duration", "Processes"),
}

// TestRoundTripsKeepWhatBothFormatsHold writes a profile in one format, reads it, and writes
// and reads it in another.
func TestRoundTripsKeepWhatBothFormatsHold(t *testing.T) {
	for _, a := range holdings() {
		for _, b := range holdings() {
			t.Run(a.format+" "+b.format, func(t *testing.T) {
				got := through(t, b.format, through(t, a.format, rich()))
				want := b.held(a.held(rich()))
				if b.format == "json" && want.Hz > want.HzAsked {
					want.HzAsked = want.Hz // as it writes
				}
				if diff := cmp.Diff(want, got, unstable); diff != "" {
					t.Errorf("other than what both hold (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestTypesOfValuesAreKept(t *testing.T) {
	for _, tt := range []struct {
		value   profile.ValueType
		formats []string
	}{
		{profile.ValueType{Type: "page-faults", Unit: "count"}, []string{"json", "pprof", "speedscope"}},
		{profile.Time, []string{"json", "pprof", "speedscope", "cpuprofile"}},
		{profile.Memory, []string{"json", "pprof", "speedscope"}},
	} {
		for _, format := range tt.formats {
			p := rich()
			p.ValueType, p.Hz, p.Total = tt.value, 0, 0
			for i := range p.Stacks {
				p.Stacks[i].Value *= 1000
				p.Total += p.Stacks[i].Value
			}
			got := through(t, format, p)
			if got.ValueType != tt.value || got.Total != p.Total {
				t.Errorf("%s: %d of %v, want %d of %v", format, got.Total, got.ValueType, p.Total, tt.value)
			}
		}
	}
}

func TestSeveralProcessesAreKept(t *testing.T) {
	for _, format := range []string{"json", "pprof", "speedscope", "cpuprofile", "collapsed", "stackvis"} {
		p := rich()
		p.Processes = append(p.Processes, profile.Process{PID: 77, Title: "node 77 other.js", Node: "v24.21.0", V8: "13.6.1"})
		p.Stacks[0].PID, p.Stacks[0].TID = 77, 77
		values := map[int]uint64{}
		for _, s := range through(t, format, p).Stacks {
			values[s.PID] += s.Value
		}
		if want := map[int]uint64{77: p.Stacks[0].Value, 4242: p.Total - p.Stacks[0].Value}; !cmp.Equal(want, values) {
			t.Errorf("%s: values by process = %v, want %v", format, values, want)
		}
	}
}

func TestGzipIsUndone(t *testing.T) {
	for _, format := range []string{"json", "collapsed"} {
		f, err := profile.Lookup(format)
		if err != nil {
			t.Fatal(err)
		}
		var plain bytes.Buffer
		if err := f.Write(&plain, rich(), profile.Options{}); err != nil {
			t.Fatal(err)
		}
		got, err := read.Profile(zipped(t, plain.Bytes()), read.Options{})
		if err != nil || got.Profile.Total != rich().Total {
			t.Errorf("%s: %v, %v, want %d samples", format, got, err, rich().Total)
		}
	}
}

func TestErrorsSayWhere(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"no value", "a;b 1\na;b\n", `line 2: no value after the stack: "a;b"`},
		{"fraction", "a;b 1.5\na 2\n", `line 1: the value is no whole number: "1.5"`},
		{"cut JSON", `{"stacks":[{"count":1`, "offset 21: unexpected end of JSON input"},
		{"kind", `{"stacks":[{"count":1,"frames":[{"kind":"x","name":"f"}]}]}`, `"x" is not a kind`},
		{"overflow", `{"stacks":[{"count":9223372036854775807,"frames":[]},{"count":9223372036854775807}]}`, "stacks[1]: the sum of its values is too large"},
		{"negative", `{"stacks":[{"count":-1}]}`, "offset 22: "},
		{"frame", `{"shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[[3]],"weights":[1]}]}`, "profiles[0]: samples[0]: frame 3 is not one of the 0"},
		{"weights", `{"shared":{"frames":[]},"profiles":[{"type":"sampled","samples":[[3]],"weights":[]}]}`, "it has 1 samples and 0 weights"},
		{"close", `{"shared":{"frames":[{"name":"f"}]},"profiles":[{"type":"evented","events":[{"type":"C","frame":0,"at":1}]}]}`, "profiles[0]: events[0]: it ends frame 0"},
		{"circle", `{"nodes":[{"id":1,"children":[2],"hitCount":1},{"id":2,"children":[1],"hitCount":1}]}`, "nodes[0]: it calls itself in a circle"},
		{"two parents", `{"nodes":[{"id":1,"children":[2,2]},{"id":2}]}`, "its child 2 is no node, or of another one, too"},
		{"trace", `{"traceEvents":[]}`, "it is a trace of Chrome"},
		{"within a stack", "  CPU     ID                    FUNCTION:NAME\n\n              a`b\n", "the file ends within a stack"},
		{"neither", "hello world\n", "it is not one of json, pprof"},
		{"empty", "", "the file is empty"},
	} {
		_, err := read.Profile(strings.NewReader(tt.text), read.Options{})
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error = %v, want %q in one line", tt.name, err, tt.want)
		}
	}
}

func TestDeepStacksAreCut(t *testing.T) {
	got, err := read.Profile(strings.NewReader(strings.Repeat("f;", 100_000)+"leaf 3\n"), read.Options{Format: "collapsed"})
	if err != nil {
		t.Fatal(err)
	}
	frames := got.Profile.Stacks[0].Frames
	if len(frames) > 5000 || frames[0].Name != "leaf" || frames[len(frames)-1].Name != symbolize.Truncated || got.Profile.Truncated != 3 {
		t.Errorf("%d frames, %d truncated, want fewer, and 3", len(frames), got.Profile.Truncated)
	}
}

func TestNestedJSONIsRefused(t *testing.T) {
	deep := `{"":{"svTotal":1,"svChildren":` + strings.Repeat(`{"f":{"svUnique":1,"svTotal":1,"svChildren":`, 100_000)
	if _, err := read.Profile(strings.NewReader(deep), read.Options{}); err == nil {
		t.Error("no error")
	}
}

func TestTooManyStacksAreRefused(t *testing.T) {
	var b strings.Builder
	for i := range 1<<20 + 1 {
		fmt.Fprintf(&b, "f;%x 1\n", i)
	}
	if _, err := read.Profile(strings.NewReader(b.String()), read.Options{Format: "collapsed"}); err == nil || !strings.Contains(err.Error(), "more than 1048576 different") {
		t.Errorf("error = %v, want that there are too many", err)
	}
}

// TestProfilesOfSeveralEventsAreReadByType writes two events in one file, with what their values
// are of.
func TestProfilesOfSeveralEventsAreReadByType(t *testing.T) {
	frames := []symbolize.Frame{{Name: "open", Kind: symbolize.JS, File: "/srv/a.js", Line: 3, Column: 1}}
	calls := &profile.Profile{
		ValueType: profile.ValueType{Type: "syscall:read:bytes", Unit: "bytes"}, Event: "syscall:read",
		Total: 4096, Events: 3, Stacks: []profile.Stack{{Value: 4096, Events: 3, PID: 7, TID: 7, Frames: frames}},
	}
	samples := &profile.Profile{Total: 5, Hz: 99, HzAsked: 99, Event: "cpu", Stacks: []profile.Stack{{Value: 5, PID: 7, TID: 7, Frames: frames}}}
	for _, name := range []string{"json", "pprof"} {
		f, err := profile.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := f.WriteAll(&out, []*profile.Profile{samples, calls}, profile.Options{}); err != nil {
			t.Fatal(err)
		}
		for values, want := range map[string]uint64{"syscall:read:bytes": 4096, "samples": 5} {
			file, err := read.Profile(bytes.NewReader(out.Bytes()), read.Options{Values: values})
			if err != nil {
				t.Errorf("%s: read %s: %v", name, values, err)
				continue
			}
			if got := file.Profile; got.Total != want || values != "samples" && got.ValueType.Type != values {
				t.Errorf("%s: %d %s, want %d", name, got.Total, got.ValueType.Type, want)
			}
		}
	}
}
