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
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/symbolize/contain"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/variables"
	"ustack/symbolize/v8/verify"
	"ustack/tools/core"
	"ustack/tools/sourcemaps"
)

// Options say how to open a core. The zero value is useful.
type Options struct {
	Exe     string             // the program that the process ran; if empty, found by its path in the core, or in Folders
	Root    string             // Open: the folder below which the process's files are, such as a container's; "/" if empty
	Folders []string           // where to search for programs and libraries, by build ID, then by name
	Thread  int                // Attach: TID of the thread to list first; the main thread if 0
	Maps    sourcemaps.Options // those that are files are read from its folder only, unless the process's root is known
	MaxStop time.Duration      // Attach: the process is never stopped for longer; core.DefaultMaxStop if 0

	Progress func(done, total uint64) // called while a compressed core is unpacked, with bytes of it; may be nil
}

// A Dump is an open core with the files that its process had mapped. It is not safe
// for concurrent use.
type Dump struct {
	*space.Space
	*stack.Unwinder

	core    *core.File
	files   reader.Reader
	v8      stack.V8 // as the Unwinder has it
	missing []Missing
	assumed *release.UnknownVersionError // why another version's V8 layout is used; nil if the layout is known
	taken   *core.Result                 // nil if an existing core was opened
	classes []v8.Class                   // V8's; nil until needed
	maps    *sourcemaps.Finder
	root    *os.File // the process's root directory; nil if it is not known, as of most cores
	warned  []error  // about source maps

	selected  *stack.Isolate    // that alone is reported on; nil: all
	variables *variables.Reader // nil until needed
}

// Missing is something that the core needs and that was not found.
type Missing = stack.Missing

