package trace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// TestCommandStartsWhenEverythingIsAttached starts a shell whose subshell, a process that executes no
// program, starts node: shell and node are traced, and the shell's status is passed on.
func TestCommandStartsWhenEverythingIsAttached(t *testing.T) {
	node := nodetest.Node(t, anyVersion)
	out, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	status := -1
	var pids []int // of the shell and of node, which is killed once it is traced
	s := openSampled(t, Options{
		Selection: Selection{
			Command: []string{"sh", "-c", "echo started; (" + node + " " + nodetest.Program("purecpu.js") + " >&2; :); exit 7"}, Stdout: out,
			Exited: func(n int) { status = n },
		},
		Warn: func(error) {}, // a shell is not Node.js
	}, Tool{Added: func(pid int) error {
		if pids = append(pids, pid); len(pids) == 2 {
			return unix.Kill(pid, unix.SIGKILL)
		}
		return nil
	}})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	err = s.Run(t.Context(), Loop{Attach: func() error {
		if text, err := os.ReadFile(out.Name()); err != nil || len(text) > 0 {
			t.Errorf("the command has printed %q, %v before it was started", text, err)
		}
		return s.sample()
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(out.Name()); string(text) != "started\n" || err != nil {
		t.Errorf("the command printed %q, %v, want started", text, err)
	}
	if status != 7 {
		t.Errorf("status = %d, want 7", status)
	}
	if node, _ := s.Table.Versions(); node == "" || len(pids) != 2 {
		t.Error("node, which the shell started, was not traced")
	}
}

// TestNodeIsReadBeforeACommandStartsIt looks for the file that a shell will find.
func TestNodeIsReadBeforeACommandStartsIt(t *testing.T) {
	node, folder := nodetest.Node(t, anyVersion), t.TempDir()
	if err := os.Symlink(node, folder+"/node"); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", folder+":"+os.Getenv("PATH"))
	s := openSampled(t, Options{Selection: Selection{Command: []string{"sh", "-c", "exec node -e 0"}}}, Tool{})
	var stat unix.Stat_t
	if err := unix.Stat(node, &stat); err != nil {
		t.Fatal(err)
	}
	b := s.Table.binaries[FileID{stat.Dev, stat.Ino}]
	if b == nil || b.err != nil || b.v8 == nil || b.rules == nil {
		t.Fatalf("binary = %+v, want what is known about node", b)
	}
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{}); err != nil {
		t.Fatal(err)
	}
	if found := s.Table.binaries[FileID{stat.Dev, stat.Ino}]; found != b {
		t.Error("the process that the command started has another file")
	}
	if version, _ := s.Table.Versions(); version == "" {
		t.Error("node was not traced")
	}
}

// TestCommandThatIsNotTracedNeverRuns has a Run that cannot attach its programs.
func TestCommandThatIsNotTracedNeverRuns(t *testing.T) {
	out, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s := openSampled(t, Options{
		Selection: Selection{
			Command: []string{nodetest.Node(t, anyVersion), "-e", "console.log('started')"}, Stdout: out,
			Exited: func(n int) { t.Errorf("status = %d, want none", n) },
		},
	}, Tool{})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	want := errors.New("attach")
	if err := s.Run(t.Context(), Loop{Attach: func() error { return want }}); !errors.Is(err, want) {
		t.Fatalf("Run() = %v, want %v", err, want)
	}
	pid := s.targets.command.pid()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the command exists: %v, want %v", err, unix.ESRCH)
	}
	if text, err := os.ReadFile(out.Name()); len(text) > 0 || err != nil {
		t.Errorf("the command printed %q, %v, want nothing", text, err)
	}
}

func TestCommandThatDoesNotExistIsAnError(t *testing.T) {
	s := openSampled(t, Options{Selection: Selection{Command: []string{"/nonexistent/program"}}}, Tool{})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "start /nonexistent/program") {
		t.Errorf("err = %v, want that it does not exist", err)
	}
}

// TestProcessMayEndOnceItIsTraced has a tool that ends its target before anything else
// is attached, as an action may.
func TestProcessMayEndOnceItIsTraced(t *testing.T) {
	target := nodetest.Start(t, nodetest.Node(t, anyVersion), nodetest.Options{Script: "purecpu.js", MayFail: true})
	ended := 0
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID}}}, Tool{
		Added: func(pid int) error {
			target.Signal(unix.SIGKILL)
			target.Wait()
			return fmt.Errorf("probe it: %w", process.ErrGone)
		},
		Ended: func(pid int) { ended = pid },
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), Loop{}); err != nil {
		t.Errorf("Run() = %v, want no error", err)
	}
	if ended != target.PID {
		t.Errorf("ended = %d, want %d", ended, target.PID)
	}
}

