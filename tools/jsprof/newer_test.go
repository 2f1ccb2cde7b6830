package jsprof

import (
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestNewerV8IsNamed compares stacks with the program's own on a Node.js whose V8 reports
// a version that has no release file: the newest layout is verified on the process.
func TestNewerV8IsNamed(t *testing.T) {
	nodetest.Root(t)
	const version, tier = "26.10.0", symbolize.Interpreted
	flags, _ := nodetest.TierFlags(version, tier)
	testNested(t, nodetest.NodeOfV8(t, version, 15, 0), tier, flags, func(err error) {
		if !strings.Contains(err.Error(), "it is read as that of Node.js 26, which checks of the process confirm") {
			t.Errorf("warning: %v", err)
		}
	})
}
