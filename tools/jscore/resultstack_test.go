package jscore

import (
	"slices"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"

	"ustack/symbolize/v8/stack"
)

// TestStacksReadAsMdbPrintedThem shows a program that is stopped in the middle of its
// calls in the ways of jsstack and jsframe.
func TestStacksReadAsMdbPrintedThem(t *testing.T) {
	c := calls.Start(t, anyVersion, nil)
	d := dumped(t, c.PID, Options{})
	thread := d.Threads()[0]
	plain := textOf(t, d.JSStack(thread, StackOptions{}), nil)
	like(t, plain, `native: .*
        \(1 internal frame elided\)
js:     wait \(builtin\)
.*js:     new Derived at .*postmortem_stack.js line \d+
.*js:     (map|sort) \(builtin\).*native: node.node::Start\+0x[0-9a-f]+
.*`)
	for _, line := range strings.Split(plain, "\n") {
		if strings.HasPrefix(line, "native:") && len([]rune(line)) > 80 {
			t.Errorf("native frame of %d columns: %s", len(line), line)
		}
	}
	all := textOf(t, d.JSStack(thread, StackOptions{All: true}), nil)
	like(t, all, ` +[0-9a-f]+ +[0-9a-f]+ .* scale at .*postmortem_stack.js line \d+ \([0-9a-f]+\).*`)
	if strings.Contains(all, "elided") {
		t.Error("with all frames, some are elided")
	}
	like(t, textOf(t, d.JSStack(thread, StackOptions{Tiers: true}), nil), `.*js:     new Derived at .*postmortem_stack.js line \d+ \((inlined, )?(interpreted|baseline|maglev|turbofan)\)
.*`)
	verbose := d.JSStack(thread, StackOptions{Verbose: true, Lines: 1, Function: "scale"})
	like(t, textOf(t, verbose, nil), `js:     scale at .*postmortem_stack.js line (\d+)
          file: .*postmortem_stack.js
          posn: line \d+ column \d+
          defined: line \d+ column \d+
          this: [0-9a-f]+ \(JSObject: Shape\)
          parameter by: [0-9a-f]+ \(SMI: value = 3\)

            +\d+ .*
          > +\d+ .*scale\(by\).*
            +\d+ .*

`)
	checkFrames(t, d, thread)
}

// TestInlinedFunctionsHaveTheirSource takes a core of a program most of whose time is in
// functions that V8 has inlined: each has its place, its definition and its text.
func TestInlinedFunctionsHaveTheirSource(t *testing.T) {
	flags := []string{"--allow-natives-syntax", "--no-use-osr", "--no-concurrent-recompilation", "--no-sparkplug"}
	t.Run("positions", func(t *testing.T) {
		testInlined(t, nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{
			Flags: append(flags, "--no-maglev"), Script: "lines.js", Args: []string{"inlined", "--tier=turbofan", "--depth=2"},
		}), "")
	})
	t.Run("none", func(t *testing.T) { // V8 13.6 kept none with Maglev's code at first
		testInlined(t, nodetest.Start(t, nodetest.Node(t, "24.0.0"), nodetest.Options{
			Flags: append(flags, "--maglev", "--no-opt"), Script: "lines.js", Args: []string{"checks", "--tier=maglev"},
		}), "~")
	})
}

// testInlined expects an inlined frame, and what is before its line.
func testInlined(t *testing.T, target *nodetest.Target, mark string) {
	t.Helper()
	const tries = 5
	for range tries {
		d := dumped(t, target.PID, Options{})
		stack := d.JSStack(d.Threads()[0], StackOptions{Verbose: true, Lines: 1})
		at := slices.IndexFunc(stack.Frames, func(f *FrameText) bool { return f.Inlined })
		if at < 0 {
			continue
		}
		f := stack.Frames[at]
		if !f.Executing || f.Line == 0 || f.DefinedLine == 0 || f.ExecutingLine != f.Line || len(f.Source) != 3 || f.Source[1].Number != f.Line {
			t.Errorf("inlined frame = %+v, want one with its place and source", f)
		}
		like(t, textOf(t, stack, nil), `.*js:     `+f.Name+` at /lines/.* line `+mark+`\d+ \(inlined\)
          file: /lines/.*
          posn: line `+mark+`\d+ column \d+
          defined: line \d+ column \d+
(          (this:|parameter|local|closure) [^\n]*
)*
            +\d+.*
          > +\d+ .*
            +\d+.*

.*`)
		return
	}
	t.Errorf("no core of %d has an inlined frame", tries)
}

// checkFrames looks up each frame that walk jsframe lists by its pointer.
func checkFrames(t *testing.T, d *Dump, thread stack.Thread) {
	t.Helper()
	frames := d.WalkJSFrame(thread)
	if len(frames.Values.Values) < 10 {
		t.Fatalf("frames = %d, want ten or more", len(frames.Values.Values))
	}
	for _, v := range frames.Values.Values {
		found, err := d.JSFrame(FrameID{FP: uint64(v.Address)}, StackOptions{})
		if err != nil {
			t.Errorf("frame %v: %v", v.Address, err)
			continue
		}
		if !slices.ContainsFunc(found.Frames, func(f *FrameText) bool { return f.Name == string(v.Text) }) {
			t.Errorf("frame %v has no %s: %+v", v.Address, v.Text, found.Frames)
		}
	}
	if _, err := d.JSFrame(FrameID{FP: 0x18}, StackOptions{}); err == nil || err.Error() != "no frame there (walk jsframe lists them)" {
		t.Errorf("error = %v, want that no frame is there", err)
	}
	if got := d.JSStack(thread, StackOptions{}).Addresses(); len(got) < len(frames.Values.Values) {
		t.Errorf("functions = %d, want one for each of %d frames at least", len(got), len(frames.Values.Values))
	}
}
