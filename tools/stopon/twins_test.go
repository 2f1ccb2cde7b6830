package stopon

import (
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

// TestFilesOfOnePathAreDistinguished stops at functions of processes whose programs and add-ons have the
// same paths and are other files: of these, each defines only its own function.
func TestFilesOfOnePathAreDistinguished(t *testing.T) {
	nodetest.Root(t)
	twins, folder := nodetest.Twins(t)
	for _, w := range twins {
		hits := watch(t, w.Target, Options{Functions: []event.Function{{Object: "addon.node", Symbol: w.Begin()}}}).end(1)
		if len(hits) == 0 {
			t.Errorf("%s: %s is never called", w.Name, w.Begin())
			continue
		}
		for _, want := range []symbolize.Frame{
			{Kind: symbolize.Native, Name: w.Begin(), Module: folder + "/addon.node"},
			{Kind: symbolize.JS, Name: "turn", File: folder + "/app.js", Line: w.Line + 2},
			{Kind: symbolize.Native, Name: "node::Start", Module: folder + "/node"},
		} {
			found := slices.ContainsFunc(hits[0].Frames, func(f symbolize.Frame) bool {
				return f.Kind == want.Kind && f.Name == want.Name && f.Module == want.Module && f.File == want.File && f.Line == want.Line
			})
			if !found {
				t.Errorf("%s: frames = %+v, want %+v", w.Name, hits[0].Frames, want)
			}
		}
	}
}
