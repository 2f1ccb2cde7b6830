package stopon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// A supervisor is this process's end of a second process of the same program,
// which runs while anything may be stopped. The supervisor process resumes what
// has been stopped for longer than allowed, whatever state this process is in:
// suspended, blocked on its output, or dead. It also takes the cores, by
// ptrace: if it dies, the kernel resumes the process.
//
// Conversely, if the supervisor dies, this process resumes what is stopped, and
// gives up.
type supervisor struct {
	command *exec.Cmd
	sending sync.Mutex // orders
	orders  *json.Encoder
	answers *json.Decoder
	pipes   [2]*os.File   // of the orders and the answers
	ended   chan struct{} // closed when the process has ended
	status  error         // how it ended, once ended is closed
	holding atomic.Int64  // the pid whose core it is taking; 0: none
}

// supervisorName is the supervisor's command name. The kernel half recognises
// it by this name (bpf/act.h), and `pkill stopon` does not match it.
const supervisorName = "ustack-superv"

// An order is a request to the supervisor. The zero order cancels the core that
// it is taking.
type order struct {
	Core *coreOrder `json:",omitempty"`
	Hold *heldLine  `json:",omitempty"` // until it is dropped
	Drop int        `json:",omitempty"` // the lifeline of this process
	End  bool       `json:",omitempty"` // release everything, and exit
}

type coreOrder struct {
	PID, TID int
	Path     string
	Note     []byte
	MaxStop  time.Duration
	Resume   bool // the process, if we stopped it, as soon as it has been copied
	CoreOptions
}

// CoreOptions say how to take a core.
type CoreOptions struct {
	Full bool
}

// An answer is what the supervisor reports about the core that it is taking.
// The last answer about a core has a Result or an Error.
type answer struct {
	Done, Total uint64
	Result      *core.Result `json:",omitempty"` // of a core that is complete
	Error       string       `json:",omitempty"` // why there is no core, or what went wrong afterwards
}

var (
	errNotSupervised = errors.New("start the supervisor: the program has not called Supervise")
	errSupervisor    = errors.New("the supervisor has ended unexpectedly, so nothing more is stopped (was it killed?)")
)

// canSupervise is set by Supervise. Without that call the second process would
// run the whole program again.
var canSupervise atomic.Bool

// startSupervisor starts a supervisor that resumes what has been in stopped for
// maxStop.
func startSupervisor(stopped *ebpf.Map, maxStop time.Duration) (_ *supervisor, err error) {
	if !canSupervise.Load() {
		return nil, errNotSupervised
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("start the supervisor: %w", err)
		}
	}()
	fd, err := unix.FcntlInt(uintptr(stopped.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "stopped")
	defer file.Close()
	orders, toOrders, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer orders.Close()
	fromAnswers, answers, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, toOrders.Close())
	}
	defer answers.Close()
	s := &supervisor{
		command: &exec.Cmd{
			Path: "/proc/self/exe",
			Args: []string{supervisorName, strconv.Itoa(os.Getpid()), maxStop.String()},
			Env:  os.Environ(), Stdin: orders, Stdout: answers, Stderr: os.Stderr, ExtraFiles: []*os.File{file},
			// Detached from the terminal; continued when this process ends,
			// should it be stopped.
			SysProcAttr: &unix.SysProcAttr{Setsid: true, Pdeathsig: unix.SIGCONT},
		},
		orders: json.NewEncoder(toOrders), answers: json.NewDecoder(fromAnswers),
		pipes: [2]*os.File{toOrders, fromAnswers}, ended: make(chan struct{}),
	}
	if err := s.command.Start(); err != nil {
		return nil, errors.Join(err, s.closePipes())
	}
	go func() {
		s.status = s.command.Wait()
		close(s.ended)
	}()
	return s, nil
}

// send sends an order. The supervisor may have ended or not receive it: that
// shows in its answers.
func (s *supervisor) send(o order) { _ = s.encode(o) }

func (s *supervisor) encode(o order) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.orders.Encode(o)
}

func (s *supervisor) closePipes() error { return errors.Join(s.pipes[0].Close(), s.pipes[1].Close()) }

// hasEnded reports whether the process is gone.
func (s *supervisor) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// endsWithin waits for the process to end.
func (s *supervisor) endsWithin(limit time.Duration) bool {
	select {
	case <-s.ended:
		return true
	case <-time.After(limit):
		return false
	}
}

// endLimit is how long the supervisor may take to exit when told to, and again
// when killed: it may hang in a write to a dead file system.
const endLimit = 700 * time.Millisecond

// close ends the supervisor.
func (s *supervisor) close() error {
	s.send(order{End: true})
	err := s.closePipes()
	if s.endsWithin(endLimit) {
		return errors.Join(err, s.failure())
	}
	s.kill()
	if !s.endsWithin(endLimit) {
		return errors.Join(err, fmt.Errorf("the supervisor (process %d) does not end", s.command.Process.Pid))
	}
	return err
}

// failure returns what went wrong in a supervisor that has ended.
func (s *supervisor) failure() error {
	var exit *exec.ExitError
	if errors.As(s.status, &exit) && !exit.Exited() {
		return errSupervisor
	}
	if s.status != nil {
		return fmt.Errorf("end the supervisor: %w", s.status)
	}
	return nil
}

// kill ends a supervisor that does not respond: the kernel resumes what it traces.
func (s *supervisor) kill() { _ = s.command.Process.Kill() } // it may have ended

// check continues the supervisor if it has been stopped, and kills it if it has
// held a process for longer than maxStop since the time held, which check
// maintains.
func (s *supervisor) check(held *time.Time, maxStop time.Duration) {
	pid := s.command.Process.Pid
	if isStopped(pid) && !s.hasEnded() {
		_ = unix.Kill(pid, unix.SIGCONT) // it may have ended
	}
	target := int(s.holding.Load())
	if target == 0 || tracerOf(target) != pid {
		*held = time.Time{}
		return
	}
	if held.IsZero() {
		*held = time.Now()
	}
	if time.Since(*held) > maxStop+endLimit {
		s.kill()
	}
}

// take has the supervisor take a core. If ctx ends, the core is abandoned.
func (s *supervisor) take(ctx context.Context, o coreOrder, progress func(done, total uint64)) (*core.Result, error) {
	s.holding.Store(int64(o.PID))
	defer s.holding.Store(0)
	if err := s.encode(order{Core: &o}); err != nil {
		return nil, errors.Join(errSupervisor, err)
	}
	var mutex sync.Mutex // of the orders, and finished
	finished := false
	defer context.AfterFunc(ctx, func() {
		mutex.Lock()
		defer mutex.Unlock()
		if finished {
			return
		}
		s.send(order{})
		_ = s.pipes[1].SetReadDeadline(time.Now().Add(endLimit)) // it may hang
	})()
	for {
		var a answer
		if err := s.answers.Decode(&a); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return nil, ctx.Err()
			}
			return nil, errSupervisor
		}
		if a.Result == nil && a.Error == "" {
			progress(a.Done, a.Total)
			continue
		}
		mutex.Lock()
		finished = true
		mutex.Unlock()
		if a.Error != "" {
			return a.Result, errors.New(a.Error)
		}
		return a.Result, nil
	}
}
