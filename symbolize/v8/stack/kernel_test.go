package stack_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8/stack"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
	"ustack/tools/jsprof"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// below returns the frames that call the function leaf: they no longer differ from sample
// to sample.
func below(frames []symbolize.Frame) []symbolize.Frame {
	return frames[slices.IndexFunc(frames, func(f symbolize.Frame) bool { return f.Name == "leaf" })+1:]
}

// seen returns the stack that the kernel's unwinder has seen most often in a process.
func seen(p *profile.Profile, pid int) []symbolize.Frame {
	counts := make(map[string]uint64)
	var most []symbolize.Frame
	best := uint64(0)
	for _, s := range p.Stacks {
		if s.TID != pid {
			continue
		}
		key := fmt.Sprint(below(s.Frames))
		counts[key] += s.Value
		if counts[key] > best {
			best, most = counts[key], below(s.Frames)
		}
	}
	return most
}

// framesOf returns a core's frames as a profile has them.
func framesOf(s stack.Stack) []symbolize.Frame {
	var frames []symbolize.Frame
	for _, f := range s.Frames {
		frames = append(frames, f.Frame)
	}
	return frames
}

// TestKernelSeesTheSameStack compares the kernel's unwinder with this one on the same
// processes, which spin in known functions.
func TestKernelSeesTheSameStack(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		if os.Getenv("USTACK_MATRIX") != "1" && version != "24.21.0" {
			continue
		}
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			node := nodetest.Node(t, version)
			scenarios := make(map[int]string)
			var pids []int
			for _, scenario := range []string{"constructor", "sort", "emit", "async"} {
				target := nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{scenario}})
				target.Signal(syscall.SIGSTOP)
				scenarios[target.PID] = scenario
				pids = append(pids, target.PID)
			}
			profile := sample(t, pids)
			for pid, scenario := range scenarios {
				t.Run(scenario, func(t *testing.T) { compare(t, pid, seen(profile, pid)) })
			}
		})
	}
}

// sample lets stopped processes run until each has been sampled, and stops them.
func sample(t *testing.T, pids []int) *profile.Profile {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	signal := func(sig syscall.Signal) {
		for _, pid := range pids {
			if err := syscall.Kill(pid, sig); err != nil {
				t.Errorf("signal process %d: %v", pid, err)
			}
		}
	}
	least := uint64(10 * len(pids))
	p, err := jsprof.Run(ctx, jsprof.Options{
		Selection: trace.Selection{PIDs: pids}, Hz: 199, Duration: time.Minute,
		Started: func(int) { signal(syscall.SIGCONT) },
		Sampled: func(count uint64) {
			if count >= least {
				cancel()
			}
		},
	})
	signal(syscall.SIGSTOP)
	if err != nil {
		t.Fatalf("sample: %v", err)
	}
	return p
}

func compare(t *testing.T, pid int, want []symbolize.Frame) {
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	got := below(framesOf(d.Stack(d.Threads()[0])))
	if len(want) < 10 {
		t.Fatalf("the kernel has seen %d frames, want 10 or more", len(want))
	}
	// From the C library's functions between main and _start, no frame pointer leads further.
	want, started := want[:len(want)-1], want[len(want)-1]
	if last := got[len(got)-1]; started.Name != "_start" || last.Name != started.Name {
		t.Errorf("stacks end in %v and %v, want _start", started, last)
	}
	const outermost = 3 // __libc_start_call_main, __libc_start_main and _start
	if diff := cmp.Diff(want, got[:min(len(got), len(want))]); diff != "" || len(got) > len(want)+outermost {
		t.Errorf("stack (-kernel's +core's):\n%s", diff)
	}
}
