package jsprof

import (
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// warnsOfStripped fails the test on any warning except that symbols are missing.
func warnsOfStripped(t *testing.T) func(error) {
	return func(err error) {
		if !strings.Contains(err.Error(), "stripped of symbols, so some names will be missing") {
			t.Errorf("warning: %v", err)
		}
	}
}

// TestStrippedBuildsNames compares stacks with the programs' own, in builds without
// symbols: in all such builds in the matrix.
func TestStrippedBuildsNames(t *testing.T) {
	nodetest.Root(t)
	builds := nodetest.StrippedFew
	if matrix() {
		builds = nodetest.Stripped
	}
	for _, build := range builds {
		for _, tier := range []symbolize.Tier{symbolize.Interpreted, symbolize.Turbofan} {
			t.Run(build.Name+"/"+tier.String(), func(t *testing.T) {
				node, version := build.Node(t)
				flags, _ := nodetest.TierFlags(version, tier)
				testNested(t, node, tier, flags, warnsOfStripped(t))
			})
		}
	}
}

// TestStrippedBuildsShares profiles programs whose CPU shares are known, on builds
// without symbols: on all such builds in the matrix.
func TestStrippedBuildsShares(t *testing.T) {
	nodetest.Root(t)
	builds := nodetest.StrippedFew[:1]
	if matrix() {
		builds = nodetest.Stripped
	}
	for _, build := range builds {
		t.Run(build.Name, func(t *testing.T) {
			node, version := build.Node(t)
			testShares(t, node, version, "plain", warnsOfStripped(t))
		})
	}
}
