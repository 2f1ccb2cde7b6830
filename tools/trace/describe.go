package trace

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"time"

	"ustack/bpf"
	"ustack/symbolize/contain"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/unwind"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/symbolize/v8/wasm"
)

// A binary is one mapped ELF file. It stays open as long as the Table: its names
// outlive the processes that mapped it.
type binary struct {
	path    string
	file    io.ReaderAt
	symbols []string // see Tool.Symbols
	elf     *elfsym.File
	vtables []elfsym.Symbol              // by address, once one was needed
	v8      *v8.Binary                   // nil where it holds no V8 whose layout is known
	assumed *release.UnknownVersionError // not nil: v8 has the newest known layout, to be verified
	err     error                        // why elf or v8 is nil, if worth reporting

	rules *unwind.Rules // how to unwind its code; without rows once the kernel has them
	rows  rowRange      // in the kernel
}

// A FileID identifies a file, whatever its path. It is that of no other file while the Table is open.
type FileID struct {
	device, inode uint64
}

// A mapping is one range of a process's address space, with the file it maps.
type mapping struct {
	process.Mapping
	binary *binary // nil for anonymous memory
}

// ofFile returns what m maps of its file.
func (m *mapping) ofFile() space.Mapping {
	return space.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: m.Path}
}

// maxBinaries bounds the files open at one time. A busy machine runs a few
// hundred programs and libraries.
const maxBinaries = 1 << 10

// preload opens the files whose code p runs and that are not open yet. The table
// is not locked meanwhile, since this may take long. If p runs meanwhile, describe will have
// the unwind tables read.
func (t *Table) preload(p *process.Process, runs bool) {
	all, err := p.Maps()
	if err != nil {
		return // describe will report it
	}
	for _, m := range all {
		if !hasCode(m) {
			continue
		}
		t.mutex.Lock()
		_, known := t.binaries[fileOf(m)]
		t.mutex.Unlock()
		if !known {
			t.preloadBinary(m, t.openBinary(p, m), runs)
		}
	}
}

// preloadBinary is preload for one file, which is open.
func (t *Table) preloadBinary(m process.Mapping, b *binary, runs bool) {
	b.parse()
	keep := t.keepFresh
	if !runs {
		b.rules = b.unwindRules()
		keep = t.keep
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	keep(m, b)
}

// readAhead reads the files whose code the processes of a selection run, as far as they are known before
// any of them is traced.
func (t *Table) readAhead(s *Selection) {
	for _, pid := range s.PIDs {
		p, err := process.Open(pid)
		if err != nil {
			continue // Add will report it
		}
		t.preload(p, false)
		_ = p.Close() // nothing was written
	}
	if path := lookPath(s.program()); path != "" {
		t.preloadFile(path)
	}
}

// preloadFile reads the file that processes will probably run.
func (t *Table) preloadFile(path string) {
	f, err := t.files.Open(path)
	if err != nil {
		return // nothing runs it yet
	}
	device, inode, ok := f.Identity()
	if !ok {
		_ = f.Close() // it was not read
		return
	}
	b := &binary{path: path, file: f, symbols: t.symbols}
	t.preloadBinary(process.Mapping{Path: path, Dev: device, Inode: inode}, b, false)
}

// maxLookPath is how long file systems have to find a program.
const maxLookPath = time.Second

// lookPath finds a program as a shell does; it returns an empty path if that fails or takes too long.
func lookPath(program string) string {
	if program == "" {
		return ""
	}
	found := make(chan string, 1)
	go func() {
		path, err := exec.LookPath(program)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			path = ""
		}
		found <- path
	}()
	select {
	case path := <-found:
		return path
	case <-time.After(maxLookPath):
		return ""
	}
}

// load returns the file of m, and reads it if it is among those just opened.
func (t *Table) load(m process.Mapping, opened map[FileID]*binary) *binary {
	if b, ok := t.binaries[fileOf(m)]; ok {
		return b
	}
	b := opened[fileOf(m)]
	b.parse()
	t.keepFresh(m, b)
	return b
}

