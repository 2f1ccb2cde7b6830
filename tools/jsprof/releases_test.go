package jsprof

import (
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestReleasesNames compares stacks with the programs' own, in releases between which
// V8 changed.
func TestReleasesNames(t *testing.T) {
	nodetest.Root(t)
	for _, release := range nodetest.ReleasesOr("24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "jsprof")
			flags, ok := nodetest.TierFlags(release, symbolize.Interpreted)
			if !ok {
				t.Fatalf("no flags for the interpreter of %s", release)
			}
			testNested(t, nodetest.Node(t, release), symbolize.Interpreted, flags, nil)
		})
	}
}

// TestReleasesShares profiles programs whose CPU shares are known.
func TestReleasesShares(t *testing.T) {
	nodetest.Root(t)
	for _, release := range nodetest.ReleasesOr("24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "jsprof")
			testShares(t, nodetest.Node(t, release), release, "plain", nil)
		})
	}
}
