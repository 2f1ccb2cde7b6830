package postmortem

import (
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// attached returns a snapshot of a process, open.
func attached(t *testing.T, pid int) *Dump {
	t.Helper()
	d, err := Attach(t.Context(), pid, Options{})
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return d
}

// TestNewReleaseNeedsItsFileOnly adds a release that does not exist, as the file of
// a new one does, and looks at a live process of it before and after.
func TestNewReleaseNeedsItsFileOnly(t *testing.T) {
	const version, tier = "26.10.0", symbolize.Turbofan
	node := nodetest.NodeOfV8(t, version, 15, 0)
	flags, _ := nodetest.TierFlags(version, tier)
	target := nodetest.Start(t, node, nodetest.Options{
		Flags: flags, Script: "postmortem_stack.js", Args: []string{"--tier=" + tier.String()},
	})
	var c chain
	target.Facts(&c)

	unknown := attached(t, c.PID)
	if !slices.ContainsFunc(unknown.Missing(), func(m Missing) bool { return strings.Contains(m.String(), "V8 15.0.") }) {
		t.Errorf("missing = %v, want V8's unknown version", unknown.Missing())
	}

	all := release.All()
	made := *all[len(all)-1]
	made.Version, made.Node = release.Version{Major: 15}, "27"
	release.Register(made)
	d := attached(t, c.PID)
	if len(d.Missing()) > 0 {
		t.Errorf("missing: %v, want nothing", d.Missing())
	}
	checkChain(t, d, c, d.Threads()[0])
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if g.Doubts.Loose || g.Doubts.Overlong > 0 || g.Doubts.Dangling > 0 || g.Doubts.Lost > maxLost {
		t.Errorf("doubts = %+v, want none", g.Doubts)
	}
}
