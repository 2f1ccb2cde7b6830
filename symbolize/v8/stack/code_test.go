package stack_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
)

// TestBaselineFunctionsAreKnownAsTheyReturn stops a program where V8, before a function of
// the baseline compiler returns, checks whether to optimize it. gdb does the stopping: it
// can break at a function of V8.
func TestBaselineFunctionsAreKnownAsTheyReturn(t *testing.T) {
	versions := []string{"24.21.0"}
	if matrix() {
		versions = []string{"20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0"}
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			nodetest.Root(t)
			// Without loops V8 only checks when functions return.
			target := calls.StartSource(t, version, `
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
function again() { fib(20); setImmediate(again); }
console.log('ready');
again();`, "--sparkplug", "--no-opt", "--no-maglev")
			d := opened(t, gdbCore(t, target.PID, "_ZN2v88internal41Runtime_BytecodeBudgetInterrupt_SparkplugEiPmPNS0_7IsolateE"))
			s := d.Stack(d.Threads()[0])
			if reason := calls.Doubt(s); reason != "" {
				t.Errorf("%s:\n%s", reason, calls.Listing(s))
			}
			if !isReturning(d, s) {
				t.Errorf("no function is about to return:\n%s", calls.Listing(s))
			}
		})
	}
}

// TestStackIsWholeWhereALoopIsEntered stops a program where V8 continues in the baseline
// compiler's code, in the middle of a loop: a builtin has built a frame over the
// accumulator, and the frame has no return address.
func TestStackIsWholeWhereALoopIsEntered(t *testing.T) {
	functions := map[string]string{
		"20.20.2": "_ZN2v88internal12_GLOBAL__N_1L33BaselinePCForNextExecutedBytecodeEmim",
		"24.21.0": "_ZN2v88internal12_GLOBAL__N_1L33BaselinePCForNextExecutedBytecodeEmim",
		"26.10.0": "_ZN2v88internal12_GLOBAL__N_133BaselinePCForNextExecutedBytecodeEmim",
	}
	for version, function := range functions {
		if !matrix() && version != "24.21.0" {
			continue
		}
		t.Run(version, func(t *testing.T) {
			nodetest.Root(t)
			target := calls.StartSource(t, version, `
let text = 'function loop(n) { let x = 0; for (let i = 0; i < n; i++) x = (x + i) % 1000; return x; } loop(50000);';
function again() { (0, eval)(text += ' '); setImmediate(again); }
console.log('ready');
again();`, "--sparkplug", "--no-opt", "--no-maglev")
			d := opened(t, gdbCore(t, target.PID, function))
			s := d.Stack(d.Threads()[0])
			if reason := calls.Doubt(s); reason != "" {
				t.Errorf("%s:\n%s", reason, calls.Listing(s))
			}
			if first := slices.IndexFunc(s.Frames, func(f stack.Frame) bool { return f.Kind == symbolize.JS }); first < 0 || s.Frames[first].Name != "loop" {
				t.Errorf("the innermost function is not loop:\n%s", calls.Listing(s))
			}
		})
	}
}

// TestStackIsTheSameWhileAFrameIsBuilt single-steps the builtin that builds the frames of
// baseline code: the functions are always the same.
func TestStackIsTheSameWhileAFrameIsBuilt(t *testing.T) {
	versions, stride := []string{"24.21.0"}, 7
	if matrix() {
		versions, stride = []string{"18.20.8", "20.20.2", "22.23.3", "24.21.0", "25.9.0", "26.10.0"}, 3
	}
	for _, version := range versions {
		for _, caller := range []symbolize.Tier{symbolize.Baseline, symbolize.Turbofan} {
			t.Run(fmt.Sprintf("%s/called from %v", version, caller), func(t *testing.T) {
				testFrameBeingBuilt(t, version, caller, stride)
			})
		}
	}
}

