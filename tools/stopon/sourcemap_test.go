package stopon

import (
	"path/filepath"
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestHitsAreShownAsTheyWereWritten waits for a function of minified code to be on a stack,
// by the name that V8 knows. The hit has the source's names.
func TestHitsAreShownAsTheyWereWritten(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	const version = "24.21.0"
	folder := nodetest.SourceMaps(t)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Flags: nodetest.NoInlining(version), Script: filepath.Join(folder, "esbuild", "busy.js")})
	hits := watch(t, target, Options{JS: "spinInMethod", Count: 1}).end(1)
	if len(hits) == 0 {
		t.Fatal("no hit")
	}
	source := filepath.Join(folder, "src", "busy.ts")
	for name, start := range map[string]string{"spinInMethod": "  spinInMethod(): number", "turn": "  const turn = "} {
		line := nodetest.LineOf(t, source, start)
		if !slices.ContainsFunc(hits[0].Frames, func(f symbolize.Frame) bool {
			return f.Name == name && f.File == source && f.Line == line && f.ExecutingLine > line && f.GeneratedFile != ""
		}) {
			t.Errorf("stack = %+v, want %s at %s:%d", hits[0].Frames, name, source, line)
		}
	}
}
