// Package jscore examines a stopped Node.js process: a core, or a live process
// through a snapshot. It reports what the process's threads were doing and what is in
// its heap.
//
// Everything in a core is the process's own claim, and may be damaged: what cannot be
// read is reported, and the rest still works.
package jscore

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/release"
	"ustack/tools/core"
)

// Options say how to open a core. The zero value is useful.
type Options struct {
	Exe     string        // the program that the process ran; if empty, found by its path in the core, or in Folders
	Folders []string      // where to search for programs and libraries, by build ID, then by name
	Thread  int           // Attach: TID of the thread to list first; the main thread if 0
	MaxStop time.Duration // Attach: the process is never stopped for longer; core.DefaultMaxStop if 0
}

// A Dump is an open core with the files that its process had mapped. It is not safe
// for concurrent use.
type Dump struct {
	core    *core.File
	regions []space.Region
	modules []*module // that have code, by address; the program first
	parts   []part    // of modules, by address
	missing []Missing
	assumed *release.UnknownVersionError // why another version's V8 layout is used; nil if the layout is known
	taken   *core.Result                 // nil if an existing core was opened

	files     reader.Reader
	v8        *module // the one that holds V8; nil if none does, or it was not found
	binary    *v8.Binary
	heap      *v8.Heap
	codes     *v8.Codes
	threads   []Thread
	functions map[v8.Value]v8.Function
	classes   []v8.Class // V8's; nil until needed
	scripts   map[scriptKey]script
}

// Missing is something that the core needs and that was not found.
type Missing struct {
	What string // a file's path, or the part of V8 that is not known
	Err  error  // why, with the remedy if there is one
	Then string // what does not work without it
}

func (m Missing) String() string { return fmt.Sprintf("%s: %v: %s", m.What, m.Err, m.Then) }

// Open opens a core: the kernel's, gdb's or ours, compressed or not. A file that is not
// found, or an unknown version of V8, is not an error: see Missing. Once ctx is done,
// Open gives up files whose file systems do not answer. Close closes the dump.
func Open(ctx context.Context, path string, o Options) (*Dump, error) {
	return open(ctx, path, finder{exe: o.Exe, folders: o.Folders})
}

// Attach takes a snapshot of the process pid, which keeps running, and opens it: see
// core.Snapshot. It needs room for the process's memory in the directory for temporary
// files.
func Attach(ctx context.Context, pid int, o Options) (*Dump, error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	c, result, err := core.Snapshot(ctx, pid, core.Options{Thread: o.Thread, MaxStop: o.MaxStop})
	if err != nil {
		return nil, err
	}
	d, err := newDump(ctx, fmt.Sprintf("of process %d", pid), c, finder{exe: o.Exe, folders: o.Folders, process: p})
	if err != nil {
		return nil, err
	}
	d.taken = result
	return d, nil
}

func open(ctx context.Context, path string, f finder) (*Dump, error) {
	c, err := core.Open(path)
	if err != nil {
		return nil, err
	}
	return newDump(ctx, path, c, f)
}

// newDump returns the dump of an open core, which it closes on error.
func newDump(ctx context.Context, name string, c *core.File, f finder) (*Dump, error) {
	if c.Machine() != elf.EM_X86_64 {
		return nil, errors.Join(fmt.Errorf("open core %s: it is of %v (only x86-64 is understood)", name, c.Machine()), c.Close())
	}
	d := &Dump{core: c, functions: make(map[v8.Value]v8.Function), scripts: make(map[scriptKey]script)}
	if cut := c.Cut(); cut > 0 {
		d.lacks(name, core.ErrCutShort, fmt.Sprintf("%d bytes of memory are not known", cut))
	}
	d.files.Hurry(ctx)
	f.files = &d.files
	d.describe(f)
	for _, part := range []struct {
		what string
		find func()
		then string
	}{{"V8", d.findV8, noJS}, {"threads", d.findThreads, "no stack is understood"}} {
		if err := contained(part.what, part.find); err != nil {
			d.lacks(part.what, err, part.then)
		}
	}
	d.settle(ctx)
	return d, nil
}