// readFresh reads the unwind tables of the files loaded last, in the background:
// names are waited for, and the process may end soon. Then it describes the
// process again.
func (t *Table) readFresh(p *target) {
	fresh := t.fresh
	t.fresh = nil
	if len(fresh) == 0 {
		return
	}
	t.reads.Go(func() {
		for _, b := range fresh {
			rules := b.unwindRules()
			t.mutex.Lock()
			b.rules = rules
			t.mutex.Unlock()
		}
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if t.closed || !p.alive() {
			return
		}
		if err := t.describe(p); p.failed(err) {
			t.warn(err)
		}
	})
}

// openAll opens the code files among the mappings that are not known yet. It opens
// all of them before any is read: reading may take longer than the process lives.
func (t *Table) openAll(p *process.Process, all []process.Mapping) map[FileID]*binary {
	opened := make(map[FileID]*binary)
	for _, m := range all {
		id := fileOf(m)
		if _, known := t.binaries[id]; !known && opened[id] == nil && hasCode(m) {
			opened[id] = t.openBinary(p, m)
		}
	}
	return opened
}

// hasCode reports whether m maps code of a file, or the kernel's own.
func hasCode(m process.Mapping) bool { return m.Perms.Exec() && (m.File() || m.Path == space.VDSO) }

func fileOf(m process.Mapping) FileID { return FileID{m.Dev, m.Inode} }

// openBinary opens the file of m.
func (t *Table) openBinary(p *process.Process, m process.Mapping) *binary {
	b := &binary{path: m.Path, symbols: t.symbols}
	b.file, b.err = t.open(p, m)
	return b
}

// parse reads the names of an open file.
func (b *binary) parse() {
	if b.err == nil {
		b.err = b.read()
	}
}

// keep records b as the file of m, unless b says nothing about the file or m has one.
func (t *Table) keep(m process.Mapping, b *binary) {
	_, known := t.binaries[fileOf(m)]
	switch {
	case known || errors.Is(b.err, process.ErrGone): // another process may have the file mapped
		b.close()
		return
	case len(t.binaries) >= maxBinaries:
		b.close()
		*b = binary{path: b.path, err: fmt.Errorf("%s: more than %d files run code, and no more are read", b.path, maxBinaries)}
		t.warn(b.err)
		return
	case errors.Is(b.err, reader.ErrUnresponsive):
		t.warn(b.err)
	case b.elf != nil && b.elf.Partial() != nil:
		t.warn(fmt.Errorf("%s: %w (some of its functions have no names)", m.Path, b.elf.Partial()))
	}
	t.binaries[fileOf(m)] = b
}

// keepFresh is keep for a file whose unwind table readFresh is to read.
func (t *Table) keepFresh(m process.Mapping, b *binary) {
	if t.keep(m, b); t.binaries[fileOf(m)] == b {
		t.fresh = append(t.fresh, b)
	}
}

// close closes the file.
func (b *binary) close() {
	if c, ok := b.file.(io.Closer); ok {
		_ = c.Close() // it was only read
	}
}

// read reads the symbols of the binary's file and what it says of V8, if it has any.
func (b *binary) read() (err error) {
	defer contain.Panic(&err, "read %s", b.path)
	if b.elf, err = elfsym.Open(b.file); err != nil {
		return fmt.Errorf("read symbols of %s: %w", b.path, err)
	}
	b.elf.Expect(b.symbols...)
	b.v8, b.assumed, err = inspect(b.elf)
	if err != nil && !errors.Is(err, v8.ErrNotV8) {
		return fmt.Errorf("%s: %w", b.path, err)
	}
	return nil
}

// mappings returns the executable mappings of p by address, and all of them.
func (t *Table) mappings(p *process.Process) (code []mapping, all []process.Mapping, err error) {
	all, err = p.Maps()
	if err != nil {
		return nil, nil, err
	}
	opened := t.openAll(p, all)
	for _, m := range all {
		if !m.Perms.Exec() {
			continue
		}
		c := mapping{Mapping: m}
		if hasCode(m) {
			c.binary = t.load(m, opened)
			t.giveRows(c.binary)
		}
		code = append(code, c)
	}
	return code, all, nil
}

