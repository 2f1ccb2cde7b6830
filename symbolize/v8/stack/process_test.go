package stack_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
	"ustack/tools/jscore"
)

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
				c := calls.Start(t, version, flags, "--tier="+tier.String())
				d := dumped(t, c.PID)
				frames := calls.Check(t, d.Unwinder, c, d.Threads()[0])
				if got := calls.CheckArguments(t, d.Unwinder, c, frames); got < 20 {
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
				c := calls.Start(t, version, flags, "--tier="+tier.String())
				d := dumped(t, c.PID)
				frames := calls.Check(t, d.Unwinder, c, d.Threads()[0])
				calls.CheckArguments(t, d.Unwinder, c, frames)
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
func running(t *testing.T, d *jscore.Dump, isolate int) stack.Thread {
	t.Helper()
	isolates := d.Isolates()
	if isolate >= len(isolates) {
		t.Fatalf("isolates = %d, want more than %d", len(isolates), isolate)
	}
	at := slices.IndexFunc(d.Threads(), func(thread stack.Thread) bool { return thread.TID == isolates[isolate].Threads[0] })
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
			c := calls.Start(t, version, flags, "--worker", "--async")
			d := dumped(t, c.PID)
			if got := d.Isolates()[0].Threads[0]; got != c.PID {
				t.Errorf("first thread of the first isolate = %d, want %d", got, c.PID)
			}
			worker := running(t, d, 1)
			if worker.TID == c.PID {
				t.Errorf("the worker's thread is the main thread")
			}
			frames := calls.Check(t, d.Unwinder, c, worker)
			calls.CheckArguments(t, d.Unwinder, c, frames)
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
	var c calls.Chain
	target.Facts(&c)
	d := dumped(t, c.PID)
	calls.CheckArguments(t, d.Unwinder, c, calls.Check(t, d.Unwinder, c, running(t, d, 1)))
}

// matrix reports whether to test every combination: that is for `make test-matrix`, not
// for each change.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// inlining returns node's flags for functions that are compiled when the program requests
// it, with their callees inlined.
func inlining(version string, tier symbolize.Tier) ([]string, bool) {
	flags := []string{"--allow-natives-syntax", "--no-use-osr", "--no-concurrent-recompilation"}
	if tier == symbolize.Maglev {
		return append(flags, "--maglev", "--no-opt"), nodetest.Major(version) >= 24
	}
	return flags, true
}

// dumped takes a core of a live process and opens it.
func dumped(t testing.TB, pid int) *jscore.Dump {
	t.Helper()
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), pid, path, core.Options{}); err != nil {
		t.Fatalf("core.Write: %v", err)
	}
	return opened(t, path)
}

func opened(t testing.TB, path string) *jscore.Dump {
	t.Helper()
	d, err := jscore.Open(t.Context(), path, jscore.Options{})
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
