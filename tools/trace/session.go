// Package trace is the engine of the tools that trace running processes. A Session
// loads a tool's programs, tells the kernel where each selected process's code is and
// how its V8 lays out objects, and handles what the kernel sends about stacks,
// functions and scripts; its Table turns a stack into named frames. Everything that a
// process could take with it when it dies is read when the kernel first mentions it.
// docs/new-tool.md builds a tool.
package trace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ustack/bpf"
	"ustack/loader"
	"ustack/tools/sourcemaps"
)

// Options say what a Session traces.
type Options struct {
	Selection
	Maps     sourcemaps.Options
	Texts    bool          // the Table keeps the texts of scripts: see Table.Source
	Duration time.Duration // until the context or the targets end if zero
	Warn     func(error)   // called with what keeps something from being seen; may be nil
}

// A Tool is what a Session loads into the kernel, and what it calls with what the
// kernel sends.
type Tool struct {
	Spec      *ebpf.CollectionSpec
	Objects   io.Closer      // pointer to the struct that bpf2go generated for Spec: Open fills it
	Variables map[string]any // constants of the programs, by name
	Symbols   []string       // prefixes by which the tool searches files for symbols: each file is read once for all

	Stack  func(hash uint64, s Stack)                 // called with each stack that the kernel sends
	Events map[bpf.TraceEventKind]func(record []byte) // called with the tool's own records
	// Poll is how long stacks may wait to be read; 0: the kernel wakes us for each.
	Poll time.Duration

	// Added is called for each process that is traced from now on, or that has a new
	// program; if it returns an error, the process is not traced. Ended is called when
	// a process has ended, and Missed for one that began meanwhile and has ended before it
	// could be traced. Each may be nil.
	Added  func(pid int) error
	Ended  func(pid int)
	Missed func(pid int)
}

// A Session traces the selected processes with a tool's programs.
type Session struct {
	Table *Table
	// Others are the loaded programs that have no field in the tool's objects, by name.
	Others map[string]*ebpf.Program
	misses func() (map[string]uint64, error) // see loader.Load

	o        Options
	tool     Tool
	kernel   kernel
	targets  *targets
	events   *events
	closers  []func() error // called in reverse order
	attached []func() error // called before those, in reverse order
}

// gcWhileReading is how much the heap may grow between collections, in percent, while Open
// reads files: little of what that allocates is kept, and collecting it soon costs less CPU
// time than its memory is worth.
const gcWhileReading = 60

// Open loads the tool's programs, and meanwhile reads the files of the processes that are
// selected by number, or the file that processes will probably run. Nothing runs before Listen. Once ctx ends, files that do not answer
// are given up soon.
func Open(ctx context.Context, o Options, tool Tool) (*Session, error) {
	if err := loader.Supported(); err != nil {
		return nil, err
	}
	if err := o.resolve(); err != nil {
		return nil, err
	}
	s := &Session{o: o, tool: tool, Table: NewTable(Maps{})}
	o.Maps.Content = o.Texts
	s.Table.originals, s.Table.texts = newOriginals(o.Maps, &s.Table.files), newTexts(o.Texts)
	s.Table.symbols = tool.Symbols
	s.Table.hurry(ctx)
	defer debug.SetGCPercent(debug.SetGCPercent(gcWhileReading))
	var reading sync.WaitGroup
	reading.Go(func() { s.Table.readAhead(&o.Selection) })
	err := s.load()
	reading.Wait()
	s.Defer(s.Table.Close)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	s.Table.maps = s.kernel.Maps
	s.targets = newTargets(s.Table, o.Selection)
	s.targets.Added, s.targets.Ended, s.targets.Missed, s.targets.Warn = tool.Added, tool.Ended, tool.Missed, s.Warn
	return s, nil
}

