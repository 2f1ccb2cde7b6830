package stack_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
)

// waits is what postmortem_stack_waits.js reports about itself.
type waits struct {
	PID    int            `json:"pid"`
	File   string         `json:"file"`
	Counts map[string]int `json:"counts"`
	Lines  map[string]int `json:"lines"`
}

// TestWaitingFunctionsAreCounted compares where generators and async functions wait with
// what the program reports.
func TestWaitingFunctionsAreCounted(t *testing.T) {
	for i, version := range nodetest.Versions {
		if !matrix() && i%4 != 1 {
			continue
		}
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "postmortem_stack_waits.js"})
			var truth waits
			target.Facts(&truth)
			d := dumped(t, truth.PID)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			all := d.Waiting(g.Graph)
			counts, lines := map[string]int{"ended": 0}, map[string]int{}
			for i, w := range all {
				if w.Frame.Trouble != nil {
					t.Errorf("%s: %v", w.Frame.Name, w.Frame.Trouble)
				}
				if i > 0 && len(w.Generators) > len(all[i-1].Generators) {
					t.Errorf("%s comes after %s, which fewer wait in", w.Frame.Name, all[i-1].Frame.Name)
				}
				if w.Frame.File != truth.File {
					continue
				}
				counts[w.Frame.Name] += len(w.Generators)
				if w.Frame.Name != "unbegun" {
					lines[w.Frame.Name] = w.Frame.ExecutingLine
				}
			}
			if diff := cmp.Diff(truth.Counts, counts); diff != "" {
				t.Errorf("counts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(truth.Lines, lines); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
		})
	}
}