func testFrameBeingBuilt(t *testing.T, version string, caller symbolize.Tier, stride int) {
	nodetest.Root(t)
	// With short calls V8 runs copies of its builtins, which have no symbols.
	flags := []string{
		"--always-sparkplug", "--no-sparkplug-needs-short-builtins", "--no-short-builtin-calls", "--allow-natives-syntax", "--single-threaded",
	}
	if nodetest.Major(version) >= 20 {
		flags = append(flags, "--no-maglev")
	}
	if caller == symbolize.Baseline {
		flags = append(flags, "--no-opt")
	}
	target := calls.StartSource(t, version, `
function inner(n) { return n + 1; }
function outer(n) {
  let last = 0;
  for (let i = 0; i < n; i++) {
    last = inner(i);
  }
  return last;
}
%NeverOptimizeFunction(inner);
%PrepareFunctionForOptimization(outer);
outer(1e4);
%OptimizeFunctionOnNextCall(outer);
outer(10);
console.log('ready');
for (;;) outer(1e6);`, flags...)
	const instructions = 22 // until it returns
	dir := t.TempDir()
	commands := []string{"break *(&Builtins_BaselineOutOfLinePrologue)", "continue", "delete"}
	var cores []string
	for at := 0; at < instructions; at += stride {
		cores = append(cores, filepath.Join(dir, strconv.Itoa(at)))
		commands = append(commands, "gcore "+cores[len(cores)-1], "stepi "+strconv.Itoa(stride))
	}
	gdb(t, target.PID, commands...)
	want := []calls.Call{{Name: "inner", File: "source.js", Line: 2, Column: 15}, {Name: "outer", File: "source.js", Line: 6, Column: 12}}
	for _, path := range cores {
		d := opened(t, path)
		s := d.Stack(d.Threads()[0])
		if reason := calls.Doubt(s); reason != "" {
			t.Errorf("instruction %s: %s:\n%s", filepath.Base(path), reason, calls.Listing(s))
		}
		got, _ := calls.Executing(s.Frames)
		for i := range got {
			got[i].File = filepath.Base(got[i].File)
		}
		if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" {
			t.Errorf("instruction %s (-want +got):\n%s\n%s", filepath.Base(path), diff, calls.Listing(s))
		}
	}
}

// TestEndlessRegularExpressionIsSeen examines a program that never finishes matching a
// text: the expression's machine code belongs to no function.
func TestEndlessRegularExpressionIsSeen(t *testing.T) {
	versions := []string{"16.20.2", "24.21.0"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, `
function stuck(text) { return /^(?:a+)+$/.test(text); }
console.log('ready');
stuck('a'.repeat(64) + 'b');`, "--no-regexp-tier-up")
			for range 50 {
				d := dumped(t, target.PID)
				s := d.Stack(d.Threads()[0])
				if reason := calls.Doubt(s); reason != "" {
					t.Errorf("%s:\n%s", reason, calls.Listing(s))
				}
				if !stack.IsJIT(d.Unwinder, s.Frames[0].PC) {
					continue // not there yet
				}
				caller := slices.IndexFunc(s.Frames, func(f stack.Frame) bool { return f.Kind == symbolize.JS })
				if got := s.Frames[0].Kind; got != symbolize.Typed || s.Frames[max(caller, 0)].Name != "stuck" {
					t.Errorf("the expression's code is a frame of kind %v, want typed, called by stuck:\n%s", got, calls.Listing(s))
				}
				return
			}
			t.Error("the expression was not being matched")
		})
	}
}

// gdbCore takes a core of a process as it calls a function.
func gdbCore(t *testing.T, pid int, function string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	gdb(t, pid, "break "+function, "continue", "gcore "+path)
	return path
}

// gdb attaches to a process, executes commands and detaches.
func gdb(t *testing.T, pid int, commands ...string) {
	t.Helper()
	args := []string{"-nx", "-batch", "-p", strconv.Itoa(pid)}
	for _, c := range commands {
		args = append(args, "-ex", c)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // what it waits for may never happen
	defer cancel()
	if out, err := exec.CommandContext(ctx, "gdb", args...).CombinedOutput(); err != nil {
		t.Fatalf("gdb: %v\n%s", err, out)
	}
}

// isReturning reports whether the innermost JavaScript on a stack is code of the baseline
// compiler whose frame is being torn down by one of V8's builtins.
func isReturning(d *jscore.Dump, s stack.Stack) bool {
	for _, f := range s.Frames {
		if f.Kind == symbolize.JS {
			return stack.IsBuiltin(d.Unwinder, f.PC) && f.Tier == symbolize.Baseline
		}
	}
	return false
}
