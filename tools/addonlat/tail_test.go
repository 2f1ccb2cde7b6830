package addonlat

import (
	"os/exec"
	"path/filepath"
	"strings"
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

// TestOnlyOneSubmitterIsBeyondDoubt: work that more than one function may submit has
// no submitter.
func TestOnlyOneSubmitterIsBeyondDoubt(t *testing.T) {
	const head = `
extern int create(void *, void (*)(void)), queue(void *);
static __attribute__((noipa)) void work(void) { queue(0); }
int submit(void *p) { create(p, work); return queue(p); }
`
	for name, test := range map[string]struct {
		more string
		want bool
	}{
		"one":             {"", true},
		"also called":     {"void call(void) { work(); create(0, 0); } void jump(void) { work(); }", true},
		"two":             {"int other(void *p) { create(p, work); return queue(p); }", false},
		"given elsewhere": {"int other(void *p) { return create(p, work) + 1; }", false},
		"kept":            {"void (*works[])(void) = { work };", false},
		"kept unchanging": {"static void (*const works[])(void) = { work, 0 }; int other(int i) { return create(0, works[i]); }", false},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "library.so")
			cmd := exec.CommandContext(t.Context(), "gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
			cmd.Stdin = strings.NewReader(head + test.more)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("compile: %v\n%s", err, out)
			}
			im, exported := openFile(t, path)
			submit, _ := exported("submit")
			want := uint64(0)
			if test.want {
				want = submit
			}
			if got := im.submitterOf(symbol(t, im, "work")); got != want {
				t.Errorf("submitter = %#x, want %#x", got, want)
			}
		})
	}
}

// symbol returns the address of a symbol in the file.
func symbol(t *testing.T, im *image, name string) uint64 {
	t.Helper()
	symbols, err := im.file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Name == name {
			return s.Value
		}
	}
	t.Fatalf("no symbol %s", name)
	return 0
}