// settle verifies a layout that was assumed for V8, and drops V8 if its layout differs.
func (d *Dump) settle(ctx context.Context) {
	if d.assumed == nil {
		return
	}
	what := fmt.Sprintf("V8 in %s", d.v8.path)
	if err := heap.Verify(ctx, d, d.heap, heap.Check{Name: "stacks", Holds: d.checkStacks}); err != nil {
		d.binary, d.heap, d.codes = nil, nil, nil
		d.lacks(what, fmt.Errorf("%w: %w", d.assumed, err), noJS)
		return
	}
	d.lacks(what, d.assumed, fmt.Sprintf("it is read as that of Node.js %s, which checks of the process confirm", d.binary.Release.Node))
}

// checkStacks reads the JavaScript functions on the stacks.
func (d *Dump) checkStacks() error {
	for _, t := range d.threads {
		for _, f := range d.Stack(t).Frames {
			if f.Kind == symbolize.JS && f.Trouble != nil {
				return fmt.Errorf("thread %d: %w", t.TID, f.Trouble)
			}
		}
	}
	return nil
}

// contained runs find, which reads the process's memory.
func contained(what string, find func()) (err error) {
	defer contain.Panic(&err, "find %s", what)
	find()
	return nil
}

// Close closes the core and the files.
func (d *Dump) Close() error {
	var err error
	for _, m := range d.modules {
		err = errors.Join(err, m.close())
	}
	return errors.Join(err, d.files.Close(), d.core.Close())
}

// Missing returns what was not found, and what does not work as a result.
func (d *Dump) Missing() []Missing { return d.missing }

// Taken describes the snapshot that Attach took; nil if an existing core was opened.
func (d *Dump) Taken() *core.Result { return d.taken }

// Info returns what the core says about its process as a whole.
func (d *Dump) Info() core.Info { return d.core.Info() }

// Note returns what the core was written with, such as the event that caused it; nil if
// there is nothing.
func (d *Dump) Note() []byte { return d.core.Note() }

// Binary returns what the process's V8 says about itself; nil if it was not found or is
// not known.
func (d *Dump) Binary() *v8.Binary { return d.binary }

// Heap reads the process's objects; nil if Binary is.
func (d *Dump) Heap() *v8.Heap { return d.heap }

// Bias returns V8's load address relative to the addresses in its file.
func (d *Dump) Bias() uint64 {
	if d.v8 == nil {
		return 0
	}
	return d.v8.bias
}

var errStripped = errors.New("V8's file was built or stripped without it")

const noJS = "no JavaScript is understood: native frames are named, nothing else"

// findV8 finds the file that holds V8, the program or a library.
func (d *Dump) findV8() {
	var err error
	for _, m := range d.modules {
		if m.elf == nil {
			continue
		}
		d.binary, err = d.inspect(m)
		if errors.Is(err, v8.ErrNotV8) {
			continue
		}
		d.v8 = m
		break
	}
	switch {
	case d.v8 == nil:
		d.lacks("V8", v8.ErrNotV8, noJS)
		return
	case err != nil:
		d.lacks("V8 in "+d.v8.path, err, noJS)
		return
	}
	if err := d.binary.CheckBuiltins(d, d.v8.bias); err != nil {
		d.lacks("V8's builtins", err, "interpreted functions are not found on stacks")
	}
	for _, missing := range d.binary.Missing {
		symbol, _, _ := strings.Cut(missing, " ")
		d.lacks("symbol "+symbol, errStripped, "functions of V8's own may have no name, and compiled ones no line")
	}
	if d.heap, err = v8.NewHeap(d, d.binary); err != nil {
		d.lacks("V8's heap", err, "no object is understood")
	}
	if d.codes, err = v8.NewCodes(d, d.binary, d.v8.elf, d.v8.bias); err != nil {
		d.lacks("dispatch table", err, "compiled functions have no executing line")
	}
}

// inspect returns what a file says about the V8 in it. For a version newer than all
// known ones, the newest layout is assumed: see settle.
func (d *Dump) inspect(m *module) (*v8.Binary, error) {
	b, err := v8.Inspect(m.elf)
	var unknown *release.UnknownVersionError
	if !errors.As(err, &unknown) || unknown.Assumed == nil {
		return b, err
	}
	if b, err = v8.InspectAs(m.elf, unknown.Assumed); err != nil {
		return nil, fmt.Errorf("%w: %w", unknown, err)
	}
	d.assumed = unknown
	return b, nil
}

func (d *Dump) lacks(what string, err error, then string) {
	d.missing = append(d.missing, Missing{what, err, then})
}