// TestNewProcessesAreTraced selects by name, and starts the process afterwards.
func TestNewProcessesAreTraced(t *testing.T) {
	name := fmt.Sprintf("n%d", os.Getpid()) // of no other process
	node := t.TempDir() + "/" + name
	if err := os.Symlink(nodetest.Node(t, anyVersion), node); err != nil {
		t.Fatal(err)
	}
	added := make(chan int, 8)
	s := openSampled(t, Options{Selection: Selection{Comm: name}, Warn: func(error) {}}, Tool{
		Added: func(pid int) error { added <- pid; return nil },
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	work := make(chan func(context.Context) error, 1)
	var target *nodetest.Target
	err := s.Run(t.Context(), Loop{Work: work, Started: func() {
		target = nodetest.Start(t, node, nodetest.Options{Script: "purecpu.js", MayFail: true})
		work <- func(context.Context) error {
			if pid := <-added; pid != target.PID {
				t.Errorf("process %d was added, want %d", pid, target.PID)
			}
			return ErrDone
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Table.Has(target.PID) {
		t.Error("the process is not traced")
	}
}

func TestProcessesThatAreNotThereAreErrors(t *testing.T) {
	for _, tt := range []struct {
		name string
		s    Selection
		run  error // of Run
		want string
	}{
		{"an id", Selection{PIDs: []int{1 << 22}}, process.ErrGone, ""},
		{"no selection", Selection{}, ErrNoSelection, ""},
		{"a name", Selection{Comm: "no such name"}, nil, "no process found that is named, or runs a file named, no such name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openSampled(t, Options{Selection: tt.s, Duration: time.Millisecond}, Tool{})
			if err := s.Listen(); err != nil {
				t.Fatal(err)
			}
			if err := s.Run(t.Context(), Loop{}); !errors.Is(err, tt.run) || tt.run == nil && err != nil {
				t.Errorf("err = %v, want %v", err, tt.run)
			}
			if err := s.Missing(); tt.want != "" && (err == nil || err.Error() != tt.want || !errors.Is(err, ErrNotFound)) {
				t.Errorf("missing = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestProcessesThatWereNotReadAreNotMissing has a session interrupted before it reads them.
func TestProcessesThatWereNotReadAreNotMissing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	table := NewTable(Maps{})
	table.hurry(ctx)
	targets := newTargets(table, Selection{PIDs: []int{os.Getpid()}})
	if err := targets.Missing(); !errors.Is(err, ErrNotFound) {
		t.Errorf("before: missing = %v, want %v", err, ErrNotFound)
	}
	cancel()
	if err := errors.Join(targets.Add(), targets.Missing(), targets.Close(), table.Close()); err != nil {
		t.Errorf("interrupted: %v, want no error", err)
	}
}

// TestProcessesAreTracedWhileOneIsForgotten has a tool that takes its time to forget a process.
func TestProcessesAreTracedWhileOneIsForgotten(t *testing.T) {
	name := fmt.Sprintf("n%d", os.Getpid()) // of no other process
	node := t.TempDir() + "/" + name
	if err := os.Symlink(nodetest.Node(t, anyVersion), node); err != nil {
		t.Fatal(err)
	}
	begin := func() *nodetest.Target {
		return nodetest.Start(t, node, nodetest.Options{Script: "purecpu.js", MayFail: true})
	}
	first := begin()
	added, ending := make(chan int, 8), make(chan int, 8)
	forgotten := make(chan struct{})
	s := openSampled(t, Options{Selection: Selection{Comm: name}}, Tool{
		Added: func(pid int) error { added <- pid; return nil },
		Ended: func(pid int) {
			ending <- pid
			<-forgotten
		},
	})
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	work := make(chan func(context.Context) error, 1)
	work <- func(context.Context) error {
		defer close(forgotten)
		<-added
		first.Signal(unix.SIGKILL)
		first.Wait()
		if pid := <-ending; pid != first.PID {
			t.Errorf("process %d has ended, want %d", pid, first.PID)
		}
		second := begin()
		select {
		case pid := <-added:
			if pid != second.PID {
				t.Errorf("process %d was added, want %d", pid, second.PID)
			}
		case <-time.After(time.Minute):
			t.Error("the process that began then is not traced")
		}
		return ErrDone
	}
	if err := s.Run(t.Context(), Loop{Work: work}); err != nil {
		t.Fatal(err)
	}
}
