package nodesnoop

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
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
	maps.DeleteFunc(before, func(name, value string) bool { // node may still be starting: what it closes or ends is not missing
		_, exists := during[name]
		return strings.HasPrefix(name, "fd ") && !exists
	})
	if fewer(during["Threads"], before["Threads"]) {
		before["Threads"] = during["Threads"]
	}
	if diff := cmp.Diff(before, during); diff != "" {
		t.Errorf("threads, tracer, files and signals (-before +during):\n%s", diff)
	}
}

// fewer reports whether the number in a is less than that in b.
func fewer(a, b string) bool {
	less, _ := strconv.Atoi(a)
	more, _ := strconv.Atoi(b)
	return less < more
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

// TestNothingIsInjected has strace show what the process does while it is watched. The
// process opens no file, connects to nothing, maps no file, starts nothing and gets no
// signal: a watch has it do nothing that it would not do without.
func TestNothingIsInjected(t *testing.T) {
	node := prepare(t, anyVersion)
	strace, err := exec.LookPath("strace")
	if err != nil {
		nodetest.MustRun(t, "no strace")
	}
	s := startServer(t, node, serving{})
	address := []string{at(s.facts.Ports[0][0])}
	load(t, "tcp", address, false, 1, 1, 1) // so that all code is loaded
	log := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command(strace, "-f", "-o", log, "-p", strconv.Itoa(s.PID))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil || !strings.Contains(said, "attached") {
		_ = cmd.Process.Kill()
		nodetest.MustRun(t, "strace: "+said)
	}
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true, Client: true, GC: true, Loop: true}, Interval: 10 * time.Millisecond, Report: func([]Loop, time.Time) error { return nil }})
	sent := load(t, "tcp", address, false, 2, 1, 1)
	if events := w.end(); countKind(events, Server) != len(sent) {
		t.Errorf("requests = %d, want %d", countKind(events, Server), len(sent))
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its status is the signal's
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "HTTP/1.1 200 OK") {
		t.Error("strace has not seen the responses")
	}
	for line := range strings.Lines(string(text)) {
		if injected.MatchString(line) {
			t.Errorf("while it was watched, the process did: %s", line)
		}
	}
}

// injected matches what a process would do for something that was injected. V8 maps and
// protects memory of its own at any time.
var injected = regexp.MustCompile(`^\d+ +(--- SIG|(open|openat|openat2|creat|socket|connect|bind|listen|pipe2?|memfd_create|` +
	`clone3?|fork|vfork|execve|ptrace|prctl|kill|tgkill|rt_sigaction|process_vm_\w+|bpf|perf_event_open)\(|mmap\([^)]*, [0-9]+, [0-9a-fx]+\))`)

// countKind returns how many events are of a kind.
func countKind(events []Event, kind Kind) (n int) {
	for _, e := range events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}