// describe tells the kernel where p's code is and how its V8 lays out objects.
func (t *Table) describe(p *target) error {
	code, all, err := t.mappings(p.process)
	if err != nil {
		return err
	}
	p.code = code
	if exe, err := p.process.Exe(); err == nil { // else it is exiting, and may have been read before
		p.exe = exe
	}
	p.described = time.Now()
	d := bpf.TraceProcess{Generation: p.generation, Serial: t.serial()}
	for _, m := range code {
		if m.binary != nil && m.binary.v8 != nil {
			p.binary = m.binary
			break
		}
	}
	if p.binary != nil {
		p.bias = p.biasOf()
		t.describeV8(&d, p)
	}
	ranges := p.ranges(all)
	if len(ranges) > len(d.Ranges) {
		t.warn(fmt.Errorf("process %d has %d ranges of code, of which %d are known to the kernel", p.process.PID(), len(ranges), len(d.Ranges)))
		ranges = ranges[:len(d.Ranges)]
	}
	d.RangeCount = uint32(copy(d.Ranges[:], ranges))
	t.readFresh(p)
	err = t.maps.Processes.Put(uint32(p.process.PID()), &d)
	if err != nil {
		return fmt.Errorf("tell the kernel about process %d: %w (at most %d processes)", p.process.PID(), err, t.maps.Processes.MaxEntries())
	}
	return t.changed()
}

// changed makes the kernel look up again what it caches about processes.
func (t *Table) changed() error {
	if err := t.maps.Described.Set(t.serial()); err != nil {
		return fmt.Errorf("tell the kernel about a change: %w", err)
	}
	return nil
}

// serial returns a number that it has not returned before; never 0.
func (t *Table) serial() uint32 {
	t.described++
	return t.described
}

// describeV8 describes the V8 in p if its layout is known.
func (t *Table) describeV8(d *bpf.TraceProcess, p *target) {
	ready, err := t.verify(p)
	if ready {
		err = describeV8(d, p)
	}
	p.err = err
	if err != nil && p.binary.assumed != nil {
		t.warn(p.warning())
	}
}

// describeV8 fills in what the kernel needs to know about the V8 in p.
func describeV8(d *bpf.TraceProcess, p *target) error {
	b := p.binary.v8
	if err := b.CheckBuiltins(p.process, p.bias); err != nil {
		return fmt.Errorf("find V8's builtins: %w", err)
	}
	tls, err := b.TLSIsolate(p.process, p.bias)
	if err != nil {
		return fmt.Errorf("find the isolates: %w", err)
	}
	base, err := b.DispatchBase(p.process, p.bias)
	if err != nil {
		return fmt.Errorf("find the dispatch table: %w", err)
	}
	d.TlsIsolate, d.TlsModule, d.DispatchBase = tls.Offset, tls.Module, base
	d.Layout = layout(&b.Layout)
	if p.wasm == nil {
		if r := wasm.NewReader(p.process, b, p.bias); r != nil {
			p.wasm = r
		}
	}
	d.HasV8 = 1
	return nil
}

// The low bits of a range's end hold its kind.
const (
	rangeAddon = bpf.TraceCode(bpf.TraceRangeBitRANGE_ADDON)
	rangeBits  = uint64(bpf.TraceRangeBitRANGE_BITS)
)

// probesReturn is the mapping of the kernel's own code that functions return to while a
// probe awaits their return.
const probesReturn = "[uprobes]"

// addon is the extension of add-ons' files.
const addon = ".node"

