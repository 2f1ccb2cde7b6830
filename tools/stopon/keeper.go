package stopon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// A keeper is a process of our own that outlives us. It takes the cores, which
// must not end halfway, and should we be killed it lets go on what we have
// stopped. It knows that from the kernel: the program that stops a process
// writes it down first.

// keeperName is the keeper's own, by which it knows itself, and the kernel half
// (bpf/hit.h) what it makes processes do; `pkill stopon` does not find it.
const keeperName = "ustack-keeper"

// An order is what the keeper is asked to do; nothing set: to give up the core
// that it is taking.
type order struct {
	Core *coreOrder `json:",omitempty"`
	End  bool       `json:",omitempty"` // all is well: end
}

type coreOrder struct {
	PID, TID int
	Path     string
	Note     []byte
	MaxStop  time.Duration
	Resume   bool // the process, as soon as it may go on
	CoreOptions
}

// CoreOptions are those of a core that are a matter of taste.
type CoreOptions struct {
	Way  core.Way
	Full bool
}

// An answer is what the keeper says of the core that it is taking.
type answer struct {
	Done, Total uint64
	Result      *core.Result `json:",omitempty"` // of the core, which is finished
	Error       string       `json:",omitempty"` // why it will not be, or what went wrong after it
}

// A keeper is our end of it.
type keeper struct {
	command *exec.Cmd
	orders  *json.Encoder
	answers *json.Decoder
	pipe    io.Closer // of the orders
}

// keeps is set once Keep has been called: without it a keeper would do all that its
// program does, and start another.
var keeps atomic.Bool

// startKeeper starts a keeper, which will look into stopped.
func startKeeper(stopped *ebpf.Map) (*keeper, error) {
	if !keeps.Load() {
		return nil, errors.New("start keeper: the program has not called Keep")
	}
	fd, err := unix.FcntlInt(uintptr(stopped.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	file := os.NewFile(uintptr(fd), "stopped")
	defer file.Close()
	k := &keeper{command: &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{keeperName, strconv.Itoa(os.Getpid())},
		Stderr: os.Stderr, ExtraFiles: []*os.File{file},
		SysProcAttr: &unix.SysProcAttr{Setsid: true}, // the terminal's signals are not for it
	}}
	in, err := k.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	out, err := k.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	if err := k.command.Start(); err != nil {
		return nil, fmt.Errorf("start keeper: %w", err)
	}
	k.orders, k.answers, k.pipe = json.NewEncoder(in), json.NewDecoder(out), in
	return k, nil
}

// close ends the keeper.
func (k *keeper) close() error {
	err := errors.Join(k.orders.Encode(order{End: true}), k.pipe.Close(), k.command.Wait())
	if err != nil {
		return fmt.Errorf("end keeper: %w", err)
	}
	return nil
}

// take has the keeper take a core. Should ctx end, the core is given up.
func (k *keeper) take(ctx context.Context, o coreOrder, progress func(done, total uint64)) (*core.Result, error) {
	if err := k.orders.Encode(order{Core: &o}); err != nil {
		return nil, fmt.Errorf("ask keeper for a core: %w", err)
	}
	var mutex sync.Mutex // of the orders, and finished
	finished := false
	defer context.AfterFunc(ctx, func() {
		mutex.Lock()
		defer mutex.Unlock()
		if !finished {
			_ = k.orders.Encode(order{}) // if it cannot hear, its answer says so
		}
	})()
	for {
		var a answer
		if err := k.answers.Decode(&a); err != nil {
			return nil, fmt.Errorf("hear from keeper: %w", err)
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

// Keep is the keeper's life, if this process is one; then it does not return.
// Whatever runs sessions calls it first of all: a keeper is the same program.
func Keep() {
	keeps.Store(true)
	if len(os.Args) != 2 || os.Args[0] != keeperName {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE)
	if err := keep(); err != nil {
		fmt.Fprintf(os.Stderr, "stopon: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func keep() error {
	if err := os.WriteFile("/proc/self/comm", []byte(keeperName), 0); err != nil {
		return fmt.Errorf("name the keeper: %w", err)
	}
	const stoppedFD = 3 // the first of exec.Cmd.ExtraFiles
	stopped, err := ebpf.NewMapFromFD(stoppedFD)
	if err != nil {
		return fmt.Errorf("open the map of stopped processes: %w", err)
	}
	parent, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	pidfd, pidfdErr := unix.PidfdOpen(parent, 0) // fails if it has gone already
	if told := serve(os.Stdin, os.Stdout); !told && pidfdErr == nil {
		awaitEnd(pidfd)
	}
	return resumeAll(stopped) // if told to end, what was stopped as the last probe went out
}

// patience is how long the keeper waits for whoever started it to be gone, and
// its programs with it, once its pipe is closed.
const patience = 5 * time.Second

func awaitEnd(pidfd int) {
	deadline := time.Now().Add(patience)
	for time.Now().Before(deadline) {
		fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, int(time.Until(deadline).Milliseconds())+1); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// resumeAll lets all processes go on that the map holds.
func resumeAll(stopped *ebpf.Map) error {
	var errs []error
	var pid uint32
	var since uint64
	for entries := stopped.Iterate(); entries.Next(&pid, &since); {
		errs = append(errs, resume(int(pid)))
	}
	return errors.Join(errs...)
}

// serve carries out orders, until it is told to end or nobody is there to tell.
func serve(in io.Reader, out io.Writer) (told bool) {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	giveUp := func() {}
	defer func() { giveUp() }()
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return false
		}
		if o.End {
			return true
		}
		giveUp()
		giveUp = func() {}
		if o.Core != nil {
			giveUp = startCore(o.Core, answers)
		}
	}
}

// startCore begins to take a core. It returns a function that gives it up, if it
// is not finished, and returns when all is as it was.
func startCore(o *coreOrder, answers *json.Encoder) (giveUp func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		takeCore(ctx, o, answers)
	}()
	return func() {
		cancel()
		<-done
	}
}

// progressEvery is the least number of bytes between two words of progress.
const progressEvery = 16 << 20

func takeCore(ctx context.Context, o *coreOrder, answers *json.Encoder) {
	told := uint64(0)
	result, err := core.Write(ctx, o.PID, o.Path, core.Options{
		Way: o.Way, Full: o.Full, Thread: o.TID, Note: o.Note, MaxStop: o.MaxStop,
		Resumed: func() {
			if o.Resume {
				_ = resume(o.PID) // whoever asked does so again, and says what is wrong
			}
		},
		Progress: func(done, total uint64) {
			if done < told+progressEvery && done < total {
				return
			}
			told = done
			_ = answers.Encode(answer{Done: done, Total: total}) // nobody may be there to hear
		},
	})
	a := answer{Result: result}
	if err != nil {
		a.Error = err.Error()
	}
	_ = answers.Encode(a)
}
