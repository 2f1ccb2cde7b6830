package stopon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// Supervise runs a supervisor, if this process is one, and then does not
// return. A program that calls Run or Now calls Supervise first, since a
// supervisor is a second instance of the same program.
func Supervise() {
	canSupervise.Store(true)
	if len(os.Args) != 3 || os.Args[0] != supervisorName {
		return
	}
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGPIPE, unix.SIGTSTP)
	if err := supervise(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintf(os.Stderr, "stopon: %v\n", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// checkEvery is how often the supervisor, and the process that started it,
// check for processes that have been stopped for too long.
const checkEvery = 100 * time.Millisecond

// supervise carries out orders until it is told to end or its parent has died.
func supervise(parentPID, maxStopText string) error {
	if err := os.WriteFile("/proc/self/comm", []byte(supervisorName), 0); err != nil {
		return fmt.Errorf("name the supervisor: %w", err)
	}
	const stoppedFD = 3 // the first of exec.Cmd.ExtraFiles
	opened, err := ebpf.NewMapFromFD(stoppedFD)
	if err != nil {
		return fmt.Errorf("open the map of stopped processes: %w", err)
	}
	stopped := stoppedMap{opened}
	parent, err := strconv.Atoi(parentPID)
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	maxStop, err := time.ParseDuration(maxStopText)
	if err != nil {
		return fmt.Errorf("start the supervisor: %w", err)
	}
	pidfd, pidfdErr := unix.PidfdOpen(parent, 0) // fails if the parent has already ended
	served := make(chan bool, 1)
	held := make(heldLines)
	go func() { served <- serve(os.Stdin, os.Stdout, stopped, held, pidfd) }()
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := errors.Join(stopped.pause(isStopped(parent)), stopped.releaseAfter(maxStop)); err != nil {
				fmt.Fprintf(os.Stderr, "stopon: %v\n", err)
			}
		case told := <-served:
			if told {
				return stopped.releaseAfter(everything)
			}
			if pidfdErr == nil {
				awaitEnd(pidfd)
			}
			return errors.Join(releaseLast(stopped), held.cutAll())
		}
	}
}

// patience is how long the supervisor waits for its parent, and the parent's
// BPF programs, to be gone once the pipe between them is closed.
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

// releaseLast resumes everything, including what a BPF program stops that was
// still running when its owner died.
func releaseLast(stopped stoppedMap) error {
	const times = 3
	var errs []error
	for range times {
		errs = append(errs, stopped.releaseAfter(everything))
		time.Sleep(checkEvery)
	}
	return errors.Join(append(errs, stopped.releaseAfter(everything))...)
}

// serve carries out orders until it is told to end or its parent closes the
// pipe. It holds the lifelines of the process that pidfd refers to.
func serve(in io.Reader, out io.Writer, stopped stoppedMap, held heldLines, pidfd int) (told bool) {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	cancel := func() {}
	defer func() { cancel() }()
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return false
		}
		switch {
		case o.End:
			return true
		case o.Hold != nil:
			held.hold(o.Hold, pidfd)
			continue
		case o.Drop != 0:
			held.drop(o.Drop)
			continue
		}
		cancel()
		cancel = func() {}
		if o.Core != nil {
			cancel = startCore(o.Core, answers, stopped)
		}
	}
}

// startCore starts to take a core. The function it returns abandons the core if
// it is not complete, and returns once the process runs as before.
func startCore(o *coreOrder, answers *json.Encoder, stopped stoppedMap) (cancel func()) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		takeCore(ctx, o, answers, stopped)
	}()
	return func() {
		stop()
		<-done
	}
}

// progressEvery is the least number of bytes between two reports of progress.
const progressEvery = 16 << 20

func takeCore(ctx context.Context, o *coreOrder, answers *json.Encoder, stopped stoppedMap) {
	reported := uint64(0)
	result, err := core.Write(ctx, o.PID, o.Path, core.Options{
		Full: o.Full, Thread: o.TID, Note: o.Note, MaxStop: o.MaxStop,
		Resumed: func() {
			if o.Resume {
				_ = stopped.release(o.PID) // the parent does so again, and reports what is wrong
			}
		},
		Progress: func(done, total uint64) {
			if done < reported+progressEvery && done < total {
				return
			}
			reported = done
			_ = answers.Encode(answer{Done: done, Total: total}) // the parent may be gone
		},
	})
	a := answer{Result: result}
	if err != nil {
		a.Error = err.Error()
	}
	_ = answers.Encode(a)
}

// tracerOf returns the pid of the process that traces another; 0 if none does.
func tracerOf(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "TracerPid:"); ok {
			tracer, _ := strconv.Atoi(strings.TrimSpace(value)) // the kernel writes a number
			return tracer
		}
	}
	return 0
}
