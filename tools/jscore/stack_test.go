package jscore

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// matrix reports whether to test every combination: that is for `make test-matrix`, not
// for each change.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// A chain is what postmortem_stack.js reports about itself.
type chain struct {
	PID       int                 `json:"pid"`
	Calls     []nodetest.Call     `json:"calls"`
	Given     map[string][]string `json:"given"`
	Receivers map[string]string   `json:"receivers"`
}

// startChain returns a process that waits in a chain of calls, and what it reports.
func startChain(t *testing.T, version string, flags []string, args ...string) chain {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Flags: flags, Script: "postmortem_stack.js", Args: args,
	})
	var c chain
	target.Facts(&c)
	return c
}

// dumped takes a core of a live process and opens it.
func dumped(t testing.TB, pid int, o Options) *Dump {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), pid, path, core.Options{}); err != nil {
		t.Fatalf("core.Write: %v", err)
	}
	d, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// A call is a frame as tests compare it.
type call struct {
	Name, File   string
	Line, Column int
}

// scripted returns the calls of functions with a script, and the names of the others
// that a stack trace shows.
func scripted(calls []nodetest.Call) (want []call, builtins []string) {
	for _, c := range calls {
		switch {
		case c.Async:
		case c.Builtin:
			builtins = append(builtins, c.Function)
		default:
			want = append(want, call{c.Function, c.File, c.Line, c.Column})
		}
	}
	return want, builtins
}

// executing returns the frames of functions with a script as calls, and the names of V8's
// own.
func executing(frames []Frame) (got []call, builtins []string) {
	for _, f := range frames {
		switch f.Kind {
		case symbolize.JS:
			got = append(got, call{f.Name, f.File, f.ExecutingLine, f.ExecutingColumn})
		case symbolize.Builtin:
			builtins = append(builtins, f.Name)
		}
	}
	return got, builtins
}

// after returns the frames after the first of that name.
func after(t *testing.T, frames []Frame, name string) []Frame {
	t.Helper()
	at := slices.IndexFunc(frames, func(f Frame) bool { return f.Name == name })
	if at < 0 {
		t.Fatalf("no frame of %s among %d", name, len(frames))
	}
	return frames[at+1:]
}

// word describes a value as postmortem_stack.js does.
func word(t *testing.T, h *v8.Heap, v v8.Value) string {
	t.Helper()
	if n, ok := h.Number(v); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	if text := h.Oddball(v); text != "" {
		return text
	}
	o, err := h.Object(v)
	if err != nil {
		t.Errorf("value %#x: %v", v, err)
		return ""
	}
	switch {
	case h.IsString(o):
		text, _, err := h.Text(v, 100)
		if err != nil {
			t.Errorf("text of %#x: %v", v, err)
		}
		return text
	case h.IsFunction(o):
		f, err := h.Function(o)
		if err != nil {
			t.Errorf("function %#x: %v", v, err)
		}
		return "function " + f.String()
	}
	class, err := h.Class(o)
	if err != nil {
		t.Errorf("class of %#x: %v", v, err)
	}
	return class
}

// checkCalls compares the arguments passed to the chain's functions with their frames,
// and returns how many have arguments. From V8 14.6 on, Maglev code does not pass
// arguments that the called function does not declare.
func checkCalls(t *testing.T, d *Dump, c chain, frames []Frame) int {
	t.Helper()
	checked := 0
	for _, f := range frames {
		want, known := c.Given[f.Name]
		if f.Kind != symbolize.JS || !known || f.Inlined {
			continue
		}
		if !f.HasCall {
			t.Errorf("%s: no call: %v", f.Name, f.Trouble)
			continue
		}
		checked++
		if d.Binary().Version.Major >= 14 && f.Tier == symbolize.Maglev {
			want = want[:max(f.Call.Count, min(len(want), 1))]
		}
		got := []string{}
		for _, v := range f.Call.Arguments {
			got = append(got, word(t, d.Heap(), v))
		}
		if diff := cmp.Diff(want, got); diff != "" || f.Call.Count != len(want) {
			t.Errorf("%s: %d arguments, want %d (-want +got):\n%s", f.Name, f.Call.Count, len(want), diff)
		}
		if class := c.Receivers[f.Name]; class != "" {
			if got := word(t, d.Heap(), f.Call.This); got != class {
				t.Errorf("%s: this = %s, want %s", f.Name, got, class)
			}
		}
	}
	return checked
}

