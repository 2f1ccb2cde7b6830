package nodejs_test

import (
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// TestFatalErrorIsFound has V8 abort programs.
func TestFatalErrorIsFound(t *testing.T) {
	for i, version := range nodetest.Versions {
		if !matrix() && i%4 != 3 {
			continue
		}
		for _, tt := range []struct {
			name string
			args []string
			want string
		}{
			{
				"memory",
				[]string{"--max-old-space-size=12", "-e", "a = []; for (;;) a.push({ x: a.length });"},
				"Allocation failed - JavaScript heap out of memory",
			},
			{"check", []string{"--allow-natives-syntax", "-e", "%OptimizeFunctionOnNextCall()"}, "Check failed: "},
		} {
			t.Run(version+"/"+tt.name, func(t *testing.T) {
				path, _ := nodetest.Killed(t, nodetest.Node(t, version), tt.args...)
				d, err := jscore.Open(t.Context(), path, jscore.Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				if got := d.Node().FatalError(); !strings.Contains(got, tt.want) {
					t.Errorf("fatal error = %q, want %q in it", got, tt.want)
				}
				if got := d.Stack(d.Threads()[0]); calls.Doubt(got) != "" {
					t.Errorf("stack: %s\n%s", calls.Doubt(got), calls.Listing(got))
				}
			})
		}
	}
}
