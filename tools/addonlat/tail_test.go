package addonlat

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
)

// tailcall compiles tailcall.c for node.
func tailcall(t *testing.T, node string, flags ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tailcall.node")
	source := nodetest.Program("tailcall.c")
	args := append([]string{
		"-O2", "-Wall", "-shared", "-fPIC", "-isystem", filepath.Join(filepath.Dir(node), "..", "include", "node"),
		"-I", filepath.Join(filepath.Dir(source), "..", "addons"), "-o", path, source,
	}, flags...)
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile tailcall.c: %v\n%s", err, out)
	}
	return path
}

// TestFunctionsLeftByAJumpAreKinds, though they are no longer on the stack.
func TestFunctionsLeftByAJumpAreKinds(t *testing.T) {
	node := prepare(t)
	for name, flags := range map[string][]string{
		"as usual":                {nodetest.FramePointers},
		"without frame pointers":  {nodetest.NoFramePointers},
		"for control flow checks": {nodetest.FramePointers, "-fcf-protection"},
		"without a linkage table": {nodetest.FramePointers, "-fno-plt"},
		"bound at once":           {nodetest.FramePointers, "-Wl,-z,now"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := measure(t, node, nodetest.Plan{
				Addons: map[string]string{"tailcall": tailcall(t, node, flags...)},
				Steps: []nodetest.Step{
					{Addon: "tailcall", Call: "sleep", Micros: 100, Count: 23},
					{Addon: "tailcall", Call: "spin", Micros: 100, Count: 19},
					{Addon: "tailcall", Call: "direct", Micros: 100, Count: 17},
					{Addon: "tailcall", Call: "linked", Micros: 100, Count: 13},
				},
			}, Options{})
			want := map[string]uint64{
				"tailcall.node`begin_sleep": 23, "tailcall.node`begin_spin": 19,
				"tailcall.node`begin_direct": 17, "tailcall.node`begin_linked": 13,
			}
			if diff := cmp.Diff(want, counts(r)); diff != "" {
				t.Errorf("jobs by function (-want +got):\n%s", diff)
			}
		})
	}
}
