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

// probes are those of one process.
type probes struct {
	links   []link.Link
	pending []int         // of the options' functions: not found yet
	places  []place       // not found yet
	wait    time.Duration // between two looks for them
	next    time.Time     // to look
	settled time.Time     // from when on it has most of its code
}

// How often is looked for what is not there yet: a command that has just started
// loads its libraries at once, what it loads later may take for ever.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = time.Second
	settling  = 2 * time.Second // that a process which has just started maps code in
)

// attach puts the probes into process pid, which the table has begun to look at.
func (s *session) attach(pid int) error {
	if s.supervisor != nil {
		if err := s.lifelines.tie(pid); err != nil {
			return err
		}
	}
	s.detach(pid) // if it has a new program
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
	} else { // a command has nothing loaded yet
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

// attachFunctions probes those functions that are there.
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

// needsCalls reports whether the beginnings of functions that return matter.
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
	m, err := s.table.Object(pid, f.Object, f.Symbol)
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

// A place is one that triggers other than Options.Functions have in a process.
type place struct {
	symbols []string // all that a process has of these are probed
	program *ebpf.Program
	missing string // the warning where a process has none
}

// exits end a process in its C library. The first that it passes counts: at exit
// everything is still there, and some programs call only _exit.
var exits = []string{"exit", "_exit"}

// throws are v8::internal::Isolate::Throw(Object, MessageLocation*), which all
// exceptions pass before anything is unwound: V8 12 and later, then before that.
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

// attachPlaces probes those places that are there.
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

// attachLate looks at what was mapped since, of processes that lack a function or
// have just started. It returns how many there are.
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
		err := s.table.Refresh(pid)
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

// end lets go of a process that has ended.
func (s *session) end(pid int) {
	s.detach(pid)
	if err := s.lifelines.cut(pid); err != nil {
		s.warn(err)
	}
}

// detachAll takes all probes out.
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