// load loads the programs, configured, into the kernel.
func (s *Session) load() error {
	namespace, err := loader.PIDNamespace()
	if err != nil {
		return err
	}
	spec := s.tool.Spec
	errs := []error{set(spec, "pid_namespace", namespace)}
	for name, value := range s.tool.Variables {
		errs = append(errs, set(spec, name, value))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	if n := len(s.o.PIDs); n > 0 && n <= fewProcesses {
		spec.Maps["unwind_rows"].MaxEntries = rowsOfFew
		spec.Maps["processes"].MaxEntries = entriesOfFew
	}
	loader.PrepareProbes(spec)
	if s.Others, s.misses, err = loader.Load(spec, s.tool.Objects); err != nil {
		return err
	}
	s.Defer(s.tool.Objects.Close)
	for _, p := range s.Others {
		s.Defer(p.Close)
	}
	return Find(s.tool.Objects, &s.kernel)
}

func set(spec *ebpf.CollectionSpec, name string, value any) error {
	v, ok := spec.Variables[name]
	if !ok {
		return fmt.Errorf("no variable %s", name)
	}
	return v.Set(value)
}

// Listen handles what the kernel sends from now on, until Flush or Close. What is
// deferred before it is undone after that has ended.
func (s *Session) Listen() error {
	s.Defer(s.targets.Close)
	var err error
	if s.events, err = listen(s.kernel.Events, s.handlers(), s.tool.Poll, s.Table); err != nil {
		return err
	}
	s.Defer(s.events.Close)
	return s.Attach(loader.RawTracepoint("sched_process_exec", s.kernel.OnExec))
}

// handlers returns what handles each kind of record.
func (s *Session) handlers() map[bpf.TraceEventKind]func([]byte) {
	all := map[bpf.TraceEventKind]func([]byte){
		bpf.TraceEventKindEVENT_FUNCTION: s.Table.Function,
		bpf.TraceEventKindEVENT_SCRIPT:   s.Table.Script,
		bpf.TraceEventKindEVENT_TEXT:     s.Table.Text,
		bpf.TraceEventKindEVENT_WASM:     s.Table.Wasm,
		bpf.TraceEventKindEVENT_CODE:     s.Table.Code,
		bpf.TraceEventKindEVENT_EXEC:     s.targets.Exec,
		bpf.TraceEventKindEVENT_STACK:    func(record []byte) { s.tool.Stack(s.Table.Stack(record)) },
	}
	for kind, handle := range s.tool.Events {
		all[kind] = handle
	}
	return all
}

// Defer has Close call f, before what was deferred earlier.
func (s *Session) Defer(f func() error) { s.closers = append(s.closers, f) }

// Attach has Detach close a link, such as loader's functions return, or returns the
// error that they returned.
func (s *Session) Attach(l link.Link, err error) error {
	if err != nil {
		return err
	}
	s.attached = append(s.attached, l.Close)
	return nil
}

// AttachCopies attaches a program and the copies that loader.Repeat made of it, if it did.
func (s *Session) AttachCopies(name string, program *ebpf.Program) error {
	err := s.Attach(loader.Trace(program))
	for number := 1; err == nil && s.Others[loader.CopyOf(name, number)] != nil; number++ {
		err = s.Attach(loader.TraceCopy(s.Others[loader.CopyOf(name, number)], number))
	}
	return err
}

// Sample runs a program at perf events until Detach. It returns the rate, which the kernel may
// limit, or 0 without a rate.
func (s *Session) Sample(program *ebpf.Program, event loader.Event, how loader.Sampling) (hz int, err error) {
	sampler, err := loader.Sample(program, event, how)
	if err != nil {
		return 0, err
	}
	s.attached = append(s.attached, sampler.Close)
	return sampler.Hz, nil
}

// Detach detaches the programs, so that their counters are final.
func (s *Session) Detach() error {
	err := undo(s.attached)
	s.attached = nil
	return err
}

// Add traces the processes that are selected and exist. A command exists, stopped
// before its first instruction until Run.
func (s *Session) Add() error { return s.targets.Add() }

// Gone is closed when the last process has ended. It never is if the selection includes
// processes that start later.
func (s *Session) Gone() <-chan struct{} { return s.targets.gone }

// A Loop is what a tool does in Run. Any of it may be left out.
type Loop struct {
	Attach  func() error // attaches programs, once the processes that exist are known
	Started func()       // called before a command starts to run

	// Tick is called from time to time, first after FirstTick. It returns the time
	// until the next call. In place of 0, both are a quarter of a second.
	Tick      func() time.Duration
	FirstTick time.Duration

	Interval time.Duration // between calls of Report; never if zero
	Report   func() error

	// Work is called as it arrives, until it returns ErrDone.
	Work <-chan func(context.Context) error
	Last func(context.Context) error // called when the last target has ended
	Stop <-chan struct{}             // Run ends when it is closed
}

// ErrDone, returned by the work of a Loop, ends Run without an error.
var ErrDone = errors.New("nothing left to wait for")

// Run traces until ctx is done, the duration is over or the last target has ended,
// then detaches. It is not an error if ctx is done.
func (s *Session) Run(ctx context.Context, l Loop) error {
	if err := s.Add(); err != nil {
		s.warnOfNew()
		return err
	}
	if l.Attach != nil {
		if err := l.Attach(); err != nil {
			return err
		}
	}
	if l.Started != nil {
		l.Started()
	}
	s.Table.run()
	if err := s.targets.Start(); err != nil {
		return err
	}
	return errors.Join(s.wait(ctx, l), s.Detach())
}

// usualTick is how often diagnostics and progress are reported.
const usualTick = 250 * time.Millisecond

func (s *Session) wait(ctx context.Context, l Loop) (err error) {
	if s.o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.o.Duration)
		defer cancel()
	}
	tick := time.NewTimer(orUsual(l.FirstTick))
	defer tick.Stop()
	var interval <-chan time.Time
	if l.Interval > 0 {
		t := time.NewTicker(l.Interval)
		defer t.Stop()
		interval = t.C
	}
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case <-l.Stop:
			return nil
		case <-s.Gone():
			return last(ctx, l)
		case work := <-l.Work:
			err = work(ctx)
		case <-interval:
			err = l.Report()
		case <-tick.C:
			s.warnOfNew()
			next := time.Duration(0)
			if l.Tick != nil {
				next = l.Tick()
			}
			tick.Reset(orUsual(next))
		}
	}
	return unlessDone(err)
}

