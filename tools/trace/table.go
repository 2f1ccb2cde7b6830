package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/kallsyms"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/tools/sourcemaps"
)

// Maps are the kernel's maps that a Table writes.
type Maps struct {
	Processes *ebpf.Map      `ebpf:"processes"`   // descriptions, by pid
	Scripts   *ebpf.Map      `ebpf:"scripts"`     // scripts the kernel has announced; deleting one makes it announce that script again
	Rows      *ebpf.Map      `ebpf:"unwind_rows"` // unwind tables of all files
	Codes     *ebpf.Map      `ebpf:"codes"`       // code objects the kernel has announced; likewise
	Names     *ebpf.Map      `ebpf:"names"`       // functions the kernel has announced; likewise
	Described *ebpf.Variable `ebpf:"described"`   // changes with Processes, and when something is deleted
}

// A Table knows the traced processes. Its methods may be called concurrently.
type Table struct {
	mutex       sync.Mutex
	files       reader.Reader
	interrupt   context.Context
	maps        Maps
	targets     map[int]*target    // by pid: those described now
	owners      map[uint32]*target // by generation: all there ever were
	binaries    map[FileID]*binary
	functions   map[uint64]function
	scripts     map[scriptKey]script
	positions   positions
	texts       texts
	named       []namedFrame
	numbers     map[namedFrame]uint64
	kernel      *kallsyms.Table
	kernelErr   error
	diagnostics []error
	reported    map[string]bool // texts of diagnostics
	lines       int             // of all scripts' sources
	dropped     dropped
	described   uint32         // how often descriptions have changed
	ended       ended          // used by the goroutine that handles events
	originals   *originals     // positions in the sources that scripts were made from
	roots       []*target      // ended targets whose root directories are open
	rows        uint32         // of unwind tables in the kernel
	fresh       []*binary      // files whose unwind tables are still to be read
	reads       sync.WaitGroup // reads of those files
	sifted      sifted         // what AddV8 has found to hold no V8
	symbols     []string       // see Tool.Symbols
	running     bool           // processes that are added run, and are not to be missed
	closed      bool
}

type function struct {
	name   string
	script scriptKey
	start  int
	shared v8.Value // where its SharedFunctionInfo was
	regexp bool     // it is a regular expression: it has only a name
	// In its file, from 1; 0 if the script's source gives them, or nothing does.
	line, column int
}

// A target is one program in one process, from exec to exec or exit.
type target struct {
	process    *process.Process
	root       *os.File // its root directory; nil if it could not be opened
	user       int      // who runs it, by number; noUser if that is not known
	title      string   // for display
	inside     int      // see process.Process.Inside
	closed     bool     // process is closed and can no longer be read
	generation uint32
	exe        string    // the program's path, as the process sees it
	code       []mapping // executable, by address
	binary     *binary   // the one that holds V8; nil if none does
	bias       uint64    // of V8's addresses in the process relative to those in the binary
	err        error     // why its JavaScript has no names although binary is not nil
	natives    map[place]symbolize.Frame
	perf       perfNames
	wasm       codeFinder             // nil if V8's binary does not say where modules are
	modules    map[uint64]*wasmModule // by wasm.Code.Module
	pages      *space.Pages           // what heap reads
	heap       *v8.Heap               // what codes reads; nil until code is read, and once that has failed
	codes      *code.Finder
	functions  *v8.Heap    // reads functions of the program
	strays     []code.Code // found by searching, the newest last
	searches   int
	urls       []wasmURL         // of modules not found yet
	retries    []wasmRetry       // frames of code not found yet
	retried    time.Time         // when they were last looked up
	isolates   map[uint64]uint64 // addresses, by owner
	pauses     int               // for V8 to finish a collection
	described  time.Time         // when the mappings were last read
	patience   time.Duration     // until they may be read again

	verified      bool // its V8 is laid out as was assumed
	verifications int
}

// NewTable returns a Table without processes. Close frees what it opens.
func NewTable(maps Maps) *Table {
	t := &Table{
		interrupt: context.Background(),
		maps:      maps,
		targets:   make(map[int]*target),
		owners:    make(map[uint32]*target),
		binaries:  make(map[FileID]*binary),
		functions: make(map[uint64]function),
		scripts:   make(map[scriptKey]script),
		positions: newPositions(),
		texts:     newTexts(false),
		numbers:   make(map[namedFrame]uint64),
		reported:  make(map[string]bool),
	}
	t.originals = newOriginals(sourcemaps.Options{}, &t.files)
	return t
}

// Add starts tracing process pid. A process that was added before is described
// again: it has a new program. What keeps its JavaScript from being named is a
// warning, not an error.
func (t *Table) Add(pid int) error { return t.add(pid, nil) }

