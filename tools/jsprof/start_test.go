package jsprof

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// startVersions are the versions whose stacks are followed to their threads' start.
func startVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
}

// TestStacksEndWhereThreadsStart makes a process's main thread and a worker spin.
func TestStacksEndWhereThreadsStart(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		t.Run(version, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "workers.js", Args: []string{"1"}})
			exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", target.PID))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Run(t.Context(), Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 499, Duration: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			ends := make(map[string]uint64)
			for _, s := range p.Stacks {
				last := s.Frames[len(s.Frames)-1]
				end := last.Name
				if last.Name == "_start" && last.Module != exe {
					end = "_start of " + last.Module
				}
				if s.TID == target.PID {
					end += ", main"
				}
				ends[end] += s.Value
			}
			most := func(end string) bool { return ends[end] > 9*(p.Total/2)/10 } // each thread has about half of the samples
			if t.Log(ends); ends["_start, main"] == 0 || ends["start_thread"] == 0 || !most("_start, main") && !most("start_thread") {
				t.Errorf("stacks end in %v, want them to in _start of %s and in start_thread", ends, exe)
			}
			if ends[""]+ends[", main"] != 0 {
				t.Errorf("%d stacks end in a function without a name", ends[""]+ends[", main"])
			}
		})
	}
}

// TestServersStacksAreWhole profiles a server under load: files, TLS, compression and
// cryptography, on its main thread and in the thread pool.
func TestServersStacksAreWhole(t *testing.T) {
	nodetest.Root(t)
	const samples, wantShare = 3000, 0.995
	for _, version := range startVersions() {
		t.Run(version, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "web.js"})
			p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute}, samples)
			whole := map[bool]uint64{}
			all := map[bool]uint64{}
			ends := make(map[string]uint64)
			for _, s := range p.Stacks {
				main := s.TID == target.PID
				all[main] += s.Value
				if reachesStart(s) {
					whole[main] += s.Value
				} else {
					ends[cut(s)] += s.Value
				}
			}
			for main, count := range all {
				share := float64(whole[main]) / float64(count)
				t.Logf("main thread %t: %.2f %% of %d samples reach the thread's start; failures: %v", main, 100*share, count, p.Failures)
				if share < wantShare {
					t.Errorf("main thread %t: %.2f %% of %d samples reach the thread's start, want %.1f; others end in %v", main, 100*share, count, 100*wantShare, ends)
				}
			}
			if len(all) != 2 || p.Total < samples/2 {
				t.Errorf("samples = %d by thread %v, want %d of the main thread and of others", p.Total, all, samples)
			}
		})
	}
}

// reachesStart reports whether a stack reaches its thread's start, without a gap.
func reachesStart(s profile.Stack) bool {
	last := s.Frames[len(s.Frames)-1].Name
	gap := slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Name == symbolize.Broken })
	return !gap && (last == "_start" || last == "start_thread")
}

// cut returns the functions at a stack's gap, or at its end.
func cut(s profile.Stack) string {
	at := slices.IndexFunc(s.Frames, func(f symbolize.Frame) bool { return f.Name == symbolize.Broken })
	if at < 0 {
		at = len(s.Frames) - 1
	}
	var names []string
	for _, f := range s.Frames[max(0, at-2) : at+1] {
		names = append(names, f.Name)
	}
	return strings.Join(names, " < ")
}
