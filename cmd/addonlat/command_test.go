package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
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
	clitest.CheckManPage(t, command(), "addonlat.1")
}

// busy starts a program that hands jobs to the pool until it is killed, and
// prints a line a second.
func busy(t *testing.T) nodetest.Jobs {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	return busyNode(t, nodetest.Node(t, nodeVersion))
}

func busyNode(t *testing.T, node string) nodetest.Jobs {
	t.Helper()
	addon := nodetest.Addon(t, nodetest.Node(t, nodeVersion), "napi.c", nodetest.FramePointers)
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: map[string]string{"napi.c": addon},
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 500, InFlight: 2, Seconds: 3600}},
	})
	jobs.Begin()
	works(t, jobs)
	return jobs
}

// works checks that the program still does its jobs: of the two seconds that it
// tells next, one is still to come.
func works(t *testing.T, jobs nodetest.Jobs) {
	t.Helper()
	for range 2 {
		if jobs.Rate() == 0 {
			t.Error("the target does nothing")
		}
	}
}

// A run is an addonlat under way.
type run struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer
	stderr *bufio.Scanner
}

// begin returns when addonlat measures; when its test ends it is killed, if it
// still runs.
func begin(t *testing.T, args ...string) *run {
	t.Helper()
	r := &run{t: t, cmd: exec.Command("addonlat", args...)}
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
	for r.stderr.Scan() {
		if strings.HasPrefix(r.stderr.Text(), "Measuring ") {
			return r
		}
	}
	t.Fatal("addonlat ended before it measured")
	return nil
}

// end sends sig and returns how addonlat ended.
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

func TestInterruptPrintsWhatWasSeen(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		jobs := busy(t)
		r := begin(t, "-p", strconv.Itoa(jobs.PID))
		works(t, jobs)
		if got := r.end(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		for _, want := range []string{"  napi_c.node`begin_sleep ", "\npool of "} {
			if !strings.Contains(r.stdout.String(), want) {
				t.Errorf("%v: stdout = %q, want %q in it", sig, r.stdout.String(), want)
			}
		}
		works(t, jobs)
	}
}

func TestKillLeavesKernelAndTargetAsTheyWere(t *testing.T) {
	jobs := busy(t)
	r := begin(t, "-p", strconv.Itoa(jobs.PID))
	works(t, jobs)
	if got := r.end(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	works(t, jobs)
	// Uprobes are the perf events of their owner: once it is gone, so are they, and a
	// new one finds the target as it was.
	out, err := exec.Command("addonlat", "-p", strconv.Itoa(jobs.PID), "-d", "0.5").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("napi_c")) {
		t.Errorf("addonlat again: %v\n%s", err, out)
	}
}

func TestEveryProcessOfAName(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	const name = "addonlat-test"
	node := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(nodetest.Node(t, nodeVersion), node); err != nil {
		t.Fatal(err)
	}
	first, second := busyNode(t, node), busyNode(t, node)
	out, err := exec.Command("addonlat", "--comm", name, "-d", "1s").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, jobs := range []nodetest.Jobs{first, second} {
		key := fmt.Sprintf(" %8d  %-50s\n", jobs.PID, "napi_c.node`begin_sleep")
		if !bytes.Contains(out, []byte(key)) || !bytes.Contains(out, fmt.Appendf(nil, "\npool of %d: ", jobs.PID)) {
			t.Errorf("output = %s, want process %d in it", out, jobs.PID)
		}
	}
}

// TestProgressIsForTerminals gives addonlat a terminal for stderr.
func TestProgressIsForTerminals(t *testing.T) {
	jobs := busy(t)
	command := fmt.Sprintf("addonlat -p %d -d 2s >%s", jobs.PID, filepath.Join(t.TempDir(), "out"))
	script := exec.Command("script", "-qec", command, os.DevNull)
	out, err := script.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		nodetest.MustRun(t, err.Error())
	}
	if err != nil {
		t.Fatalf("script: %v\n%s", err, out)
	}
	if want := regexp.MustCompile(`\r\x1b\[K\d+ jobs submitted, \d+ completed, \d+ in flight`); !want.Match(out) {
		t.Errorf("output = %q, want a line of progress", out)
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
	jobs := busy(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=4k,nr_inodes=8"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 4<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "out.txt")
	out, err := exec.Command("addonlat", "-p", strconv.Itoa(jobs.PID), "-d", "0.5", "-o", path).CombinedOutput()
	wantFailure(t, out, err, fmt.Sprintf("write %s: no space left on device (nothing was written", path))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("files = %v, %v, want only the one that was there", entries, err)
	}
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	jobs := busy(t)
	source, err := exec.LookPath("addonlat")
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "addonlat-*") // t.TempDir() is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "addonlat")
	if err := errors.Join(os.WriteFile(path, binary, 0o600), os.Chmod(path, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-p", strconv.Itoa(jobs.PID), "-d", "1s")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	wantFailure(t, out, err, "(run as root, or with CAP_BPF and CAP_PERFMON)")
	works(t, jobs)
}
