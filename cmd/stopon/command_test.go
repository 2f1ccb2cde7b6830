package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/tools/check"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "stopon.1")
}

// startBusy starts a program that closes what is not open, again and again.
func startBusy(t *testing.T, node string) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, node, nodetest.Options{Script: busy(t), Args: []string{"guilty"}, MayFail: true})
}

func TestInterruptIsSuccess(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		p := clitest.Start(t, "stopon", "-p", strconv.Itoa(target.PID), "--syscall", "close", "--errno", "EIO", "--stop")
		p.Line("^Watching ")
		if got := p.End(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		if got := p.Stdout(); got != "" {
			t.Errorf("%v: stdout = %q, want nothing", sig, got)
		}
	}
	checkRuns(t, target.PID)
}

// checkRuns checks that a process exists and is not stopped.
func checkRuns(t *testing.T, pid int) {
	t.Helper()
	if got, err := stateOf(pid); err != nil || got == "T" || got == "t" || got == "Z" {
		t.Errorf("state of %d = %s, %v, want it running", pid, got, err)
	}
}

// TestExitIsCaught has a program end with status 3.
func TestExitIsCaught(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	p := clitest.Start(t, "stopon", "-p", strconv.Itoa(target.PID), "--exit", "!=0", "--json")
	p.Line("^Watching ")
	target.Signal(unix.SIGUSR2)
	if got := p.End(0); got.ExitStatus() != 0 { // it ends by itself: 0 sends no signal
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
	for _, want := range []string{`"trigger":"exit","event":"exit with status 3"`, `"result":3,`, `"name":"leave"`} {
		if !strings.Contains(p.Stdout(), want) {
			t.Errorf("stdout = %s, want %s in it", p.Stdout(), want)
		}
	}
	if got := target.Wait().ExitCode(); got != 3 {
		t.Errorf("status = %d, want 3", got)
	}
}

// TestKillLeavesNothingStopped has stopon killed by its own command, for which
// the process is held. What it wrote ends when its keeper has.
func TestKillLeavesNothingStopped(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	cmd := exec.Command("stopon", "-p", strconv.Itoa(target.PID), "--syscall", "close", "--errno", "EBADF",
		"--exec", "grep State /proc/{pid}/status; kill -KILL $PPID", "--stop")
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.Sys().(syscall.WaitStatus); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL\n%s", err, out)
	}
	if want := "State:\tT (stopped)"; !bytes.Contains(out, []byte(want)) {
		t.Errorf("output = %s, want %q in it", out, want)
	}
	checkRuns(t, target.PID)
}

func TestAbortWarnsWhereThereWillBeNoCore(t *testing.T) {
	pattern := corePattern()
	if strings.HasPrefix(pattern, "|") {
		nodetest.MustRun(t, "cores go to a program: "+pattern)
	}
	target := startBusy(t, clitest.Node(t, programs...))
	if err := unix.Prlimit(target.PID, unix.RLIMIT_CORE, &unix.Rlimit{}, nil); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("stopon", "-p", strconv.Itoa(target.PID), "--syscall", "close", "--errno", "EBADF", "--abort").CombinedOutput()
	if err != nil {
		t.Fatalf("stopon: %v\n%s", err, out)
	}
	for _, want := range []string{
		fmt.Sprintf("stopon: process %d may leave no core: its limit is 0 (prlimit --pid %d --core=unlimited raises it)\n", target.PID, target.PID),
		fmt.Sprintf("stopon: SIGABRT sent to process %d: the kernel writes its core by the pattern %q\n", target.PID, pattern),
	} {
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("output = %s, want %q in it", out, want)
		}
	}
	if got := target.Wait().Sys().(syscall.WaitStatus); got.Signal() != syscall.SIGABRT {
		t.Errorf("end of the process = %v, want SIGABRT", got)
	}
}

