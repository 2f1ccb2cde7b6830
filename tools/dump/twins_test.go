package dump

import (
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestFilesOfOnePathAreDistinguished takes the stacks of processes whose programs and scripts have
// the same paths and are other files.
func TestFilesOfOnePathAreDistinguished(t *testing.T) {
	twins, folder := nodetest.Twins(t)
	for _, w := range twins {
		d, err := Take(t.Context(), w.PID, Options{Warn: func(err error) { t.Errorf("warning: %v", err) }})
		if err != nil {
			t.Fatal(err)
		}
		if d.Node != "v"+w.Version {
			t.Errorf("%s: Node.js %s, want v%s", w.Name, d.Node, w.Version)
		}
		frames := d.Threads[0].Frames
		root := slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Name == "node::Start" && f.Module == folder+"/node" })
		if !root {
			t.Errorf("%s: frames = %+v, want node::Start among them", w.Name, frames)
		}
		for _, f := range frames {
			if f.Kind == symbolize.JS && f.File == folder+"/app.js" && f.Name != w.Spin() && f.Name != "turn" && f.Name != "(anonymous)" {
				t.Errorf("%s: frame of app.js = %+v, which is another's", w.Name, f)
			}
		}
	}
}
