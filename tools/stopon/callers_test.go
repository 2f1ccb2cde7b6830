package stopon

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

// callers compiles callers.c and starts a scenario of it.
func callers(t *testing.T, scenario string, flags ...string) *nodetest.Target {
	t.Helper()
	source, path := nodetest.Program("callers.c"), filepath.Join(t.TempDir(), "callers")
	args := append([]string{"-Os", "-falign-functions=1", "-fno-toplevel-reorder", "-o", path, source}, flags...)
	if out, err := exec.CommandContext(t.Context(), "gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("compile callers.c: %v\n%s", err, out)
	}
	return nodetest.Start(t, path, nodetest.Options{Script: "callers.c", Args: []string{scenario}, MayFail: true})
}

// names are those of a hit's functions, leaf first.
func names(h *Hit) []string {
	var all []string
	for _, f := range h.Frames {
		all = append(all, f.Name)
	}
	return all
}

// TestCallersAreNamedByTheirCalls has a function end in a call that never returns,
// right before another function, and a signal interrupt the first instruction of a
// function, right behind another.
func TestCallersAreNamedByTheirCalls(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		scenario string
		flags    []string
		options  Options
		want     []string // one below the other, from the leaf's caller on
	}{
		{"abort", []string{"-fno-omit-frame-pointer"}, Options{Functions: []event.Function{{Object: "libc.so.6", Symbol: "abort"}}}, []string{"dies", "main"}},
		{"abort", nil, Options{Functions: []event.Function{{Object: "libc.so.6", Symbol: "abort"}}}, []string{"dies", "main"}},
		{"signal", nil, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}, []string{"handles", "", "spins", "main"}},
		{"signal", []string{"-fno-omit-frame-pointer"}, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}, []string{"handles", "", "spins", "main"}},
	} {
		t.Run(tt.scenario+strings.Join(tt.flags, ""), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := callers(t, tt.scenario, tt.flags...)
			r := watchWarned(t, target, tt.options, func(error) {})
			target.Signal(unix.SIGUSR2)
			hits := r.end(1)
			if len(hits) != 1 {
				t.Fatalf("hits = %d, want 1", len(hits))
			}
			got := names(hits[0])
			if len(got) < 1+len(tt.want) {
				t.Fatalf("stack = %q, want %q in it", got, tt.want)
			}
			got = got[1 : 1+len(tt.want)]
			if tt.scenario == "signal" {
				got[1] = "" // where the handler returns to: libc's own symbols tell its name, which it need not have
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("callers = %q, want %q (stack: %q)", got, tt.want, names(hits[0]))
			}
		})
	}
}