// TestProcessInAContainer has a target whose process id and files are not ours.
func TestProcessInAContainer(t *testing.T) {
	node := clitest.Node(t, programs...)
	cmd := exec.Command("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", node, busy(t), "guilty")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line := make([]byte, len("ready\n"))
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		t.Fatalf("line = %q, %v, want ready", line, err)
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	pid := strings.TrimSpace(string(children))
	path := filepath.Join(t.TempDir(), "core")
	seen, err := exec.Command("stopon", "-p", pid, "--syscall", "close", "--errno", "EBADF", "--gcore="+path).CombinedOutput()
	if err != nil {
		t.Fatalf("stopon: %v\n%s", err, seen)
	}
	for _, want := range []string{"  node[" + pid + "] (1 inside)  (anonymous) ", "\n    guilty " + busy(t), "\nstopon: core: " + path} {
		if !strings.Contains(string(seen), want) {
			t.Errorf("output = %s, want %q in it", seen, want)
		}
	}
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	checkRuns(t, number)
}

func TestProcessesOfACgroup(t *testing.T) {
	node := clitest.Node(t, programs...)
	outside, inside := startBusy(t, node), startBusy(t, node)
	out, err := exec.Command("stopon", "--cgroup", nodetest.Cgroup(t, inside.PID), "-w", "--syscall", "close", "--errno", "EBADF", "--count", "7", "--kill", "WINCH").Output()
	if err != nil {
		t.Fatalf("stopon: %v\n%s", err, out)
	}
	if got := bytes.Count(out, fmt.Appendf(nil, "[%d]  (anonymous) ", inside.PID)); got != 7 {
		t.Errorf("hits in the group = %d, want 7, and none in %d\n%s", got, outside.PID, out)
	}
}

func TestEveryProcessOfAName(t *testing.T) {
	real := clitest.Node(t, programs...)
	const name = "stopon-test"
	node := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(real, node); err != nil {
		t.Fatal(err)
	}
	first, second := startBusy(t, node), startBusy(t, node)
	out, err := exec.Command("stopon", "--comm", name, "--syscall", "close", "--errno", "EBADF", "--count", "100").Output()
	if err != nil {
		t.Fatalf("stopon: %v\n%s", err, out)
	}
	for _, pid := range []int{first.PID, second.PID} {
		if want := fmt.Sprintf("  %s[%d]  (anonymous) ", name, pid); !bytes.Contains(out, []byte(want)) {
			t.Errorf("no hit of process %d among 100", pid)
		}
	}
}

func TestFullDiskFailsAndLetsItRunOn(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		nodetest.MustRun(t, "no small file system: "+err.Error())
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	cmd := exec.Command("stopon", "-p", strconv.Itoa(target.PID), "--syscall", "close", "--errno", "EBADF", "--gcore="+dir)
	clitest.Fails(t, cmd, "actions that failed: 1")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("files left = %v, %v, want none", left, err)
	}
	checkRuns(t, target.PID)
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	clitest.CheckUnprivileged(t, target.PID, "stopon", "--syscall", "close", "--gcore")
}

func TestKernelThatLacksSomethingIsRefused(t *testing.T) {
	target := startBusy(t, clitest.Node(t, programs...))
	clitest.CheckKernels(t, target.PID, "stopon", "--syscall", "close")
}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	needed := []check.Capability{check.BPF, check.Perfmon, check.Ptrace}
	clitest.CheckCapabilities(t, needed, "stopon", "-p", "{pid}", "--syscall", "close", "--errno", "EBADF")
}

func TestCapabilitiesForACore(t *testing.T) {
	needed := []check.Capability{check.BPF, check.Perfmon, check.Kill, check.Ptrace, check.DACOverride}
	clitest.CheckCapabilities(t, needed, "stopon", "-p", "{pid}", "--syscall", "close", "--errno", "EBADF", "--gcore={dir}/")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "stopon", "typed tracepoints") }

func TestReleasesDenoIsNotUnderstood(t *testing.T) {
	clitest.CheckDeno(t, "stopon", "--stall", "1ms", "--json")
}