func last(ctx context.Context, l Loop) error {
	if l.Last == nil {
		return nil
	}
	return unlessDone(l.Last(ctx))
}

func unlessDone(err error) error {
	if errors.Is(err, ErrDone) {
		return nil
	}
	return err
}

func orUsual(d time.Duration) time.Duration {
	if d == 0 {
		return usualTick
	}
	return d
}

// Flush handles what the kernel has sent so far, then stops listening.
func (s *Session) Flush() error { return s.events.Flush() }

// Missing returns an error that wraps ErrNotFound if no process was ever selected,
// nil otherwise.
func (s *Session) Missing() error { return s.targets.Missing() }

// Diagnose warns of what has kept names from being found and was not reported while the
// session ran, and of what was dropped. It is called once, when no more names are needed.
func (s *Session) Diagnose() {
	s.Table.reportDropped()
	s.warnOfNew()
	if n := s.Count(s.kernel.Unwalked); n > 0 {
		s.Warn(fmt.Errorf("%d events came while others were handled on their CPU: they were not seen", n))
	}
	misses, err := s.misses()
	if err != nil {
		s.Warn(err)
	}
	for _, program := range slices.Sorted(maps.Keys(misses)) {
		s.Warn(fmt.Errorf("%d events, of whatever process, were not seen by %s: they came on a CPU that was in the program already, for a thread that was preempted or interrupted", misses[program], program))
	}
}

// warnOfNew warns of what has kept names from being found since the last call.
func (s *Session) warnOfNew() {
	for _, err := range s.Table.Diagnostics() {
		s.Warn(err)
	}
}

// Warn passes an error on that does not end the session.
func (s *Session) Warn(err error) {
	if s.o.Warn != nil {
		s.o.Warn(err)
	}
}

// Count reads one of the programs' counters.
func (s *Session) Count(counter *ebpf.Variable) uint64 {
	var n uint64
	if err := counter.Get(&n); err != nil {
		s.Warn(fmt.Errorf("read a counter of the kernel's: %w", err))
	}
	return n
}

// Close detaches and frees everything, in reverse order. A command is left to itself; if
// Run failed before the command ran, it is killed.
func (s *Session) Close() error {
	err := errors.Join(s.Detach(), undo(s.closers))
	s.closers = nil
	return err
}

// undo calls the functions in reverse order.
func undo(functions []func() error) error {
	var errs []error
	for i := len(functions) - 1; i >= 0; i-- {
		errs = append(errs, functions[i]())
	}
	return errors.Join(errs...)
}
