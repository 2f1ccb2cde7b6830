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
	noExit  bool          // the C library's exit is wanted and not found yet
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
	s.detach(pid) // if it has a new program
	p := &probes{noExit: s.o.Exit != nil, wait: firstWait}
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
		if p.noExit {
			s.warn(fmt.Errorf("process %d has no C library with %s, so its exit is not seen", pid, exits[0]))
		}
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.probes[pid] = p
	return nil
}

// attachFunctions probes those functions that are there.
func (s *session) attachFunctions(pid int, p *probes) error {
	if p.noExit {
		if err := s.attachExit(pid, p); err != nil {
			return err
		}
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
	defer func() { err = errors.Join(err, m.Close()) }()
	code, offset := m.Code(f.Symbol)
	if code == nil {
		return false, nil
	}
	links, err := loader.AttachProbes(loader.Probes{
		Program: program, Path: m.Path(), Name: f.String(), PID: pid, Return: returns,
		Points: []loader.Point{{Offset: offset, Cookie: uint64(cookie)}},
	})
	p.links = append(p.links, links...)
	return true, err
}

// exits are what ends a process in its C library. The first that it passes
// counts: at exit all is there still, and some programs call only _exit.
var exits = []string{"exit", "_exit"}

func (s *session) attachExit(pid int, p *probes) error {
	for _, symbol := range exits {
		found, err := s.probe(pid, Function{Symbol: symbol}, 0, s.objects.OnExit, false, p)
		if err != nil {
			return err
		}
		p.noExit = p.noExit && !found
	}
	return nil
}

// attachLate looks at what was mapped since, of processes that lack a function or
// have just started. It returns how many there are.
func (s *session) attachLate() int {
	s.mutex.Lock()
	waiting := make(map[int]*probes)
	for pid, p := range s.probes {
		if len(p.pending) > 0 || p.noExit || time.Now().Before(p.settled) {
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
