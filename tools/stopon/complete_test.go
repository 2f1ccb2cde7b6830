package stopon

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// TestHitHasTheCoresStack stops programs at a system call, which the C library makes
// in a function without a frame, and compares the report's stack with that in the core
// which is taken there.
func TestHitHasTheCoresStack(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := startTrouble(t, version, "badclose")
			r := watch(t, target, badClose(Action{Do: Core, Pattern: filepath.Join(t.TempDir(), "core")}))
			target.Signal(unix.SIGUSR2)
			<-r.done
			if r.err != nil || len(r.hits) != 1 || r.hits[0].Core == nil {
				t.Fatalf("hits = %+v (%v), want one with a core", r.hits, r.err)
			}
			d, err := jscore.Open(t.Context(), r.hits[0].Core.Path, jscore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			var want []symbolize.Frame
			for _, f := range d.Stack(d.Threads()[0]).Frames {
				// The kernel knows neither what is inlined nor what a template was made for.
				template := f.Kind == symbolize.Builtin && strings.HasPrefix(want[len(want)-1].Name, "<< api callback exit >>")
				if !f.Inlined && !template {
					want = append(want, f.Frame)
				}
			}
			got := r.hits[0].Frames
			if len(got) < 10 {
				t.Fatalf("frames = %d, want 10 or more", len(got))
			}
			if diff := cmp.Diff(want[:min(len(want), len(got))], got); diff != "" {
				t.Errorf("stack (-core's +report's):\n%s", diff)
			}
		})
	}
}
