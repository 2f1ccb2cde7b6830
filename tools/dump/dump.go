// Package dump takes the stacks of all threads of a running process, once: JavaScript and
// native functions with the lines that execute. The process is stopped only while its
// stacks are unwound; what takes long is done before, or afterwards from a copy of the
// memory that was read.
package dump

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"ustack/symbolize"
	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/space"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/verify"
	"ustack/tools/core"
	"ustack/tools/sourcemaps"
)

// Options say how stacks are taken and named. The zero value is useful.
type Options struct {
	Maps    sourcemaps.Options
	MaxStop time.Duration             // the process is never stopped for longer; DefaultMaxStop if 0
	Syscall func(number int) string   // names system calls; nil: they are shown by number
	Warn    func(error)               // called with what keeps names from being found; may be nil
	Resumed func(after time.Duration) // called when the process runs again, before source maps are read; may be nil
}

// DefaultMaxStop is how long a process may be stopped if Options do not set a limit.
const DefaultMaxStop = 2 * time.Second

// maxAttempts bounds how often a process is stopped again because it has loaded code
// since its files were read.
const maxAttempts = 3

// A Dump is the stacks of a process at one moment.
type Dump struct {
	PID     int           `json:"pid"`
	Inside  int           `json:"namespace_pid,omitempty"` // its PID in its own PID namespace, if it is another
	Title   string        `json:"title"`                   // for people: "node 4242 server.js"
	Node    string        `json:"node,omitempty"`          // version, as "v22.23.3"
	V8      string        `json:"v8,omitempty"`
	Time    time.Time     `json:"time"`
	Stopped time.Duration `json:"stopped_ns"` // how long the process was stopped, in all
	Threads []Thread      `json:"threads"`    // the main thread first, then by number
}

// A Thread is what one thread was doing.
type Thread struct {
	TID       int               `json:"tid"`
	Name      string            `json:"name"`
	State     State             `json:"state"`
	Isolate   int               `json:"isolate,omitempty"` // of V8, from 1 in the threads' order, if the thread runs JavaScript in it
	Frames    []symbolize.Frame `json:"stack"`             // leaf first
	Awaiting  []symbolize.Frame `json:"awaiting,omitempty"`
	Truncated bool              `json:"truncated,omitempty"` // there are more frames than are followed
	Broken    bool              `json:"broken,omitempty"`    // the stack ended where no thread begins
}

// Take returns the stacks of all threads of the process pid, which continues, or stays
// stopped if a signal had stopped it. If this process dies meanwhile, the kernel resumes
// the other.
func Take(ctx context.Context, pid int, o Options) (*Dump, error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	t := &taker{process: p, o: o}
	t.files.Hurry(ctx)
	d, err := t.take(ctx)
	return d, errors.Join(err, t.close())
}

// A taker takes one dump.
type taker struct {
	process *process.Process
	o       Options
	files   reader.Reader
	memory  *memory
	space   *space.Space
	found   stack.Found
	names   map[int]string // of threads
	waits   map[int]string // the system calls that threads slept in before the stop

	// Read during the stop.
	threads []core.Thread
	stopped time.Duration
	time    time.Time
}

func (t *taker) close() error {
	var err error
	if t.space != nil {
		err = t.space.Close()
	}
	return errors.Join(err, t.files.Close())
}

func (t *taker) take(ctx context.Context) (*Dump, error) {
	again := true
	for attempt := 1; again; attempt++ {
		if err := t.prepare(ctx); err != nil {
			return nil, err
		}
		var err error
		if again, err = t.stop(ctx, attempt < maxAttempts); err != nil {
			return nil, err
		}
	}
	if t.o.Resumed != nil {
		t.o.Resumed(t.stopped)
	}
	t.nameThreads()
	return t.describe()
}

// stop unwinds the stacks while the process is stopped. It returns at once if the process
// has mapped other files than were prepared for and retry is set.
func (t *taker) stop(ctx context.Context, retry bool) (again bool, err error) {
	limit := t.o.MaxStop
	if limit == 0 {
		limit = DefaultMaxStop
	}
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it would take CPU time from the stop
	lasted, err := core.WhileStopped(ctx, t.process.PID(), core.StopOptions{MaxStop: limit, Hurry: true},
		func(ctx context.Context, threads []core.Thread) error {
			layout, err := t.layout()
			if err != nil {
				return err
			}
			if again = !t.space.Renew(layout) && retry; again {
				return nil
			}
			t.time, t.threads = time.Now(), threads
			t.memory.hold()
			defer t.memory.release()
			_, err = t.unwind(ctx, nil)
			return err
		})
	t.stopped += lasted
	return again, err
}

