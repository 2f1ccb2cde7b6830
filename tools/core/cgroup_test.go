package core

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
)

// A group is a control group that limits memory.
type group struct {
	t                            *testing.T
	folder                       string
	usage, limit, peak, resetKey string // names of files; the peak cannot be reset where resetKey is empty
}

// newGroup makes a control group, until the test ends.
func newGroup(t *testing.T) group {
	t.Helper()
	nodetest.Root(t)
	g := group{t, "/sys/fs/cgroup", "memory.current", "memory.max", "memory.peak", ""}
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		g = group{t, "/sys/fs/cgroup/memory", "memory.usage_in_bytes", "memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.max_usage_in_bytes"}
	}
	g.folder = filepath.Join(g.folder, fmt.Sprintf("core-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")))
	if err := os.Mkdir(g.folder, 0o755); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("no control group of our own: %v", err))
	}
	t.Cleanup(func() {
		for os.Remove(g.folder) != nil { // until the last process has left
			if _, err := os.Stat(g.folder); err != nil {
				break
			}
		}
	})
	if _, err := os.Stat(filepath.Join(g.folder, g.limit)); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("control groups do not limit memory: %v", err))
	}
	return g
}

// program returns a script that becomes program, in the group.
func (g group) program(program string) string {
	g.t.Helper()
	path := filepath.Join(g.t.TempDir(), "run")
	script := fmt.Sprintf("#!/bin/sh\necho $$ >%s/cgroup.procs\nexec %s \"$@\"\n", g.folder, program)
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		g.t.Fatal(err)
	}
	return path
}

func (g group) get(file string) int {
	g.t.Helper()
	text, err := os.ReadFile(filepath.Join(g.folder, file))
	if err != nil {
		g.t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g group) set(file string, value int) {
	g.t.Helper()
	if err := os.WriteFile(filepath.Join(g.folder, file), []byte(strconv.Itoa(value)), 0); err != nil {
		g.t.Fatal(err)
	}
}

// checkPeak checks that do does not raise the memory use of the group, whose
// processes are stopped.
func (g group) checkPeak(do func()) {
	g.t.Helper()
	if g.resetKey != "" {
		g.set(g.resetKey, 0)
	}
	before := max(g.get(g.usage), g.get(g.peak))
	do()
	const slack = 1 << 19 // the kernel charges in batches of 64 pages for each CPU
	if after := g.get(g.peak); after > before+slack {
		g.t.Errorf("peak of the control group = %d KiB more than before, want 0", (after-before)>>10)
	}
}

// TestChaosLimitedProcess takes cores of a process whose control group lets it have
// 110 % of what it uses: all of them leave it alive.
func TestChaosLimitedProcess(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			g := newGroup(t)
			h := startHeapBy(t, g.program(nodetest.Node(t, oneVersion)), "150")
			g.set(g.limit, g.get(g.usage)/10*11)
			path := filepath.Join(t.TempDir(), "core")
			for range nodetest.Rounds(5, 50) {
				if _, err := Write(t.Context(), h.PID, path, Options{direct: way.direct, MaxStop: 60e9}); err != nil {
					t.Fatal(err)
				}
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				h.gap(t) // it answers
			}
			h.freeze(t)
			g.checkPeak(func() {
				if _, err := Write(t.Context(), h.PID, path, Options{direct: way.direct, MaxStop: 60e9}); err != nil {
					t.Error(err)
				}
			})
			h.Signal(unix.SIGCONT)
			h.checkRunsOn(t)
			h.Stop()
		})
	}
}

// TestMemorySharedWithAChildIsNotCopied takes a core of a process that shares all its
// memory with a child, copy-on-write.
func TestMemorySharedWithAChildIsNotCopied(t *testing.T) {
	g := newGroup(t)
	p := startTraceeBy(t, "forked", g.program)
	g.checkPeak(func() {
		result, err := Write(t.Context(), p.pid(), filepath.Join(t.TempDir(), "core"), Options{})
		if err != nil || result.Resident < 64<<20 {
			t.Errorf("core = %+v, %v, want one of 64 MiB", result, err)
		}
	})
	if got := p.end(); got != "done\n" {
		t.Errorf("program says %q", got)
	}
}
