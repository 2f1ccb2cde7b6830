package stopon

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestEndedProcessHasItsLines: a process takes its scripts' text with it. Lines then
// come from its files and its binary.
func TestEndedProcessHasItsLines(t *testing.T) {
	nodetest.Root(t)
	three := equal(3)
	for _, test := range []struct {
		name, scenario string
		options        Options
	}{
		{"exit", "exit", Options{Exit: &three}},
		{"killed", "badclose", badClose(Action{Do: Kill, Signal: unix.SIGKILL})},
	} {
		for _, version := range nodetest.Versions {
			t.Run(fmt.Sprintf("%s/node%d", test.name, nodetest.Major(version)), func(t *testing.T) {
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
					Script: "trouble.js", Args: []string{test.scenario}, MayFail: true,
				})
				r := watch(t, target, test.options)
				target.Signal(unix.SIGUSR2)
				hits := r.end(1)
				if len(hits) != 1 || len(javascript(hits[0])) < 2 {
					t.Fatalf("hits = %+v, want one with JavaScript functions", hits)
				}
				for _, f := range hits[0].Frames {
					if f.Kind == symbolize.JS && (f.Line == 0 || f.Column == 0) {
						t.Errorf("%s of %s has no line", f.Name, f.File)
					}
				}
			})
		}
	}
}
