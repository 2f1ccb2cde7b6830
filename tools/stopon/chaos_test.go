package stopon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// childVariable makes the test binary a stopon that is attacked.
const childVariable = "STOPON_TEST_CHILD"

// childMaxStop is how long an attacked stopon may hold a process.
const childMaxStop = 400 * time.Millisecond

// beChild runs such a stopon: "PID stop" or "PID FOLDER", where it leaves
// cores.
func beChild(what string) {
	var pid int
	var folder string
	if _, err := fmt.Sscanf(what, "%d %s", &pid, &folder); err != nil {
		panic(err)
	}
	o := badClose(Action{Do: Stop})
	if folder != "stop" {
		o = badClose(Action{Do: Core, Pattern: folder + "/core.{time}"})
		o.Count = 0
	}
	o.PIDs, o.MaxStop = []int{pid}, childMaxStop
	o.Started = func() { fmt.Println("ready") }
	o.Report = func(*Hit) error { return nil }
	o.Acted = func(_ *Hit, a *Action) {
		if a.Do == Stop {
			fmt.Println("left stopped")
		}
	}
	if _, err := Run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A victim is a stopon that is attacked while it holds a target.
type victim struct {
	t          *testing.T
	cmd        *exec.Cmd
	terminal   *os.File // its other end is the victim's
	supervisor int
	lines      chan string
	stderr     strings.Builder
}

// startVictim returns when it is waiting for matches.
func startVictim(t *testing.T, what string) *victim {
	t.Helper()
	v := &victim{t: t, cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 16)}
	v.cmd.Env = append(os.Environ(), childVariable+"="+what)
	v.cmd.Stderr = &v.stderr
	terminal := v.openTerminal()
	v.cmd.Stdin = terminal
	v.cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close() // the victim has it
	go func() {
		defer close(v.lines)
		for scanner := bufio.NewScanner(out); scanner.Scan(); {
			v.lines <- scanner.Text()
		}
	}()
	if line := <-v.lines; line != "ready" {
		_ = v.cmd.Wait()
		t.Fatalf("line = %q, want ready\n%s", line, v.stderr.String())
	}
	v.supervisor = childOf(t, v.cmd.Process.Pid)
	return v
}

// openTerminal makes a terminal and returns the end that programs have.
func (v *victim) openTerminal() *os.File {
	v.t.Helper()
	var err error
	if v.terminal, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0); err != nil {
		v.t.Fatal(err)
	}
	fd := int(v.terminal.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		v.t.Fatalf("unlock the terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		v.t.Fatalf("number of the terminal: %v", err)
	}
	end, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		v.t.Fatal(err)
	}
	return end
}

// childOf returns the pid of the only child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, list := range lists {
		text, _ := os.ReadFile(list) // the thread may have ended
		all = append(all, strings.Fields(string(text))...)
	}
	if len(all) != 1 {
		t.Fatalf("children of %d = %q, want one", pid, all)
	}
	child, err := strconv.Atoi(all[0])
	if err != nil {
		t.Fatal(err)
	}
	return child
}

// attacks are done to a stopon, or its supervisor, at a moment like any other.
//
// Each of the two is killed 200 times, half of them together with the other one.
var attacks = []struct {
	name string
	long int // rounds
	do   func(v *victim) error
}{
	{"kill stopon", 100, func(v *victim) error { return unix.Kill(v.cmd.Process.Pid, unix.SIGKILL) }},
	{"kill the supervisor", 100, func(v *victim) error { return unix.Kill(v.supervisor, unix.SIGKILL) }},
	{"kill both", 100, func(v *victim) error {
		both := []int{v.cmd.Process.Pid, v.supervisor}
		first := rand.N(len(both))
		return errors.Join(unix.Kill(both[first], unix.SIGKILL), unix.Kill(both[1-first], unix.SIGKILL))
	}},
	{"stop stopon", 50, func(v *victim) error { return unix.Kill(v.cmd.Process.Pid, unix.SIGSTOP) }},
	{"stop the supervisor", 50, func(v *victim) error { return unix.Kill(v.supervisor, unix.SIGSTOP) }},
	{"Ctrl-Z", 50, func(v *victim) error {
		_, err := v.terminal.Write([]byte{'Z' & 0x1f})
		return err
	}},
}

// TestChaosAttackedStoponHarmsNoProcess attacks a stopon that holds a process:
// the process keeps running as it did, and nothing is left of stopon.
func TestChaosAttackedStoponHarmsNoProcess(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	for _, attack := range attacks {
		t.Run(attack.name, func(t *testing.T) {
			target := startTrouble(t, "24.21.0", "badclose")
			for i := range nodetest.Rounds(4, attack.long) {
				dir := t.TempDir()
				what := dir
				if i%2 == 1 {
					what = "stop"
				}
				blocked := status(t, target.PID, "SigBlk")
				v := startVictim(t, fmt.Sprintf("%d %s", target.PID, what))
				target.Signal(unix.SIGUSR2)
				if i/2%2 == 0 {
					awaitHeld(t, target.PID)
				} else {
					time.Sleep(rand.N(150 * time.Millisecond)) // a moment like any other
				}
				if err := attack.do(v); err != nil && !errors.Is(err, unix.ESRCH) {
					t.Fatal(err)
				}
				v.checkTarget(target)
				v.end()
				checkFree(t, target.PID)
				if got := status(t, target.PID, "SigBlk"); got != blocked {
					t.Errorf("blocked signals = %s, want %s", got, blocked)
				}
				checkNoPartial(t, dir)
			}
		})
	}
}

