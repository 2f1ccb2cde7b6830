package event

import (
	"debug/elf"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"ustack/loader"
	"ustack/symbolize/process"
	"ustack/tools/trace"
)

// A Function is a function that a file of a process defines.
type Function struct {
	Object string // path, or its last element; any file if empty
	Symbol string // as in the file's symbol table
	Return bool   // when it returns, rather than when it is entered
}

func (f Function) String() string {
	if f.Object == "" {
		return f.Symbol
	}
	return f.Object + ":" + f.Symbol
}

// A Place is somewhere in a process's code that programs are attached to.
type Place struct {
	Name string // for messages
	// Find returns the points of the place in the files that process pid has mapped; none if
	// it has mapped no such file yet.
	Find     func(t *trace.Table, pid int) ([]Site, error)
	Programs []Program // in the order in which they are attached
	Missing  error     // the warning about a process that does not have it yet; may be nil
	Repeats  bool      // other files that have it may be mapped at any time
}

// A Program runs at a Place.
type Program struct {
	*ebpf.Program
	Return bool // when the function returns
}

// A Site is the points of a Place in one file.
type Site struct {
	Module *trace.Module
	Points []loader.Point
}

// Find returns a function for Place.Find: the entries of the function, with the cookie, where a
// file of the process defines it. A C++ function may be named as it is written, without parameters:
// all its overloads are probed.
func (f Function) Find(cookie uint64) func(*trace.Table, int) ([]Site, error) {
	return func(t *trace.Table, pid int) ([]Site, error) {
		m, err := t.Object(pid, f.Object, f.Symbol)
		if err != nil {
			return nil, err
		}
		if m == nil {
			return f.overloads(t, pid, cookie), nil
		}
		code, offset := m.Code(f.Symbol)
		if code == nil {
			return nil, nil
		}
		return []Site{{m, []loader.Point{{Offset: offset, Cookie: cookie}}}}, nil
	}
}

// maxOverloads bounds the functions of one name that are probed.
const maxOverloads = 64

// overloads returns the functions whose symbols are mangled from the name, as "node::fs::Open".
func (f Function) overloads(t *trace.Table, pid int, cookie uint64) (sites []Site) {
	prefixes := mangled(f.Symbol)
	if len(prefixes) == 0 {
		return nil
	}
	for _, m := range t.Modules(pid, f.Object) {
		site := Site{Module: m}
		for s := range m.Symbols(prefixes...) {
			offset, ok := m.Offset(s.Address)
			if ok && s.Type == elf.STT_FUNC && s.Demangled() == f.Symbol && len(site.Points) < maxOverloads {
				site.Points = append(site.Points, loader.Point{Offset: offset, Cookie: cookie})
			}
		}
		if len(site.Points) > 0 {
			return append(sites, site)
		}
	}
	return nil
}

// mangled returns how the symbols of a C++ function in a namespace or class begin, also if it is
// const or static (Itanium C++ ABI, 5.1.3); none if the name is no such function's.
func mangled(name string) []string {
	parts := strings.Split(name, "::")
	last := len(parts) - 1
	if last < 1 {
		return nil
	}
	outer := ""
	for i, part := range parts {
		if !identifier.MatchString(part) {
			return nil
		}
		if i < last {
			outer += fmt.Sprintf("%d%s", len(part), part)
		}
	}
	inner := fmt.Sprintf("%d%s", len(parts[last]), parts[last])
	return []string{"_ZN" + outer + inner, "_ZNK" + outer + inner, "_ZN" + outer + "L" + inner}
}

var identifier = regexp.MustCompile(`^[A-Za-z_]\w*$`)

// Absent returns an error if process pid has mapped the function's file, but the file does not
// define the function: no later mapping will. The error says what it defines instead.
func (f Function) Absent(t *trace.Table, pid int) error {
	modules := t.Modules(pid, f.Object)
	sites, err := f.Find(0)(t, pid)
	if err != nil || len(sites) > 0 || f.Object == "" || len(modules) == 0 {
		return err
	}
	return fmt.Errorf("%s of process %d has no function %s%s", modules[0].Base(), pid, f.Symbol, f.near(modules[0]))
}

// hintBytes is how much of a symbol another one must share to be suggested.
const hintBytes = 3

// near returns the file's functions with similar names.
func (f Function) near(m *trace.Module) string {
	prefix := f.Symbol[:min(len(f.Symbol), hintBytes)]
	if all := mangled(f.Symbol); len(all) > 0 { // its namespace
		prefix = all[0][:min(len(all[0]), len("_ZN")+hintBytes)]
	}
	var names []string
	for s := range m.Symbols(prefix) {
		if s.Type == elf.STT_FUNC {
			names = append(names, s.Demangled())
		}
	}
	slices.Sort(names)
	return near(f.Symbol, slices.Compact(names))
}

// FindAny returns the entries of all functions of these names that a process has.
func FindAny(symbols []string) func(*trace.Table, int) ([]Site, error) {
	return func(t *trace.Table, pid int) (all []Site, err error) {
		for _, symbol := range symbols {
			sites, err := Function{Symbol: symbol}.Find(0)(t, pid)
			if err != nil {
				return nil, err
			}
			all = append(all, sites...)
		}
		return all, nil
	}
}

