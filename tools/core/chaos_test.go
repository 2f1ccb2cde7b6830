package core

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// taker makes the test binary a process that takes cores until it is killed:
// "PID FOLDER MODE", where the mode is a way's name, or "hold" to stop the process
// and wait.
const taker = "USTACK_CORE_TAKER"

// holdLimit is the limit of a stop in the mode "hold".
const holdLimit = 300 * time.Millisecond

func TestMain(m *testing.M) {
	if what := os.Getenv(taker); what != "" {
		beTaker(what)
		return
	}
	os.Exit(m.Run())
}

func beTaker(what string) {
	var pid int
	var folder, mode string
	if _, err := fmt.Sscan(what, &pid, &folder, &mode); err != nil {
		panic(err)
	}
	if mode == "hold" {
		hold(pid, folder)
		return
	}
	for {
		path := filepath.Join(folder, "core")
		if _, err := Write(context.Background(), pid, path, Options{direct: mode == "direct", MaxStop: time.Minute}); err != nil {
			panic(err)
		}
		if err := os.Remove(path); err != nil {
			panic(err)
		}
	}
}

// hold stops the process until it may not for longer, or until a byte comes.
func hold(pid int, folder string) {
	out, err := create(filepath.Join(folder, "core"), pid)
	if err != nil {
		panic(err)
	}
	target, err := process.Open(pid)
	if err != nil {
		panic(err)
	}
	d := &dump{target: target, out: out, options: Options{MaxStop: holdLimit}}
	err = d.whileStopped(context.Background(), func(context.Context) error {
		fmt.Println("stopped")
		_, err := os.Stdin.Read(make([]byte, 1))
		return err
	})
	fmt.Println("resumed", err)
}

func startTaker(t *testing.T, what string) (cmd *exec.Cmd, stdin io.Writer, lines *bufio.Reader) {
	t.Helper()
	cmd = exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), taker+"="+what)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, stdin, bufio.NewReader(stdout)
}

// TestChaosKilledWhileTakingACore kills a process that takes cores without end, half
// of the time while it has the target stopped.
func TestChaosKilledWhileTakingACore(t *testing.T) {
	nodetest.Root(t)
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			h := startHeap(t, oneVersion, "100")
			unharmed := nodetest.Unharmed(t, h.PID)
			for i := range nodetest.Rounds(10, 200) {
				dir := t.TempDir()
				cmd, _, _ := startTaker(t, fmt.Sprint(h.PID, " ", dir, " ", way.name))
				if i%2 == 0 {
					nodetest.AwaitTraced(t, h.PID, cmd.Process.Pid)
					time.Sleep(rand.N(20 * time.Millisecond)) // a moment like any other
				} else {
					time.Sleep(rand.N(500 * time.Millisecond))
				}
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait() // killed
				unharmed()
				if left, err := filepath.Glob(dir + "/*.partial"); len(left) > 0 || err != nil {
					t.Errorf("left: %q (%v), want nothing", left, err)
				}
				h.gap(t) // it answers
			}
			h.checkRunsOn(t)
		})
	}
}

// TestChaosStoppedWhileItStopsAnother stops a process by SIGSTOP while it has the
// target stopped. It is killed when the limit is over.
func TestChaosStoppedWhileItStopsAnother(t *testing.T) {
	nodetest.Root(t)
	h := startHeap(t, oneVersion, "1")
	unharmed := nodetest.Unharmed(t, h.PID)
	for range nodetest.Rounds(3, 50) {
		cmd, _, lines := startTaker(t, fmt.Sprint(h.PID, " ", t.TempDir(), " hold"))
		if line, err := lines.ReadString('\n'); line != "stopped\n" {
			t.Fatalf("line = %q, %v, want stopped", line, err)
		}
		if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		h.gap(t) // it answers when it runs
		var ended *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != unix.SIGKILL {
			t.Errorf("the end of what stopped it: %v, want killed", err)
		}
		unharmed()
	}
	h.checkRunsOn(t)
}

// TestChaosTerminalStopWaits presses Ctrl-Z, as a terminal has it, while the target
// is stopped: that takes effect once the target runs.
func TestChaosTerminalStopWaits(t *testing.T) {
	nodetest.Root(t)
	h := startHeap(t, oneVersion, "1")
	unharmed := nodetest.Unharmed(t, h.PID)
	for range nodetest.Rounds(3, 50) {
		cmd, stdin, lines := startTaker(t, fmt.Sprint(h.PID, " ", t.TempDir(), " hold"))
		if line, err := lines.ReadString('\n'); line != "stopped\n" {
			t.Fatalf("line = %q, %v, want stopped", line, err)
		}
		if err := cmd.Process.Signal(unix.SIGTSTP); err != nil {
			t.Fatal(err)
		}
		if _, err := stdin.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		h.gap(t)
		if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil); err != nil {
			t.Fatal(err)
		}
		unharmed()
		if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
		if line, err := lines.ReadString('\n'); !strings.HasPrefix(line, "resumed") {
			t.Errorf("line = %q, %v, want resumed", line, err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	h.checkRunsOn(t)
}

// TestChaosSignalsOutliveTheirTracer kills the taker while signals come: none is
// lost, also one that the taker was about to pass on.
func TestChaosSignalsOutliveTheirTracer(t *testing.T) {
	const realTime = 34 // SIGRTMIN as glibc counts: queued, so each is counted
	p := startTracee(t, "count")
	sent := 0
	for range nodetest.Rounds(10, 200) {
		cmd, _, _ := startTaker(t, fmt.Sprint(p.pid(), " ", t.TempDir(), " copied"))
		for end := time.Now().Add(rand.N(100 * time.Millisecond)); time.Now().Before(end); sent++ {
			if err := unix.Kill(p.pid(), realTime); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Microsecond) // the kernel queues some ten thousand, and drops more without a word
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // killed
	}
	if got, want := p.end(), fmt.Sprintln(sent); got != want {
		t.Errorf("signals = %q, want %q", got, want)
	}
}
