package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "jsprof.1")
}

// A run is a jsprof under way.
type run struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Scanner
}

// begin starts jsprof; when its test ends it is killed, if it still runs.
func begin(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{t: t, cmd: exec.Command("jsprof", args...)}
	r.cmd.Stdout = &r.stdout
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stderr = bufio.NewScanner(stderr)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill() // it may have ended by itself
			_ = r.cmd.Wait()
		}
	})
	return r
}

// line returns what pattern's group matches in the first line on stderr that it
// matches.
func (r *run) line(pattern string) string {
	r.t.Helper()
	want := regexp.MustCompile(pattern)
	for r.stderr.Scan() {
		if found := want.FindStringSubmatch(r.stderr.Text()); found != nil {
			return found[len(found)-1]
		}
	}
	r.t.Fatalf("no line on stderr matches %s", pattern)
	return ""
}

// end sends sig and returns how jsprof ended.
func (r *run) end(sig syscall.Signal) syscall.WaitStatus {
	r.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		r.t.Fatal(err)
	}
	for r.stderr.Scan() { // to its end, or what is written next would block it
	}
	if err := r.cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		r.t.Fatal(err)
	}
	return r.cmd.ProcessState.Sys().(syscall.WaitStatus)
}

// spin starts a program that computes for ever.
func spin(t *testing.T) *nodetest.Target {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	return nodetest.Start(t, nodetest.Node(t, nodeVersion), nodetest.Options{Script: "purecpu.js"})
}

// ticks waits until the process has used CPU time since now.
func ticks(t *testing.T, target *nodetest.Target) {
	t.Helper()
	used := func() string {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", target.PID))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')'):]))
		return fields[12] // utime, in ticks: field 14 of proc(5)
	}
	for before := used(); used() == before; {
		if !target.Alive() {
			t.Fatal("the target has ended")
		}
	}
}

func TestInterruptPrintsWhatWasGathered(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		target := spin(t)
		r := begin(t, "-p", strconv.Itoa(target.PID))
		r.line(`^Sampling \d+ at 99 Hz. Ctrl-C to end.$`)
		for range 30 {
			ticks(t, target)
		}
		if got := r.end(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		if got, want := r.stdout.String(), "pureMain"; !strings.Contains(got, want) {
			t.Errorf("%v: stdout = %q, want %s in it", sig, got, want)
		}
		ticks(t, target)
	}
}

func TestKillLeavesKernelAndTargetAsTheyWere(t *testing.T) {
	target := spin(t)
	r := begin(t, "-p", strconv.Itoa(target.PID))
	r.line("^Sampling ")
	if got := r.end(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	ticks(t, target)
}

func TestWebPagesAreServedUntilInterrupt(t *testing.T) {
	target := spin(t)
	r := begin(t, "-p", strconv.Itoa(target.PID), "-d", "1s", "--http", "127.0.0.1:0")
	url := r.line(`^Serving the profile at (http://127\.0\.0\.1:\d+/)\. Ctrl-C to end\.$`)
	for _, page := range []string{"top", "flamegraph", "peek?f=fib"} {
		response, err := http.Get(url + page)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if got, want := response.StatusCode, http.StatusOK; got != want {
			t.Errorf("%s: status = %d, want %d", page, got, want)
		}
		if !bytes.Contains(body, []byte("fib")) {
			t.Errorf("%s does not name fib", page)
		}
	}
	if got := r.end(syscall.SIGINT); got.ExitStatus() != 0 {
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
	if _, err := http.Get(url); err == nil {
		t.Error("the pages are still served")
	}
}

func TestAddressInUseIsSaidBeforeSampling(t *testing.T) {
	listener, err := listen(":0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	out, err := exec.Command("jsprof", "-p", strconv.Itoa(os.Getpid()), "--http", listener.Addr().String()).CombinedOutput()
	wantFailure(t, out, err, "address already in use")
	if bytes.Contains(out, []byte("Sampling")) {
		t.Errorf("output = %q, want no sampling", out)
	}
}

// wantFailure checks that a command ended with status 1 and said why.
func wantFailure(t *testing.T, out []byte, err error, why string) {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("end = %v, want exit status 1", err)
	}
	if !strings.Contains(string(out), why) {
		t.Errorf("output = %q, want %q in it", out, why)
	}
}

func TestFullDiskLeavesNoPartialFile(t *testing.T) {
	target := spin(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 48<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(dir, "old.svg")
	if err := os.WriteFile(old, []byte("as it was"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "new.svg"), old} {
		out, err := exec.Command("jsprof", "-p", strconv.Itoa(target.PID), "-d", "0.5", "-o", path).CombinedOutput()
		wantFailure(t, out, err, fmt.Sprintf("write %s: no space left on device (nothing was written", path))
	}
	if got, err := os.ReadFile(old); err != nil || string(got) != "as it was" {
		t.Errorf("old file = %q, %v, want it as it was", got, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(entries), 2; got != want {
		t.Errorf("files = %v, want only those that were there", entries)
	}
}

// nobody is who has no privileges.
var nobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}

// unprivileged returns a copy of jsprof that nobody can run.
func unprivileged(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "jsprof-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	source, err := exec.LookPath("jsprof")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "jsprof")
	if err := errors.Join(os.WriteFile(path, binary, 0o600), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	roots := spin(t)
	jsprof := unprivileged(t)
	own := exec.Command("sleep", "60") // refused before it matters what the process is
	own.SysProcAttr = nobody
	if err := own.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = own.Process.Kill() // it runs until then
		_ = own.Wait()
	}()
	for _, pid := range []int{roots.PID, own.Process.Pid} {
		cmd := exec.Command(jsprof, "-p", strconv.Itoa(pid), "-d", "1s")
		cmd.SysProcAttr, cmd.Dir = nobody, "/"
		out, err := cmd.CombinedOutput()
		wantFailure(t, out, err, "(run as root, or with CAP_BPF and CAP_PERFMON)")
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d", roots.PID)); errors.Is(err, fs.ErrNotExist) {
		t.Error("the target has ended")
	}
}