// Probes are the probes of all processes that a session traces. Its methods may be called
// concurrently.
type Probes struct {
	Table *trace.Table
	Warn  func(error)
	// Starting says that processes have not loaded anything yet when they are added, as a
	// command has not.
	Starting bool

	mutex sync.Mutex
	of    map[int]*probed // by pid
}

// probed are the probes of one process.
type probed struct {
	mutex   sync.Mutex // held after that of Probes, if both are
	closed  bool
	links   []link.Link
	pending []Place          // not found yet, or they repeat
	found   map[siteKey]bool // of those that repeat
	wait    time.Duration    // between two searches for them
	next    time.Time        // time of the next search
	settled time.Time        // when it has most of its code mapped
}

// A siteKey is a place in a file.
type siteKey struct{ place, path string }

// Intervals between searches for what is not mapped yet: a command that has
// just started loads its libraries at once; what it loads later may take
// forever.
const (
	FirstWait = 5 * time.Millisecond
	lastWait  = time.Second
	settling  = 2 * time.Second // for which a process that has just started maps code
)

// Attach attaches the programs to the places that process pid has, and warns of those that it
// does not have.
func (a *Probes) Attach(pid int, places []Place) error {
	p := &probed{pending: places, found: make(map[siteKey]bool), wait: FirstWait}
	if err := a.attach(pid, p); err != nil {
		return errors.Join(err, p.close())
	}
	if a.Starting {
		p.settled = time.Now().Add(settling)
	} else {
		for _, place := range p.pending {
			if place.Missing != nil && !p.has(place) {
				a.warn(fmt.Errorf("process %d: %w", pid, place.Missing))
			}
		}
	}
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.of == nil {
		a.of = make(map[int]*probed)
	}
	a.of[pid] = p
	return nil
}

// has reports whether a place that repeats was found.
func (p *probed) has(place Place) bool {
	for key := range p.found {
		if key.place == place.Name {
			return true
		}
	}
	return false
}

// Has reports whether process pid has been attached to and not detached from.
func (a *Probes) Has(pid int) bool {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	return a.of[pid] != nil
}

// attach attaches programs to the places that are mapped by now.
func (a *Probes) attach(pid int, p *probed) error {
	var missing []Place
	for _, place := range p.pending {
		sites, err := place.Find(a.Table, pid)
		if err != nil {
			return err
		}
		if len(sites) == 0 || place.Repeats {
			missing = append(missing, place)
		}
		for _, site := range sites {
			if err := p.attach(pid, place, site); err != nil {
				return err
			}
		}
	}
	p.pending = missing
	return nil
}

func (p *probed) attach(pid int, place Place, site Site) error {
	path, err := site.Module.Path()
	if err != nil {
		return fmt.Errorf("probe %s: %w", place.Name, err)
	}
	key := siteKey{place.Name, path}
	if p.found[key] {
		return nil
	}
	p.found[key] = place.Repeats
	for _, program := range place.Programs {
		links, err := loader.AttachProbes(loader.Probes{
			Program: program.Program, Path: path, Name: place.Name, PID: pid, Return: program.Return, Points: site.Points,
		})
		p.links = append(p.links, links...)
		if err != nil {
			return err
		}
	}
	return nil
}

// Late inspects what was mapped since the last search in processes that lack a place, have just
// started, or may get more of a place that repeats. It returns how many there are of the first two
// kinds.
func (a *Probes) Late() int {
	a.mutex.Lock()
	of := maps.Clone(a.of)
	a.mutex.Unlock()
	lacking := 0
	for pid, p := range of {
		lacks, err := a.search(pid, p)
		if err != nil && !errors.Is(err, process.ErrGone) {
			a.warn(err)
		}
		if lacks {
			lacking++
		}
	}
	return lacking
}

// search attaches to what process pid has mapped since the last search, if it is time for one. It
// reports whether the process lacks a place or has just started.
func (a *Probes) search(pid int, p *probed) (lacks bool, err error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	starts := time.Now().Before(p.settled)
	if p.closed || len(p.pending) == 0 && !starts {
		return false, nil
	}
	if !time.Now().Before(p.next) {
		p.wait = min(2*p.wait, lastWait)
		if err = a.Table.Refresh(pid); err == nil {
			err = a.attach(pid, p)
		}
		p.next = time.Now().Add(p.wait)
	}
	return p.lacks() || starts, err
}

// lacks reports whether a place was not found yet.
func (p *probed) lacks() bool {
	return slices.ContainsFunc(p.pending, func(place Place) bool { return !p.has(place) })
}

// close detaches from the process, for good.
func (p *probed) close() error {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.closed = true
	var errs []error
	for _, l := range p.links {
		errs = append(errs, l.Close())
	}
	p.links = nil
	return errors.Join(errs...)
}

// Detach detaches from process pid.
func (a *Probes) Detach(pid int) {
	a.mutex.Lock()
	p := a.of[pid]
	delete(a.of, pid)
	a.mutex.Unlock()
	if p == nil {
		return
	}
	if err := p.close(); err != nil {
		a.warn(err)
	}
}

// Close detaches from all processes.
func (a *Probes) Close() error {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	var errs []error
	for _, p := range a.of {
		errs = append(errs, p.close())
	}
	clear(a.of)
	return errors.Join(errs...)
}

func (a *Probes) warn(err error) {
	if a.Warn != nil {
		a.Warn(err)
	}
}
