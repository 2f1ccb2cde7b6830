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
	"ustack/tools/event"
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

// checkWhole reports an error if a hit's stack has a gap, does not end where the program
// begins, or has not those functions one above the other, with others between them.
func checkWhole(t *testing.T, h *Hit, want ...string) {
	t.Helper()
	rest := want
	for _, f := range h.Frames {
		if f.Name == symbolize.Broken {
			t.Errorf("%s: a gap in %q", h.Event, names(h))
			return
		}
		if len(rest) > 0 && f.Name == rest[0] {
			rest = rest[1:]
		}
	}
	if last := names(h)[len(h.Frames)-1]; len(rest) > 0 || last != "_start" {
		t.Errorf("%s: stack = %q, want %q in it and _start at its end", h.Event, names(h), want)
	}
}

// TestOpenHasAllItsFrames catches files as they are opened, which the C library does in a
// function without a frame.
func TestOpenHasAllItsFrames(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := startTrouble(t, version, "paths")
			r := watch(t, target, Options{Syscalls: []string{"openat", "openat2"}, Path: "*/*secret-?.txt"})
			for _, h := range r.end(perform(t, target).Events) {
				checkWhole(t, h, "uv_fs_open", "openSync", "open", "guilty", "paths", "uv_run", "node::Start")
			}
		})
	}
}

// TestStacksAreWholeWhileReturnsAreAwaited makes a system call in a function whose return
// another session awaits: the kernel has replaced its return address.
func TestStacksAreWholeWhileReturnsAreAwaited(t *testing.T) {
	nodetest.Root(t)
	for _, version := range []string{"18.20.8", "26.10.0"} {
		t.Run(version, func(t *testing.T) {
			target := startTrouble(t, version, "functions")
			awaiting := watch(t, target, Options{Functions: []event.Function{{Symbol: "uv_chdir", Return: true}}})
			r := watch(t, target, Options{Syscalls: []string{"chdir"}, JS: "guilty"})
			hits := r.end(perform(t, target).Events)
			for _, h := range hits {
				checkWhole(t, h, "uv_chdir", "node::Chdir", "guilty", "functions", "uv_run", "node::Start")
			}
			if returns := awaiting.end(len(hits)); len(hits) == 0 || len(returns) < len(hits) {
				t.Errorf("calls = %d, returns = %d, want some of both", len(hits), len(returns))
			}
		})
	}
}
