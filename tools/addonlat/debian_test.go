package addonlat

import (
	"testing"

	"ustack/testdata/nodetest"
)

// TestLibuvThatInlinesCompletionsShowsAll uses Debian sid's libuv, whose uv__work_done
// does itself what uv__queue_done would do.
func TestLibuvThatInlinesCompletionsShowsAll(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	checkExact(t, nodetest.Debian(t, "sid"), addons(t, nodetest.Node(t, "24.21.0"), nodetest.FramePointers))
}