// Open opens a core: the kernel's, gdb's or ours, compressed as systemd-coredump does or not. A file that is not
// found, or an unknown version of V8, is not an error: see Missing. Once ctx is done,
// Open gives up files whose file systems do not answer. Close closes the dump.
func Open(ctx context.Context, path string, o Options) (*Dump, error) {
	c, err := core.Open(ctx, path, core.OpenOptions{Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	root, err := openRoot(o.Root)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	d, err := newDump(ctx, path, c, space.Finder{Exe: o.Exe, Folders: o.Folders, Root: root})
	if err != nil {
		if root != nil {
			err = errors.Join(err, root.Close())
		}
		return nil, err
	}
	d.root = root
	d.useMaps(o.Maps)
	return d, nil
}

// openRoot opens a root folder; nil for the one of this process, below which a core is not trusted
// to name source maps.
func openRoot(path string) (*os.File, error) {
	if path == "" {
		return nil, nil
	}
	root, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open the root folder of the process: %w", err)
	}
	return root, nil
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
	d, err := newDump(ctx, fmt.Sprintf("of process %d", pid), c, space.Finder{Exe: o.Exe, Folders: o.Folders, Process: p})
	if err != nil {
		return nil, err
	}
	d.taken = result
	d.root, _ = p.Root() // nil: no source map that is a file is read
	d.useMaps(o.Maps)
	return d, nil
}

// newDump returns the dump of an open core, which it closes on error.
func newDump(ctx context.Context, name string, c *core.File, f space.Finder) (*Dump, error) {
	if !stack.Supports(c.Machine()) {
		return nil, errors.Join(fmt.Errorf("open core %s: it is of %v (only x86-64 and arm64 are understood)", name, c.Machine()), c.Close())
	}
	d := &Dump{core: c}
	if damage := c.Damage(); damage != nil {
		d.lacks(name, damage, "what follows in it is not known, and what is before may be wrong")
	}
	if cut := c.Cut(); cut > 0 {
		d.lacks(name, core.ErrCutShort, fmt.Sprintf("%d bytes of memory are not known", cut))
	}
	d.files.Hurry(ctx)
	f.Files = &d.files
	d.Space = space.New(c, layoutOf(c), f)
	for _, m := range d.Modules() {
		if m.ELF != nil && m.ELF.Partial() != nil {
			d.lacks(m.Path, m.ELF.Partial(), "some of its functions have no names")
		}
		if m.Err != nil && !m.IsData() {
			d.lacks(m.Path, m.Err, "its code has no names, and frames that it left no pointer for are not found")
		}
	}
	d.doubtFiles()
	d.Unwinder = stack.New(d.Space, d.v8)
	for _, part := range []struct {
		what string
		find func()
		then string
	}{{"V8", d.findV8, stack.NoJavaScript}, {"threads", d.findThreads, "no stack is understood"}} {
		if err := contained(part.what, part.find); err != nil {
			d.lacks(part.what, err, part.then)
		}
	}
	d.settle(ctx)
	return d, nil
}

// doubtFiles reports files that may be of another build than the process ran.
func (d *Dump) doubtFiles() {
	var paths []string
	for _, m := range d.Modules() {
		if m.IsUnverified() {
			paths = append(paths, m.Path)
		}
	}
	if len(paths) == 0 {
		return
	}
	what := paths[0]
	if more := len(paths) - 1; more > 0 {
		what = fmt.Sprintf("%s and %d more files", what, more)
	}
	d.lacks(what, errNoBuildID, "names and values are wrong if they are not the files that the process ran")
}

var errNoBuildID = errors.New("the core does not have the build ID, so the files were found by their paths")

// layoutOf returns what a core says about the process's memory.
func layoutOf(c *core.File) space.Layout {
	l := space.Layout{Mappings: c.Mappings(), Auxv: c.Auxv()}
	for _, r := range c.Regions() {
		l.Regions = append(l.Regions, space.Region{Start: r.Start, End: r.End, Write: r.Perms&elf.PF_W != 0, Exec: r.Perms&elf.PF_X != 0})
	}
	return l
}

// findThreads reads the threads' registers and isolates.
func (d *Dump) findThreads() {
	d.Unwinder = stack.New(d.Space, d.v8)
	var threads []stack.Thread
	for _, t := range d.core.Threads() {
		sets := stack.Regsets{General: t.General, TLS: t.TLS, PACMask: t.PACMask}
		threads = append(threads, stack.Thread{TID: t.TID, Registers: stack.ReadRegisters(d.core.Machine(), sets)})
	}
	if err := d.SetThreads(threads); err != nil {
		d.lacks("isolates", err, "no thread is known to run JavaScript but where it does at the moment")
	}
}

// settle verifies a layout that was assumed for V8, and drops V8 if its layout differs.
func (d *Dump) settle(ctx context.Context) {
	if d.assumed == nil {
		return
	}
	what := fmt.Sprintf("V8 in %s", d.v8.Module.Path)
	subject := verify.Subject{Memory: d, Binary: d.v8.Binary, File: d.v8.Module.ELF, Bias: d.v8.Module.Bias}
	assumption, err := verify.Layout(ctx, subject, verify.Check{Name: "stacks", Holds: d.checkStacks})
	if err != nil {
		d.v8 = stack.V8{Module: d.v8.Module}
		d.findThreads()
		d.lacks(what, fmt.Errorf("%w: %w", d.assumed, err), stack.NoJavaScript)
		return
	}
	d.lacks(what, d.assumed, assumption)
}

// checkStacks reads the JavaScript functions on the stacks.
func (d *Dump) checkStacks() error {
	for _, t := range d.Threads() {
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
	var errs []error
	if d.root != nil {
		errs = append(errs, d.root.Close())
	}
	if d.maps != nil {
		errs = append(errs, d.maps.Close())
	}
	return errors.Join(append(errs, d.Space.Close(), d.files.Close(), d.core.Close())...)
}

// useMaps has frames named by source maps.
func (d *Dump) useMaps(o sourcemaps.Options) {
	d.maps = sourcemaps.New(o, &d.files)
	d.UseMaps(func(name, url string) *sourcemap.Map {
		m, err := d.maps.Find(sourcemaps.Script{Name: name, URL: url, Root: d.root})
		if err != nil && d.maps.Reports(err) {
			d.warned = append(d.warned, err)
		}
		return m
	})
}

// Warnings returns what has kept source maps from being used since the last call. A nil
// Dump has none.
func (d *Dump) Warnings() []error {
	if d == nil {
		return nil
	}
	warned := d.warned
	d.warned = nil
	return warned
}

// Missing returns what was not found, and what does not work as a result.
func (d *Dump) Missing() []Missing { return d.missing }

// Taken describes the snapshot that Attach took; nil if an existing core was opened.
func (d *Dump) Taken() *core.Result { return d.taken }

// Info returns what the core says about its process as a whole.
func (d *Dump) Info() core.Info { return d.core.Info() }

// Heap reads the process's objects; nil if V8 was not found or is not known.
func (d *Dump) Heap() *v8.Heap { return d.v8.Heap }

// findV8 finds V8 among the modules.
func (d *Dump) findV8() {
	found := stack.Find(d.Space)
	d.v8, d.assumed = found.V8, found.Assumed
	for _, m := range found.Missing {
		d.lacks(m.What, m.Err, m.Then)
	}
}

func (d *Dump) lacks(what string, err error, then string) {
	d.missing = append(d.missing, Missing{What: what, Err: err, Then: then})
}
