package stopon

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestStrippedBuildsShowTheWholeStack has builds without symbols close a descriptor
// twice: JavaScript is named, and the C functions between it and the system call too.
func TestStrippedBuildsShowTheWholeStack(t *testing.T) {
	nodetest.Root(t)
	builds := nodetest.StrippedFew
	if matrix() {
		builds = nodetest.Stripped
	}
	for _, build := range builds {
		t.Run(build.Name, func(t *testing.T) {
			node, _ := build.Node(t)
			target := nodetest.Start(t, node, nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
			r := watchWarned(t, target, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}, func(err error) {
				if !strings.Contains(err.Error(), "stripped of symbols, so some names will be missing") {
					t.Errorf("warning: %v", err)
				}
			})
			done := perform(t, target)
			hits := r.end(done.Events)
			if len(hits) != done.Events {
				t.Fatalf("hits = %d, want %d", len(hits), done.Events)
			}
			for _, h := range hits {
				check(t, h, "EBADF")
				for _, want := range []string{"uv_fs_close", "node::fs::Close", "closeSync", "uv_run", "_start"} {
					if !slices.ContainsFunc(h.Frames, func(f symbolize.Frame) bool { return f.Name == want }) {
						t.Errorf("stack = %q, want %s in it", names(h), want)
					}
				}
				if slices.Contains(names(h), symbolize.Broken) {
					t.Errorf("stack = %q, want no gap", names(h))
				}
			}
		})
	}
}