// AddV8 is Add for a process that holds V8. For any other it returns why its
// JavaScript cannot be named: an error that wraps v8.ErrNotV8 if it holds no V8.
func (t *Table) AddV8(pid int) error {
	if err := t.sift(pid); err != nil {
		return err
	}
	return t.add(pid, (*target).unfit)
}

// add adds process pid, unless reject returns a reason not to.
func (t *Table) add(pid int, reject func(*target) error) error {
	p, err := process.Open(pid)
	if err != nil {
		return err
	}
	t.preload(p, t.isRunning())
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g := &target{
		process:    p,
		title:      p.Title(),
		inside:     p.Inside(),
		generation: uint32(len(t.owners) + 1),
		natives:    make(map[place]symbolize.Frame),
		modules:    make(map[uint64]*wasmModule),
		user:       noUser,
	}
	err = t.describe(g)
	if err == nil && len(g.code) == 0 && !p.IsKernel() { // its memory is gone
		err = errors.Join(process.ErrGone, t.maps.Processes.Delete(uint32(pid)), t.changed())
	}
	if err != nil {
		return errors.Join(err, p.Close())
	}
	if reject != nil {
		if err := reject(g); err != nil {
			return errors.Join(err, t.maps.Processes.Delete(uint32(pid)), t.changed(), p.Close())
		}
	}
	if err := g.warning(); g.failed(err) {
		t.warn(err)
	}
	g.root, _ = p.Root() // nil: no script file is read once it has ended
	g.user = g.currentUser()
	t.owners[g.generation] = g
	if old := t.targets[pid]; old != nil {
		err = t.retire(old)
	}
	t.targets[pid] = g
	return err
}

// run has the processes that are added from now on traced as soon as their files' symbols are read: they
// run meanwhile. Their unwind tables are read afterwards.
func (t *Table) run() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.running = true
}

func (t *Table) isRunning() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.running
}

// Remove stops tracing pid. What was learned about it is kept.
func (t *Table) Remove(pid int) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok {
		return nil
	}
	delete(t.targets, pid)
	err := t.maps.Processes.Delete(uint32(pid))
	if errors.Is(err, ebpf.ErrKeyNotExist) { // deleted when it called exec
		err = nil
	}
	return errors.Join(err, t.changed(), t.retire(g))
}

// retire closes what is read of a target only while it lives. Its root directory
// stays open: its scripts' files are below it.
func (t *Table) retire(g *target) error {
	t.roots = append(t.roots, g)
	if len(t.roots) > maxRoots {
		t.roots[0].closeRoot()
		t.roots = t.roots[1:]
	}
	return g.close()
}

// Refresh reads process pid's mappings again: libraries may have been loaded since.
func (t *Table) Refresh(pid int) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok || !g.alive() {
		return nil
	}
	return t.describe(g)
}

// alive reports whether the target can still be read.
func (g *target) alive() bool { return !g.closed && g.process.Alive() }

// failed reports whether err is worth a warning. Nothing is that fails because the target
// ends: its memory is gone some time before alive reports false.
func (g *target) failed(err error) bool {
	return err != nil && !errors.Is(err, process.ErrGone) && g.alive()
}

func (g *target) close() error {
	g.closed = true
	return errors.Join(g.perf.close(), g.process.Close())
}

func (g *target) closeRoot() {
	if g.root != nil {
		_ = g.root.Close() // nothing was written
	}
}

// Has reports whether process pid is traced.
func (t *Table) Has(pid int) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	_, ok := t.targets[pid]
	return ok
}

// Versions returns the versions of Node.js and V8 in the first process that has
// them; both are empty if no process does.
func (t *Table) Versions() (node, v8 string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for generation := uint32(1); generation <= uint32(len(t.owners)); generation++ {
		if b := t.owners[generation].binary; b != nil && b.v8 != nil {
			return b.v8.NodeVersion, b.v8.Version.String()
		}
	}
	return "", ""
}

// An Identity says which process is which.
type Identity struct {
	PID      int
	Inside   int    // its PID in its own PID namespace; 0 if it is the same
	Title    string // as "node 4242 server.js"
	Node, V8 string // versions; empty if it has none
}

// Identities returns all processes that were ever traced. A process that has run
// several programs is returned once for each.
func (t *Table) Identities() []Identity {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var all []Identity
	for generation := uint32(1); generation <= uint32(len(t.owners)); generation++ {
		g := t.owners[generation]
		id := Identity{PID: g.process.PID(), Inside: g.inside, Title: g.title}
		if g.binary != nil && g.binary.v8 != nil {
			id.Node, id.V8 = g.binary.v8.NodeVersion, g.binary.v8.Version.String()
		}
		all = append(all, id)
	}
	return all
}

