package jsprof

import (
	"fmt"
	"os"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestStacksEndWhereThreadsStart makes a process's main thread and a worker spin.
func TestStacksEndWhereThreadsStart(t *testing.T) {
	nodetest.Root(t)
	versions := []string{"18.20.8", "26.10.0"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
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
