// Package calls starts Node.js programs that know their calls, and compares the stacks
// that are unwound of their processes with what they know.
package calls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
)

// A Chain is what postmortem_stack.js reports about itself.
type Chain struct {
	PID       int                 `json:"pid"`
	Calls     []nodetest.Call     `json:"calls"`
	Given     map[string][]string `json:"given"`
	Receivers map[string]string   `json:"receivers"`
}

// Start returns a process that waits in a chain of calls, and what it reports.
func Start(t *testing.T, version string, flags []string, args ...string) Chain {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Flags: flags, Script: "postmortem_stack.js", Args: args,
	})
	var c Chain
	target.Facts(&c)
	if !slices.Contains(args, "--worker") {
		nodetest.WaitUntilBlocked(t, c.PID) // it may still be on its way to wait
	}
	return c
}

// StartSource starts a program with that source.
func StartSource(t *testing.T, version, source string, flags ...string) *nodetest.Target {
	t.Helper()
	script := filepath.Join(t.TempDir(), "source.js")
	if err := os.WriteFile(script, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: script, Flags: flags})
}

// A call is a frame as tests compare it.
type Call struct {
	Name, File   string
	Line, Column int
}

// scripted returns the calls of functions with a script, and the names of the others
// that a stack trace shows.
func scripted(calls []nodetest.Call) (want []Call, builtins []string) {
	for _, c := range calls {
		switch {
		case c.Async:
		case c.Builtin:
			builtins = append(builtins, c.Function)
		default:
			want = append(want, Call{c.Function, c.File, c.Line, c.Column})
		}
	}
	return want, builtins
}

// Executing returns the frames of functions with a script as calls, and the names of V8's
// own.
func Executing(frames []stack.Frame) (got []Call, builtins []string) {
	for _, f := range frames {
		switch f.Kind {
		case symbolize.JS:
			got = append(got, Call{f.Name, f.File, f.ExecutingLine, f.ExecutingColumn})
		case symbolize.Builtin:
			builtins = append(builtins, f.Name)
		}
	}
	return got, builtins
}

// after returns the frames after the first of that name.
func after(t *testing.T, frames []stack.Frame, name string) []stack.Frame {
	t.Helper()
	at := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.Name == name })
	if at < 0 {
		t.Fatalf("no frame of %s among %d", name, len(frames))
	}
	return frames[at+1:]
}

// Describe describes a value as postmortem_stack.js does.
func Describe(t *testing.T, h *v8.Heap, v v8.Value) string {
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

// CheckArguments compares the arguments passed to the chain's functions with their frames,
// and returns how many have arguments. From V8 14.6 on, Maglev code does not pass
// arguments that the called function does not declare.
func CheckArguments(t *testing.T, u *stack.Unwinder, c Chain, frames []stack.Frame) int {
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
		if u.V8().Binary.Version.Major >= 14 && f.Tier == symbolize.Maglev {
			want = want[:max(f.Call.Count, min(len(want), 1))]
		}
		got := []string{}
		for _, v := range f.Call.Arguments {
			got = append(got, Describe(t, u.V8().Heap, v))
		}
		if diff := cmp.Diff(want, got); diff != "" || f.Call.Count != len(want) {
			t.Errorf("%s: %d arguments, want %d (-want +got):\n%s", f.Name, f.Call.Count, len(want), diff)
		}
		if class := c.Receivers[f.Name]; class != "" {
			if got := Describe(t, u.V8().Heap, f.Call.This); got != class {
				t.Errorf("%s: this = %s, want %s", f.Name, got, class)
			}
		}
	}
	return checked
}

// Check compares the stack of a thread with the program's own stack trace.
func Check(t *testing.T, u *stack.Unwinder, c Chain, thread stack.Thread) []stack.Frame {
	t.Helper()
	s := u.Stack(thread)
	if s.Broken || s.Truncated {
		t.Errorf("broken = %v, truncated = %v, want neither:\n%s", s.Broken, s.Truncated, Listing(s))
	}
	for _, f := range s.Frames {
		if f.Trouble != nil {
			t.Errorf("%s: %v", f.Name, f.Trouble)
		}
	}
	frames := after(t, s.Frames, "leaf")
	want, _ := scripted(c.Calls)
	got, _ := Executing(frames)
	for i := range got {
		if i < len(want) && got[i].Name == "drains" && tierOf(frames, "drains") == symbolize.Maglev {
			want[i].Column = got[i].Column // its table lacks the calls that "for" makes
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stack (-want +got):\n%s", diff)
	}
	checkConstructors(t, c.Calls, frames)
	var awaiting []Call
	for _, c := range c.Calls {
		if c.Async && !c.Builtin { // Promise.all has a frame in a trace
			awaiting = append(awaiting, Call{c.Function, c.File, c.Line, c.Column})
		}
	}
	got, _ = Executing(s.Awaiting)
	if diff := cmp.Diff(awaiting, got); diff != "" {
		t.Errorf("awaiting (-want +got):\n%s", diff)
	}
	return frames
}

// checkConstructors compares which calls were made by new or super. An inlined call does
// not show it.
func checkConstructors(t *testing.T, calls []nodetest.Call, frames []stack.Frame) {
	t.Helper()
	var want, got []string
	for _, c := range calls {
		inlined := slices.ContainsFunc(frames, func(f stack.Frame) bool { return f.Name == c.Function && f.Inlined })
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

func tierOf(frames []stack.Frame, name string) symbolize.Tier {
	at := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.Name == name })
	return frames[at].Tier
}

// Doubt returns what is not known about a stack; empty if everything is.
func Doubt(s stack.Stack) string {
	last := s.Frames[len(s.Frames)-1].Name
	if s.Broken && strings.HasPrefix(last, "DeoptimizationEntry") {
		return "" // V8 has taken apart the frame that would come next
	}
	if s.Broken || s.Truncated {
		return "it ends early"
	}
	if last != "_start" {
		return "it does not begin where the process does"
	}
	for _, f := range s.Frames {
		switch {
		case f.Trouble != nil:
			return f.Trouble.Error()
		case f.Name == symbolize.Unknown || f.Name == symbolize.Broken:
			return "it has a gap"
		case f.Kind == symbolize.JS && f.ExecutingLine == 0 && f.PC != 0 && f.Tier != symbolize.Maglev: // whose table may be wrong there
			return f.Name + " has no line"
		}
	}
	return ""
}

// Listing lists the frames of a stack.
func Listing(s stack.Stack) string {
	var b strings.Builder
	for _, f := range s.Frames {
		fmt.Fprintf(&b, "%x %s %s %q %s:%d %v\n", f.PC, f.Kind, f.Tier, f.Name, f.File, f.ExecutingLine, f.Trouble)
	}
	return b.String()
}
