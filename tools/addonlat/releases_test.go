package addonlat

import (
	"testing"

	"ustack/testdata/nodetest"
)

// TestReleasesCounts has releases between which Node.js changed carry out a known
// number of jobs.
func TestReleasesCounts(t *testing.T) {
	nodetest.Root(t)
	for _, release := range nodetest.ReleasesOr("24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "addonlat")
			nodetest.NothingLeft(t, programs...)
			node := nodetest.Node(t, release)
			checkExact(t, node, addons(t, node, nodetest.FramePointers))
		})
	}
}