// An unwound is a thread with its stack.
type unwound struct {
	stack.Stack
	owns int // isolate, from 1, whose JavaScript the thread runs; 0 if none
}

// unwind returns the threads' stacks. Before the process is resumed, that is only to read
// all memory that is needed for it.
func (t *taker) unwind(ctx context.Context, find func(name, url string) *sourcemap.Map) (stacks []unwound, err error) {
	defer contain.Panic(&err, "unwind the stacks of process %d", t.process.PID())
	v := t.found.V8
	v.Read(t.space) // what is missing was reported already
	u := stack.New(t.space, v)
	u.UseMaps(find)
	var threads []stack.Thread
	for _, thread := range t.threads {
		sets := stack.Regsets{General: thread.General, TLS: thread.TLS, PACMask: thread.PACMask}
		threads = append(threads, stack.Thread{TID: thread.TID, Registers: stack.ReadRegisters(core.Machine(), sets)})
	}
	_ = u.SetThreads(threads) // likewise
	isolates := u.Isolates()
	for _, thread := range u.Threads() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		owns := 1 + slices.IndexFunc(isolates, func(i stack.Isolate) bool { return i.Threads[0] == thread.TID })
		stacks = append(stacks, unwound{u.Stack(thread), owns})
	}
	return stacks, nil
}

// describe names everything that was read while the process was stopped.
func (t *taker) describe() (*Dump, error) {
	maps := sourcemaps.New(t.o.Maps, &t.files)
	defer maps.Close()
	root, err := t.process.Root()
	if err == nil { // otherwise no source map that is a file is read
		defer root.Close()
	}
	stacks, err := t.unwind(context.Background(), func(name, url string) *sourcemap.Map {
		m, err := maps.Find(sourcemaps.Script{Name: name, URL: url, Root: root})
		if err != nil && maps.Reports(err) {
			t.warn(err)
		}
		return m
	})
	if err != nil {
		return nil, err
	}
	d := &Dump{PID: t.process.PID(), Inside: t.process.Inside(), Title: t.process.Title(), Time: t.time, Stopped: t.stopped}
	if b := t.found.V8.Binary; b != nil {
		d.Node, d.V8 = b.NodeVersion, b.Version.String()
	}
	for i, s := range stacks {
		thread := t.threads[i]
		d.Threads = append(d.Threads, Thread{
			TID: thread.TID, Name: t.names[thread.TID], State: t.stateOf(thread), Isolate: s.owns,
			Frames: framesOf(s.Frames), Awaiting: framesOf(s.Awaiting), Truncated: s.Truncated, Broken: s.Broken,
		})
	}
	return d, nil
}

func framesOf(calls []stack.Frame) []symbolize.Frame {
	frames := make([]symbolize.Frame, len(calls))
	for i := range calls {
		frames[i] = calls[i].Frame
	}
	return frames
}

func (t *taker) warn(err error) {
	if t.o.Warn != nil {
		t.o.Warn(err)
	}
}

// verify checks an assumed layout of V8 on the process while it runs.
func (t *taker) verify(ctx context.Context) {
	if t.found.Assumed == nil {
		return
	}
	v := t.found.V8
	subject := verify.Subject{Memory: t.space, Binary: v.Binary, File: v.Module.ELF, Bias: v.Module.Bias}
	assumption, err := verify.Layout(ctx, subject)
	if err != nil {
		t.found.V8 = stack.V8{Module: v.Module}
		t.warn(fmt.Errorf("V8 in %s: %w: %w: %s", v.Module.Path, t.found.Assumed, err, stack.NoJavaScript))
		return
	}
	t.warn(fmt.Errorf("V8 in %s: %w: %s", v.Module.Path, t.found.Assumed, assumption))
}

// nameThreads reads the names of the threads that are not known yet: one that has ended
// since has none.
func (t *taker) nameThreads() {
	for _, thread := range t.threads {
		if _, ok := t.names[thread.TID]; !ok {
			t.names[thread.TID] = threadName(t.process.PID(), thread.TID)
		}
	}
}

func threadName(pid, tid int) string {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
	if err != nil || len(name) == 0 {
		return ""
	}
	return string(name[:len(name)-1])
}