// checkChain compares the stack of a thread with the program's own stack trace.
func checkChain(t *testing.T, d *Dump, c chain, thread Thread) []Frame {
	t.Helper()
	s := d.Stack(thread)
	if s.Broken || s.Truncated {
		t.Errorf("broken = %v, truncated = %v, want neither", s.Broken, s.Truncated)
	}
	for _, f := range s.Frames {
		if f.Trouble != nil {
			t.Errorf("%s: %v", f.Name, f.Trouble)
		}
	}
	frames := after(t, s.Frames, "leaf")
	want, _ := scripted(c.Calls)
	got, _ := executing(frames)
	for i := range got {
		if i < len(want) && got[i].Name == "drains" && tierOf(frames, "drains") == symbolize.Maglev {
			want[i].Column = got[i].Column // its table lacks the calls that "for" makes
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
	checkConstructors(t, c.Calls, frames)
	var awaiting []call
	for _, c := range c.Calls {
		if c.Async && !c.Builtin { // Promise.all has a frame in a trace
			awaiting = append(awaiting, call{c.Function, c.File, c.Line, c.Column})
		}
	}
	got, _ = executing(s.Awaiting)
	if diff := cmp.Diff(awaiting, got); diff != "" {
		t.Errorf("awaiting (-want +got):\n%s", diff)
	}
	return frames
}

// checkConstructors compares which calls were made by new or super. An inlined call does
// not show it.
func checkConstructors(t *testing.T, calls []nodetest.Call, frames []Frame) {
	t.Helper()
	var want, got []string
	for _, c := range calls {
		inlined := slices.ContainsFunc(frames, func(f Frame) bool { return f.Name == c.Function && f.Inlined })
		if c.Construct && !inlined {
			want = append(want, c.Function)
		}
	}
	for _, f := range frames {
		if f.Construct {
			got = append(got, f.Name)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("constructors (-want +got):\n%s", diff)
	}
}

func tierOf(frames []Frame, name string) symbolize.Tier {
	at := slices.IndexFunc(frames, func(f Frame) bool { return f.Name == name })
	return frames[at].Tier
}

// inlining returns node's flags for functions that are compiled when the program requests
// it, with their callees inlined.
func inlining(version string, tier symbolize.Tier) ([]string, bool) {
	flags := []string{"--allow-natives-syntax", "--no-use-osr", "--no-concurrent-recompilation"}
	if tier == symbolize.Maglev {
		return append(flags, "--maglev", "--no-opt"), nodetest.Major(version) >= 24
	}
	return flags, true
}

// usual is the compiler with which a version is tested on each change.
func usual(version string) symbolize.Tier {
	at := slices.Index(nodetest.Versions, version)
	return []symbolize.Tier{
		symbolize.Turbofan, symbolize.Baseline, symbolize.Interpreted, symbolize.Turbofan,
		symbolize.Maglev, symbolize.Baseline, symbolize.Maglev,
	}[at]
}

// TestStackEqualsErrorStack compares the main thread of a core with new Error().stack,
// for each compiler, and the arguments with those that were passed.
func TestStackEqualsErrorStack(t *testing.T) {
	for _, version := range nodetest.Versions {
		for _, tier := range nodetest.Tiers {
			flags, ok := nodetest.TierFlags(version, tier)
			if !ok || !matrix() && tier != usual(version) {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(t *testing.T) {
				c := startChain(t, version, flags, "--tier="+tier.String())
				d := dumped(t, c.PID, Options{})
				frames := checkChain(t, d, c, d.Threads()[0])
				if got := checkCalls(t, d, c, frames); got < 20 {
					t.Errorf("frames with arguments = %d, want 20 or more", got)
				}
				for _, f := range frames {
					if f.Name == "fewer" && f.Tier != tier {
						t.Errorf("tier of fewer = %v, want %v", f.Tier, tier)
					}
				}
			})
		}
	}
}

// TestInlinedFunctionsHaveFrames has compilers inline functions into their callers.
func TestInlinedFunctionsHaveFrames(t *testing.T) {
	for _, version := range nodetest.Versions {
		for _, tier := range []symbolize.Tier{symbolize.Maglev, symbolize.Turbofan} {
			flags, ok := inlining(version, tier)
			usual := nodetest.Major(version)%4 == 2 != (tier == symbolize.Maglev)
			if !ok || !matrix() && !usual {
				continue
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(t *testing.T) {
				c := startChain(t, version, flags, "--tier="+tier.String())
				d := dumped(t, c.PID, Options{})
				frames := checkChain(t, d, c, d.Threads()[0])
				checkCalls(t, d, c, frames)
				inlined := 0
				for _, f := range frames {
					if f.Inlined {
						inlined++
					}
				}
				if inlined < 5 {
					t.Errorf("inlined frames = %d, want 5 or more", inlined)
				}
			})
		}
	}
}

// running returns the thread that runs JavaScript in the isolate with that index.
func running(t *testing.T, d *Dump, isolate int) Thread {
	t.Helper()
	isolates := d.Isolates()
	if isolate >= len(isolates) {
		t.Fatalf("isolates = %d, want more than %d", len(isolates), isolate)
	}
	at := slices.IndexFunc(d.Threads(), func(thread Thread) bool { return thread.TID == isolates[isolate].Threads[0] })
	return d.Threads()[at]
}

// TestWorkersStackIsFound compares the stack of a worker thread, which has awaited.
func TestWorkersStackIsFound(t *testing.T) {
	for i, version := range nodetest.Versions {
		if !matrix() && i%3 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			flags, _ := nodetest.TierFlags(version, symbolize.Interpreted)
			c := startChain(t, version, flags, "--worker", "--async")
			d := dumped(t, c.PID, Options{})
			if got := d.Isolates()[0].Threads[0]; got != c.PID {
				t.Errorf("first thread of the first isolate = %d, want %d", got, c.PID)
			}
			worker := running(t, d, 1)
			if worker.TID == c.PID {
				t.Errorf("the worker's thread is the main thread")
			}
			frames := checkChain(t, d, c, worker)
			checkCalls(t, d, c, frames)
			if got := len(d.Stack(d.Threads()[0]).Frames); got == 0 {
				t.Errorf("the main thread has no frame")
			}
		})
	}
}

// TestDebiansStackIsWhole compares the stack of a worker of Debian's Node.js, whose
// libnode is stripped and whose libuv has no frame pointers.
func TestDebiansStackIsWhole(t *testing.T) {
	target := nodetest.Start(t, nodetest.DebianNode(t), nodetest.Options{
		Script: "postmortem_stack.js", Args: []string{"--worker", "--async"},
	})
	var c chain
	target.Facts(&c)
	d := dumped(t, c.PID, Options{})
	checkCalls(t, d, c, checkChain(t, d, c, running(t, d, 1)))
}
