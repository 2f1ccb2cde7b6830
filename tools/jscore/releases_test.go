package jscore

import (
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestReleasesCoreStack compares a core's stack with the program's own.
func TestReleasesCoreStack(t *testing.T) {
	for _, release := range nodetest.ReleasesOr("18.0.0", "24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "jscore")
			const tier = symbolize.Turbofan
			flags, _ := nodetest.TierFlags(release, tier)
			c := calls.Start(t, release, flags, "--tier="+tier.String())
			d := dumped(t, c.PID, Options{})
			calls.Check(t, d.Unwinder, c, d.Threads()[0])
		})
	}
}
