package profile

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
)

// names returns each stack's names, leaf first, with its count.
func names(p *Profile) map[string]uint64 {
	got := map[string]uint64{}
	for _, s := range p.Stacks {
		var text string
		for _, f := range s.Frames {
			text += name(f) + " "
		}
		got[text] += s.Value
	}
	return got
}

func mixed() *Profile {
	a, b := js("a", "/x.js", 1, 1), js("b", "/x.js", 2, 1)
	type frames = []symbolize.Frame
	return profileOf(
		on(2, frames{native("main", 1), typed("entry"), a, b}),
		on(3, frames{native("main", 1), typed("exit"), a, b, builtin("Sort")}),
		on(5, frames{native("main", 1), typed("entry"), a, b}),
		on(7, frames{native("main", 1), native("gc", 4)}),
		on(11, frames{typed("entry")}),
	)
}

func TestMergeCountsEqualStacksOfOneThreadTogether(t *testing.T) {
	p := mixed()
	other := p.Stacks[0]
	other.TID++
	p.Stacks = append(p.Stacks, other)
	got := p.Merge()
	var counts []uint64
	for _, s := range got.Stacks {
		counts = append(counts, s.Value)
	}
	if want := []uint64{11, 7, 7, 3, 2}; !slices.Equal(counts, want) {
		t.Errorf("counts = %d, want %d", counts, want)
	}
	if len(p.Stacks) != 6 {
		t.Errorf("Merge changed its receiver: %d stacks, want 6", len(p.Stacks))
	}
}

func TestWithoutTypedKeepsStacksOfNothingElse(t *testing.T) {
	want := map[string]uint64{"b a main ": 7, "Sort b a main ": 3, "gc main ": 7, "entry ": 11}
	if diff := cmp.Diff(want, names(mixed().WithoutTyped())); diff != "" {
		t.Errorf("stacks differ (-want +got):\n%s", diff)
	}
}

func TestJSOnlyKeepsEverySample(t *testing.T) {
	got := mixed().JSOnly()
	want := map[string]uint64{"b a ": 10, NoJavaScript + " ": 18}
	if diff := cmp.Diff(want, names(got)); diff != "" {
		t.Errorf("stacks differ (-want +got):\n%s", diff)
	}
	if got.Total != 28 {
		t.Errorf("samples = %d, want 28", got.Total)
	}
}

func TestFilterKeepsStacksWithAMatch(t *testing.T) {
	for pattern, want := range map[string]uint64{
		"^gc$": 7, "x\\.js:2": 10, "Sort": 3, "bin/node": 17, "nothing": 0, "": 28,
	} {
		got := mixed().Filter(regexp.MustCompile(pattern))
		if got.Total != want || sum(got) != want {
			t.Errorf("Filter(%q) keeps %d samples of %d, want %d", pattern, sum(got), got.Total, want)
		}
	}
}

func TestThreadByNameOrNumber(t *testing.T) {
	p := server()
	p.Stacks = append(p.Stacks, Stack{Value: 17, TID: 9, Thread: "kworker/0:1"})
	for glob, want := range map[string]uint64{
		"node": 789, "node*": 842, "libuv-worker": 40, "4260": 53, "*": 899, "kworker*": 17, "[a-m]*": 57, "none": 0,
	} {
		got, err := p.Thread(glob)
		if err != nil || got.Total != want {
			t.Errorf("Thread(%q) keeps %d samples, %v, want %d", glob, got.Total, err, want)
		}
	}
	if _, err := p.Thread("[a"); err == nil {
		t.Error("Thread([a) is no error")
	}
}

func TestRecursionCountsAStackOnce(t *testing.T) {
	a, b := js("a", "/x.js", 1, 1), js("b", "/x.js", 2, 1)
	rows := functions([]Stack{on(5, []symbolize.Frame{a, b, a, b, a}), on(3, []symbolize.Frame{b})})
	want := []row{{frame: function(a), self: 5, total: 5}, {frame: function(b), self: 3, total: 8}}
	if diff := cmp.Diff(want, rows, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("rows differ (-want +got):\n%s", diff)
	}
}

func TestTreeJoinsTiersAndOffsets(t *testing.T) {
	hot := js("hot", "/x.js", 1, 1)
	root := newTree([]Stack{
		on(2, []symbolize.Frame{native("main", 1), tier(symbolize.Maglev, hot)}),
		on(3, []symbolize.Frame{native("main", 9), hot}),
		on(1, []symbolize.Frame{native("main", 9), tier(symbolize.Interpreted, hot)}),
	})
	main := root.children[0]
	if len(root.children) != 1 || len(main.children) != 1 {
		t.Fatalf("%d roots with %d children, want 1 with 1", len(root.children), len(main.children))
	}
	if got := main.children[0]; got.self != 6 || got.tier() != symbolize.Turbofan {
		t.Errorf("hot: %d samples, mostly %v, want 6, turbofan", got.self, got.tier())
	}
}

func TestLabel(t *testing.T) {
	for want, f := range map[string]symbolize.Frame{
		"f /a.js:3:7":           js("f", "/a.js", 3, 7),
		"f /a.js:3":             js("f", "/a.js", 3, 0),
		"f /a.js":               js("f", "/a.js", 0, 0),
		"f":                     js("f", "", 3, 7),
		"(anonymous) /a.js:1:1": js("", "/a.js", 1, 1),
		"uv_run":                native("uv_run", 5),
		"libz.so.1+0x7a1c":      {Module: "/lib/libz.so.1", Offset: 0x7a1c},
		"0x7fff0000":            {Offset: 0x7fff0000},
		"[unknown]":             {},
		`a\x0ab`:                {Name: "a\nb"},
	} {
		if got := Label(f); got != want {
			t.Errorf("Label(%+v) = %q, want %q", f, got, want)
		}
	}
}

func TestQualifiedNamesTheFile(t *testing.T) {
	for want, f := range map[string]symbolize.Frame{
		"libz.so.1`inflate":    {Name: "inflate", Module: "/lib/libz.so.1", Offset: 5},
		"[kernel]`do_exit":     {Kind: symbolize.Kernel, Name: "do_exit", Module: "[kernel]"},
		"node`Builtins_Add":    {Kind: symbolize.Builtin, Name: "Builtins_Add", Module: "/usr/bin/node"},
		"libz.so.1+0x7a1c":     {Module: "/lib/libz.so.1", Offset: 0x7a1c},
		"f /a.js:3:7":          js("f", "/a.js", 3, 7),
		"[truncated]":          {Name: symbolize.Truncated},
		"a\\x1b[31m`b\\x07ell": {Name: "b\aell", Module: "/srv/a\x1b[31m"},
	} {
		if got := Qualified(f); got != want {
			t.Errorf("Qualified(%+v) = %q, want %q", f, got, want)
		}
	}
}
