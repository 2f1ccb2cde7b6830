package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

// startSnapshot runs "jscore -p PID status" on a process, with folder for temporary
// files.
func startSnapshot(t *testing.T, pid int, folder string, flags ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{"jscore", "-p", strconv.Itoa(pid)}, append(flags, "status")...)
	cmd.Env = append(os.Environ(), "TMPDIR="+folder)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// startTracing runs "jscore -p PID status" and returns when it has the process stopped.
func startTracing(t *testing.T, pid int, folder string, flags ...string) *exec.Cmd {
	t.Helper()
	for {
		cmd := startSnapshot(t, pid, folder, flags...)
		if nodetest.AwaitTraced(t, pid, cmd.Process.Pid) {
			return cmd
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
	}
}

// checkEmpty checks that nothing is left in a folder.
func checkEmpty(t *testing.T, folder string) {
	t.Helper()
	left, err := os.ReadDir(folder)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the folder for temporary files: %v (%v), want nothing", left, err)
	}
}

// TestChaosKilledSnapshot kills jscore while it takes and reads a snapshot, half of
// the time while it has the target stopped: by SIGKILL, and as the end of a login
// does.
func TestChaosKilledSnapshot(t *testing.T) {
	nodetest.Root(t)
	for _, signal := range []unix.Signal{unix.SIGKILL, unix.SIGHUP} {
		t.Run(unix.SignalName(signal), func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, clitest.NodeVersion), nodetest.Options{
				Script: "heap.js", Args: []string{"100"},
			})
			unharmed := nodetest.Unharmed(t, target.PID)
			for i := range nodetest.Rounds(10, 200) {
				folder := t.TempDir()
				var cmd *exec.Cmd
				if i%2 == 0 {
					cmd = startTracing(t, target.PID, folder)
					time.Sleep(rand.N(20 * time.Millisecond)) // a moment like any other
				} else {
					cmd = startSnapshot(t, target.PID, folder)
					time.Sleep(rand.N(time.Second))
				}
				if err := cmd.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // killed, or it was done
				unharmed()
				checkEmpty(t, folder)
			}
			target.Signal(unix.SIGUSR2)
			target.Line() // it ticks
		})
	}
}

// TestChaosStoppedSnapshot stops jscore by SIGSTOP while it has the target stopped.
// One of the two gives in when the limit is over.
func TestChaosStoppedSnapshot(t *testing.T) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, clitest.NodeVersion), nodetest.Options{
		Script: "heap.js", Args: []string{"100"},
	})
	unharmed := nodetest.Unharmed(t, target.PID)
	for range nodetest.Rounds(2, 50) {
		folder := t.TempDir()
		cmd := startTracing(t, target.PID, folder, "--max-stop", "1s")
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		target.Signal(unix.SIGUSR2)
		target.Line() // it ticks when it runs
		unharmed()
		_ = cmd.Process.Kill() // unless the kernel has
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) {
			t.Errorf("the end of jscore: %v, want killed", err)
		}
		checkEmpty(t, folder)
	}
}
