package jsprof

import (
	"math"
	"slices"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestInlinedFunctionsWithoutPositions has functions that Maglev inlined, and that call
// nothing, in releases of Node.js that keep no positions with Maglev's code.
func TestInlinedFunctionsWithoutPositions(t *testing.T) {
	nodetest.Root(t)
	versions := []string{"24.0.0"}
	if matrix() {
		versions = append(versions, "22.0.0")
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) { testWithoutPositions(t, version) })
	}
}

func testWithoutPositions(t *testing.T, version string) {
	t.Helper()
	flags := []string{"--allow-natives-syntax", "--no-use-osr", "--no-sparkplug", "--maglev", "--no-opt"}
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Flags: flags, Script: "lines.js", Args: []string{"checks", "--tier=" + symbolize.Maglev.String()},
	})
	var truth struct {
		Functions []struct {
			Name  string
			Units int // of ten
		}
		Tier string
	}
	target.Facts(&truth)
	if truth.Tier != symbolize.Maglev.String() {
		t.Fatalf("spin's code is %s's, want Maglev's", truth.Tier)
	}
	p := profileUntil(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 997, Duration: time.Minute}, 2000)
	functions := map[string]float64{}
	all, nearest := 0.0, 0.0
	for _, s := range p.Stacks {
		at := slices.IndexFunc(s.Frames, isJS)
		if at < 0 {
			continue
		}
		f := s.Frames[at]
		all += float64(s.Value)
		functions[f.Name] += 100 * float64(s.Value)
		if f.Nearest {
			nearest += float64(s.Value)
		}
	}
	if most := 0.9; nearest < most*all { // the rest is called by the code, whose place V8 keeps then
		t.Errorf("frames that are the nearest = %.0f of %.0f, want most", nearest, all)
	}
	for _, f := range truth.Functions {
		const tolerance = 5
		if got, want := functions[f.Name]/all, 10*float64(f.Units); math.Abs(got-want) > tolerance {
			t.Errorf("share of %s = %.1f %%, want %.0f %% ± %d", f.Name, got, want, tolerance)
		}
	}
}