// Diagnostics returns what has kept names from being found since the last call, each
// with its remedy if there is one.
func (t *Table) Diagnostics() []error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	diagnostics := t.diagnostics
	t.diagnostics = nil
	return diagnostics
}

// Warn adds an error to those that Diagnostics returns, unless it was added before.
func (t *Table) Warn(err error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.warn(err)
}

func (t *Table) warn(err error) {
	if !t.reported[err.Error()] {
		t.reported[err.Error()] = true
		t.diagnostics = append(t.diagnostics, err)
	}
}

// unfit returns why the target's JavaScript cannot be named, nil if it can.
func (g *target) unfit() error {
	if len(g.code) == 0 { // a kernel thread
		return process.ErrGone
	}
	if g.binary == nil || g.binary.err != nil || g.err != nil {
		return g.warning()
	}
	return nil
}

// warning returns why the target's JavaScript will have no names, nil if it will.
func (g *target) warning() error {
	pid := g.process.PID()
	if g.binary != nil {
		if err := cmp.Or(g.binary.err, g.err); err != nil {
			return ofProcess(pid, fmt.Errorf("%w (only native frames are named)", err))
		}
		if missing := g.binary.v8.Missing; len(missing) > 0 {
			return fmt.Errorf("process %d: %s lacks %s", pid, g.binary.path, strings.Join(missing, ", "))
		}
		if g.binary.elf.Stripped() {
			return fmt.Errorf("process %d: %s is stripped of symbols, so some names will be missing: those of V8's builtins and internal functions", pid, g.binary.path)
		}
		return nil
	}
	for _, m := range g.code {
		if m.binary != nil && m.binary.err != nil {
			return ofProcess(pid, m.binary.err)
		}
	}
	return fmt.Errorf("process %d: %w (only native frames are named)", pid, v8.ErrNotV8)
}

// ofProcess adds to an error which process it is about, unless the error says so.
func ofProcess(pid int, err error) error {
	if errors.Is(err, process.ErrGone) {
		return err
	}
	return fmt.Errorf("process %d: %w", pid, err)
}

// Close closes all processes and files.
func (t *Table) Close() error {
	t.mutex.Lock()
	t.closed = true
	t.mutex.Unlock()
	t.reads.Wait()
	t.sifted.close()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var errs []error
	for _, g := range t.targets {
		errs = append(errs, g.close())
	}
	for _, g := range t.owners {
		g.closeRoot()
	}
	for _, b := range t.binaries {
		b.close()
	}
	return errors.Join(append(errs, t.originals.finder.Close(), t.files.Close())...)
}

// hurry makes reads of files that do not answer give up soon after ctx ends. Call it
// before any is read.
func (t *Table) hurry(ctx context.Context) {
	t.interrupt = ctx
	t.files.Hurry(ctx)
}

// Function handles a kernel record about a function.
func (t *Table) Function(raw []byte) {
	n := Decode[bpf.TraceName](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if _, known := t.functions[n.Id]; !known && len(t.functions) >= maxFunctions {
		t.dropped.functions++
		return
	}
	f := function{
		name:   text(n),
		script: scriptKey{n.Owner, n.Script},
		start:  int(n.Start),
		shared: v8.Value(n.Address),
	}
	if n.Flags&uint32(bpf.TraceNameFlagNAME_REGEXP) != 0 {
		f = function{name: regExpName(f.name, f.start), regexp: true}
	}
	t.functions[n.Id] = f
	t.found(n.Id)
}

// text returns the name in n, which the kernel has converted to UTF-8 and cut at a bound.
func text(n *bpf.TraceName) string {
	s := string(n.Text[:min(int(n.Length), len(n.Text))])
	switch {
	case n.Flags&uint32(bpf.TraceNameFlagNAME_MEMBERS) != 0:
		s = "<instance_members_initializer>"
	case n.Flags&uint32(bpf.TraceNameFlagNAME_STATIC) != 0:
		s = "<static_initializer>"
	case n.Flags&uint32(bpf.TraceNameFlagNAME_TRUNCATED) != 0:
		s += "…"
	}
	return s
}

// Decode returns the record in raw, which may end before T does: a record's
// last field is an array of which the kernel sends only the part in use. T is a
// struct that bpf2go generated: it has no pointers.
func Decode[T any](raw []byte) *T {
	record := new(T)
	DecodeTo(raw, record)
	return record
}

// DecodeTo is Decode into a record that is used again: where raw has ended, it keeps what it had.
func DecodeTo[T any](raw []byte, record *T) {
	copy(unsafe.Slice((*byte)(unsafe.Pointer(record)), unsafe.Sizeof(*record)), raw)
}
