package nodesnoop

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNothingIsDoneToTheProcess looks for what a watch would leave in the process: the
// system calls that it makes are those that it makes anyway, and nothing traces it.
func TestNothingIsDoneToTheProcess(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	before := threadsAndFiles(t, s.PID)
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true, Client: true, GC: true, Loop: true}})
	load(t, "tcp", []string{at(s.facts.Ports[0][0])}, false, 1, 1, 1)
	during := threadsAndFiles(t, s.PID)
	w.end()
	if diff := cmp.Diff(before, during); diff != "" {
		t.Errorf("threads, tracer, files and signals (-before +during):\n%s", diff)
	}
}

// threadsAndFiles returns what /proc says of a process that a tool might change.
func threadsAndFiles(t testing.TB, pid int) map[string]string {
	t.Helper()
	state := make(map[string]string)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "TracerPid", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Seccomp":
			state[name] = value
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		if !strings.HasPrefix(to, "socket:") { // the test's connections
			state["fd "+f.Name()] = to
		}
	}
	return state
}
