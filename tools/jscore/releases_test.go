package jscore

import (
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestReleasesHeap counts objects in releases between which V8 changed, from the first of
// a line to the newest.
func TestReleasesHeap(t *testing.T) {
	for _, release := range nodetest.ReleasesOr("18.0.0", "24.0.0") {
		t.Run(release, func(t *testing.T) {
			g, facts := censusGraph(t, release, 20_000, 3_000)
			if g.Doubts.Loose || g.Doubts.Overlong > 0 || g.Doubts.Dangling > 0 || g.Doubts.Lost > maxLost {
				t.Errorf("doubts = %+v, want none", g.Doubts)
			}
			censusCountsWhatTheProgramMade(t, g, facts)
			censusTellsShapes(t, g, facts)
		})
	}
}

// TestReleasesCoreStack compares a core's stack with the program's own.
func TestReleasesCoreStack(t *testing.T) {
	for _, release := range nodetest.ReleasesOr("18.0.0", "24.0.0") {
		t.Run(release, func(t *testing.T) {
			const tier = symbolize.Turbofan
			flags, _ := nodetest.TierFlags(release, tier)
			c := calls.Start(t, release, flags, "--tier="+tier.String())
			d := dumped(t, c.PID, Options{})
			calls.Check(t, d.Unwinder, c, d.Threads()[0])
		})
	}
}