// ranges returns the ranges of p's code for the kernel: sorted, not overlapping,
// with adjacent ranges of one kind merged.
func (p *target) ranges(all []process.Mapping) []bpf.TraceRange {
	var ranges []bpf.TraceRange
	add := func(start, end uint64, code bpf.TraceCode) {
		if start >= end {
			return
		}
		last := len(ranges) - 1
		if last >= 0 && ranges[last].End == start|uint64(code) && ranges[last].RowCount == 0 {
			ranges[last].End = end | uint64(code)
			return
		}
		ranges = append(ranges, bpf.TraceRange{Start: start, End: end | uint64(code)})
	}
	addWithRows := func(m mapping, code bpf.TraceCode) {
		bias, ok := uint64(0), false
		if m.binary != nil && m.binary.rows.count > 0 {
			bias, ok = m.binary.elf.Bias(m.Start, m.Offset, m.End-m.Start)
		}
		if !ok {
			add(m.Start, m.End, code)
			return
		}
		ranges = append(ranges, bpf.TraceRange{Start: m.Start, End: m.End | uint64(code)})
		m.binary.setRows(&ranges[len(ranges)-1], bias)
	}
	addFramed := func(m mapping, start, end uint64) {
		if start < end {
			whole := bpf.TraceRange{Start: start, End: end | uint64(bpf.TraceCodeCODE_NATIVE)}
			ranges = append(ranges, m.binary.framed(whole, p.bias)...)
		}
	}
	for _, m := range p.code {
		switch {
		case m.Path == probesReturn: // the kernel half finds out where to
		case m.Anonymous():
			if start, end := reservation(all, m.Mapping); len(ranges) == 0 || end > ranges[len(ranges)-1].End {
				add(start, end, bpf.TraceCodeCODE_JIT)
			}
		case m.binary != nil && m.binary == p.binary:
			start, end := m.part(m.binary.v8.Builtins())
			addFramed(m, m.Start, start)
			add(start, end, bpf.TraceCodeCODE_BUILTIN)
			addFramed(m, end, m.End)
		case path.Ext(m.Path) == addon:
			addWithRows(m, bpf.TraceCodeCODE_NATIVE|rangeAddon)
		default:
			addWithRows(m, bpf.TraceCodeCODE_NATIVE)
		}
	}
	slices.SortFunc(ranges, func(a, b bpf.TraceRange) int { return cmp.Compare(a.Start, b.Start) })
	return ranges
}

// part returns where m maps so many bytes at an offset of its file, without the bits of
// ranges: V8's builtins begin at such an address, after what may be the last instruction of
// another function. Start is end if m maps none of them.
func (m mapping) part(offset, size uint64) (start, end uint64) {
	end = clamp(m, offset+size) &^ rangeBits
	return min((clamp(m, offset)+rangeBits)&^rangeBits, end), end
}

// clamp returns where m maps the byte at offset, or m's nearer end.
func clamp(m mapping, offset uint64) uint64 {
	if offset <= m.Offset {
		return m.Start
	}
	return min(m.End, m.Start+offset-m.Offset)
}

// reservation returns the run of anonymous mappings without gaps around m:
// V8 reserves its code space as one and changes the protection of its pages.
func reservation(all []process.Mapping, m process.Mapping) (start, end uint64) {
	at, _ := slices.BinarySearchFunc(all, m.Start, func(m process.Mapping, a uint64) int { return cmp.Compare(m.Start, a) })
	first, last := at, at
	for first > 0 && all[first-1].Anonymous() && all[first-1].End == all[first].Start {
		first--
	}
	for last+1 < len(all) && all[last+1].Anonymous() && all[last].End == all[last+1].Start {
		last++
	}
	return all[first].Start, all[last].End
}

// open opens the file behind m, or reads the vdso's image from memory.
func (t *Table) open(p *process.Process, m process.Mapping) (io.ReaderAt, error) {
	if m.Path != space.VDSO {
		return t.files.Mapped(p, m)
	}
	image, err := space.ReadVDSO(space.Live{Process: p}, m.Start, m.End)
	if err != nil {
		return nil, err
	}
	return bytes.NewReader(image), nil
}

// biasOf returns the bias of V8's addresses in p relative to those in its file.
func (p *target) biasOf() uint64 {
	var of []space.Mapping
	for _, m := range p.code {
		if m.binary == p.binary {
			of = append(of, m.ofFile())
		}
	}
	return space.Bias(p.binary.elf, of)
}
