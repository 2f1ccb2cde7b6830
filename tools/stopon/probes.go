package stopon

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ustack/loader"
	"ustack/symbolize/process"
)

// probes are the probes of one process.
type probes struct {
	links   []link.Link
	pending []int         // of the options' functions: not found yet
	places  []place       // not found yet
	wait    time.Duration // between two searches for them
	next    time.Time     // time of the next search
	settled time.Time     // when it has most of its code mapped
}

// Intervals between searches for what is not mapped yet: a command that has
// just started loads its libraries at once; what it loads later may take
// forever.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = time.Second
	settling  = 2 * time.Second // for which a process that has just started maps code
)

// attach attaches the probes to process pid, which the table has just started
// to trace.
func (s *session) attach(pid int) error {
	if s.supervisor != nil {
		if err := s.lifelines.tie(pid); err != nil {
			return err
		}
	}
	s.detach(pid) // in case it runs a new program
	s.learn(pid)
	if err := s.expectStart(pid); err != nil {
		return err
	}
	p := &probes{places: s.places(), wait: firstWait}
	for i := range s.o.Functions {
		p.pending = append(p.pending, i)
	}
	if err := s.attachFunctions(pid, p); err != nil {
		return errors.Join(err, p.close())
	}
	if len(s.o.Command) > 0 {
		p.settled = time.Now().Add(settling)
	} else { // a command has not loaded anything yet
		for _, i := range p.pending {
			s.warn(fmt.Errorf("process %d has no %s yet: waiting for it to be loaded", pid, s.o.Functions[i]))
		}
		for _, place := range p.places {
			s.warn(fmt.Errorf("process %d: %s", pid, place.missing))
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.probes[pid] = p
	return nil
}

// attachFunctions attaches probes to the functions that are mapped.
func (s *session) attachFunctions(pid int, p *probes) error {
	if err := s.attachPlaces(pid, p); err != nil {
		return err
	}
	var missing []int
	for _, i := range p.pending {
		found, err := s.attachFunction(pid, i, p)
		if err != nil {
			return err
		}
		if !found {
			missing = append(missing, i)
		}
	}
	p.pending = missing
	return nil
}

func (s *session) attachFunction(pid, i int, p *probes) (found bool, err error) {
	f := s.o.Functions[i]
	if !f.Return {
		return s.probe(pid, f, i, s.objects.OnEntry, false, p)
	}
	if s.o.needsCalls() {
		found, err = s.probe(pid, f, i, s.objects.OnCall, false, p)
		if err != nil || !found {
			return found, err
		}
	}
	return s.probe(pid, f, i, s.objects.OnReturn, true, p)
}

// needsCalls reports whether the entries of functions that return matter.
func (o *Options) needsCalls() bool {
	if o.Slower > 0 {
		return true
	}
	for _, c := range o.Conditions {
		if c.Of < OfResult {
			return true
		}
	}
	return false
}

func (s *session) probe(pid int, f Function, cookie int, program *ebpf.Program, returns bool, p *probes) (found bool, err error) {
	m, err := s.Table.Object(pid, f.Object, f.Symbol)
	if err != nil || m == nil {
		return false, err
	}
	code, offset := m.Code(f.Symbol)
	if code == nil {
		return false, nil
	}
	path, err := m.Path()
	if err != nil {
		return false, fmt.Errorf("probe %v: %w", f, err)
	}
	links, err := loader.AttachProbes(loader.Probes{
		Program: program, Path: path, Name: f.String(), PID: pid, Return: returns,
		Points: []loader.Point{{Offset: offset, Cookie: uint64(cookie)}},
	})
	p.links = append(p.links, links...)
	return true, err
}

// A place is where a trigger other than Options.Functions is probed in a
// process.
type place struct {
	symbols []string // every one of these that a process has is probed
	program *ebpf.Program
	missing string // the warning if a process has none of them
}

// exits are the functions of the C library that end a process. The first one
// called counts: at exit everything still exists, and some programs call only
// _exit.
var exits = []string{"exit", "_exit"}

// throws are v8::internal::Isolate::Throw(Object, MessageLocation*), which
// every exception passes through before anything is unwound: as named in V8 12
// and later, then in older versions.
var throws = []string{
	"_ZN2v88internal7Isolate5ThrowENS0_6TaggedINS0_6ObjectEEEPNS0_15MessageLocationE",
	"_ZN2v88internal7Isolate13ThrowInternalENS0_6ObjectEPNS0_15MessageLocationE",
}

// uncaught is node::errors::TriggerUncaughtException(Isolate*, Local<Value>,
// Local<Message>, bool), which runs before any handler of uncaughtException.
var uncaught = []string{
	"_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateENS1_5LocalINS1_5ValueEEENS4_INS1_7MessageEEEb",
}

// places returns the places that the options need.
func (s *session) places() (all []place) {
	if s.o.Exit != nil {
		all = append(all, place{exits, s.objects.OnExit, "no C library with exit, so its exit is not seen"})
	}
	if s.o.throws() {
		all = append(all, place{
			throws, s.objects.OnThrow,
			"the symbol of V8's Isolate::Throw is missing, so throws are not seen (is its node stripped?)",
		})
	}
	if s.o.Uncaught {
		all = append(all, place{
			uncaught, s.objects.OnUncaught,
			"the symbol of Node.js's TriggerUncaughtException is missing, so uncaught exceptions are not seen (is its node stripped?)",
		})
	}
	return all
}

// attachPlaces attaches probes to the places that are mapped.
func (s *session) attachPlaces(pid int, p *probes) error {
	var missing []place
	for _, place := range p.places {
		any := false
		for _, symbol := range place.symbols {
			found, err := s.probe(pid, Function{Symbol: symbol}, 0, place.program, false, p)
			if err != nil {
				return err
			}
			any = any || found
		}
		if !any {
			missing = append(missing, place)
		}
	}
	p.places = missing
	return nil
}

// attachLate inspects what was mapped since the last search in processes that
// lack a function or have just started. It returns how many such processes
// there are.
func (s *session) attachLate() int {
	s.mutex.Lock()
	waiting := make(map[int]*probes)
	for pid, p := range s.probes {
		if len(p.pending) > 0 || len(p.places) > 0 || time.Now().Before(p.settled) {
			waiting[pid] = p
		}
	}
	s.mutex.Unlock()
	for pid, p := range waiting {
		if time.Now().Before(p.next) {
			continue
		}
		err := s.Table.Refresh(pid)
		p.wait = min(2*p.wait, lastWait)
		p.next = time.Now().Add(p.wait)
		if err == nil {
			err = s.attachFunctions(pid, p)
		}
		if err != nil && !errors.Is(err, process.ErrGone) {
			s.warn(err)
		}
	}
	return len(waiting)
}

func (p *probes) close() error {
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.links = nil
	return errors.Join(errs...)
}

func (s *session) detach(pid int) {
	s.mutex.Lock()
	p := s.probes[pid]
	delete(s.probes, pid)
	s.mutex.Unlock()
	if p == nil {
		return
	}
	if err := p.close(); err != nil {
		s.warn(err)
	}
}

// end releases everything held for a process that has ended.
func (s *session) end(pid int) {
	s.detach(pid)
	if err := s.lifelines.cut(pid); err != nil {
		s.warn(err)
	}
}

// detachAll detaches all probes.
func (s *session) detachAll() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var errs []error
	for _, p := range s.probes {
		errs = append(errs, p.close())
	}
	clear(s.probes)
	return errors.Join(errs...)
}