// awaitHeld waits until a process is stopped, by a signal or a tracer.
func awaitHeld(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(hitLimit); !strings.ContainsAny(procState(pid)[:1], "tT"); {
		if time.Now().After(deadline) {
			t.Fatalf("process %d is in state %.1s, want it stopped", pid, procState(pid))
		}
	}
}

// checkTarget checks that the target carries out its scenario. It may be stopped
// only if stopon has said that it leaves it so.
func (v *victim) checkTarget(target *nodetest.Target) {
	v.t.Helper()
	done := make(chan string, 1)
	go func() { done <- target.Line() }()
	lines, limit := v.lines, time.After(2*hitLimit)
	for {
		select {
		case line := <-done:
			if !strings.HasPrefix(line, "done ") {
				v.t.Errorf("line = %q, want done", line)
			}
			return
		case line, ok := <-lines:
			if !ok {
				lines = nil // stopon has ended
			}
			if line == "left stopped" {
				target.Signal(unix.SIGCONT)
			}
		case <-limit:
			v.t.Fatalf("the target is in state %.1s after %v\n%s", procState(target.PID), 2*hitLimit, v.stderr.String())
		}
	}
}

// end ends what is left of stopon, and waits until its supervisor has ended, too.
func (v *victim) end() {
	v.t.Helper()
	_ = v.cmd.Process.Kill() // it may have ended
	_ = v.cmd.Wait()         // killed
	_ = v.terminal.Close()
	deadline := time.Now().Add(hitLimit)
	for state := "R"; state != "" && !strings.HasPrefix(state, "Z"); state = procState(v.supervisor) {
		if time.Now().After(deadline) {
			v.t.Fatalf("the supervisor is still there, in state %s", state)
		}
		time.Sleep(look)
	}
}

func checkNoPartial(t *testing.T, dir string) {
	t.Helper()
	left, err := filepath.Glob(dir + "/*partial*")
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("left on disk: %q", left)
	}
}

// awaitStopped waits until a child process has taken a signal that stops it.
func awaitStopped(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil); err != nil {
		t.Fatalf("wait until %d is stopped: %v", pid, err)
	}
}

// TestChaosOnlyWhatWeStoppedIsResumed takes cores of processes that run, that
// somebody else has stopped, and that somebody else stops while we hold them.
func TestChaosOnlyWhatWeStoppedIsResumed(t *testing.T) {
	nodetest.Root(t)
	toCore := func(t *testing.T) []Action { return []Action{{Do: Core, Pattern: t.TempDir() + "/"}} }
	now := func(t *testing.T, pid int, actions []Action) {
		t.Helper()
		o := Options{Selection: trace.Selection{PIDs: []int{pid}}, Actions: actions, Report: func(*Hit) error { return nil }}
		o.Warn = func(err error) { t.Errorf("warning: %v", err) }
		if _, err := Now(context.Background(), o); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it runs", func(t *testing.T) {
		target := startTrouble(t, "24.21.0", "continued")
		now(t, target.PID, toCore(t))
		if got := perform(t, target).Events; got != 0 {
			t.Errorf("SIGCONTs = %d, want 0", got)
		}
	})
	for name, actions := range map[string][]Action{"core": toCore(t), "stop": {{Do: Stop}}} {
		t.Run("stopped before/"+name, func(t *testing.T) {
			target := startTrouble(t, "24.21.0", "continued")
			target.Signal(unix.SIGSTOP)
			awaitStopped(t, target.PID)
			now(t, target.PID, actions)
			if !isStopped(target.PID) {
				t.Errorf("state = %.1s, want T", procState(target.PID))
			}
			target.Signal(unix.SIGCONT)
			if got := perform(t, target).Events; got > 1 {
				t.Errorf("SIGCONTs = %d, want ours alone", got)
			}
		})
	}
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stopon is killed/stopped before %v", stopped), func(t *testing.T) {
			target := startTrouble(t, "24.21.0", "continued")
			v := startVictim(t, fmt.Sprintf("%d stop", target.PID))
			if stopped {
				target.Signal(unix.SIGSTOP)
				awaitStopped(t, target.PID)
			}
			v.end()
			want := 0
			if stopped {
				if !isStopped(target.PID) {
					t.Errorf("state = %.1s, want T", procState(target.PID))
				}
				target.Signal(unix.SIGCONT)
				want = 1
			}
			if got := perform(t, target).Events; got > want {
				t.Errorf("SIGCONTs = %d, want %d at most", got, want)
			}
		})
	}
	t.Run("stopped meanwhile", func(t *testing.T) {
		target := startTrouble(t, "24.21.0", "badclose")
		meanwhile := Action{Do: Call, Function: func(context.Context, *Hit) error {
			return unix.Kill(target.PID, unix.SIGSTOP)
		}}
		r := watch(t, target, badClose(append([]Action{meanwhile}, toCore(t)...)...))
		target.Signal(unix.SIGUSR2)
		<-r.done
		if r.err != nil || r.result.Failed > 0 {
			t.Fatalf("result = %+v (%v), want no failures", r.result, r.err)
		}
		if !isStopped(target.PID) {
			t.Errorf("state = %.1s, want T", procState(target.PID))
		}
		target.Signal(unix.SIGCONT)
		if line := target.Line(); !strings.HasPrefix(line, "done ") {
			t.Errorf("line = %q, want done", line)
		}
	})
}
