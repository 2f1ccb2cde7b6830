package ustack

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"time"

	"ustack/bpf"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/unwind"
	"ustack/symbolize/v8"
)

// A binary is one mapped ELF file, open for as long as the Table is: its names
// outlive the processes that mapped it.
type binary struct {
	path     string
	file     io.ReaderAt
	elf      *elfsym.File
	unwind   *unwind.Table   // once it was asked for
	noUnwind bool            // it cannot be read
	vtables  []elfsym.Symbol // by address, once one was asked for
	v8       *v8.Binary      // nil where it holds no V8 whose layout is known
	err      error           // why elf or v8 is nil where that is worth saying
}

// fileID is what tells one file from another, whatever its path.
type fileID struct {
	device, inode uint64
}

// A mapping is one range of a process's address space, with the file it maps.
type mapping struct {
	process.Mapping
	binary *binary // nil for anonymous memory
}

// load opens the file of m, or returns it if it is open already.
func (t *Table) load(p *process.Process, m process.Mapping) *binary {
	id := fileID{m.Dev, m.Inode}
	if b, ok := t.binaries[id]; ok {
		return b
	}
	b := &binary{path: m.Path}
	file, err := openMapped(p, m)
	if errors.Is(err, process.ErrGone) { // which says nothing of the file: another process may have it
		b.err = err
		return b
	}
	t.binaries[id] = b
	if err != nil {
		b.err = err
		return b
	}
	b.file = file
	if b.elf, err = elfsym.Open(file); err != nil {
		b.err = fmt.Errorf("read symbols of %s: %w", m.Path, err)
		return b
	}
	b.v8, err = v8.Inspect(b.elf)
	if err != nil && !errors.Is(err, v8.ErrNotV8) {
		b.err = fmt.Errorf("%s: %w", m.Path, err)
	}
	return b
}

// mappings returns the executable mappings of p by address, and all of them.
func (t *Table) mappings(p *process.Process) (code []mapping, all []process.Mapping, err error) {
	all, err = p.Maps()
	if err != nil {
		return nil, nil, err
	}
	for _, m := range all {
		if !m.Perms.Exec() {
			continue
		}
		c := mapping{Mapping: m}
		if m.File() || m.Path == vdso {
			c.binary = t.load(p, m)
		}
		code = append(code, c)
	}
	return code, all, nil
}

// describe writes to the kernel where p's code is and how its V8 lays things out.
func (t *Table) describe(p *target) error {
	code, all, err := t.mappings(p.process)
	if err != nil {
		return err
	}
	p.code = code
	p.described = time.Now()
	d := bpf.JsprofProcess{Generation: p.generation, Serial: t.serial()}
	for _, m := range code {
		if m.binary != nil && m.binary.v8 != nil {
			p.binary = m.binary
			break
		}
	}
	if p.binary != nil {
		p.err = d8(&d, p)
	}
	ranges := p.ranges(all)
	if len(ranges) > len(d.Ranges) {
		t.trouble(fmt.Errorf("process %d has %d ranges of code, of which %d are known to the kernel", p.process.PID(), len(ranges), len(d.Ranges)))
		ranges = ranges[:len(d.Ranges)]
	}
	d.RangeCount = uint32(copy(d.Ranges[:], ranges))
	err = t.maps.Processes.Put(uint32(p.process.PID()), &d)
	if err != nil {
		return fmt.Errorf("tell the kernel of process %d: %w (at most %d processes)", p.process.PID(), err, t.maps.Processes.MaxEntries())
	}
	return t.changed()
}

// changed has the kernel look up anew what it keeps of the processes.
func (t *Table) changed() error {
	if err := t.maps.Described.Set(t.serial()); err != nil {
		return fmt.Errorf("tell the kernel of a change: %w", err)
	}
	return nil
}

// serial returns a number that was not returned before; none is 0.
func (t *Table) serial() uint32 {
	t.described++
	return t.described
}

// d8 fills in what the kernel must know of the V8 in p.
func d8(d *bpf.JsprofProcess, p *target) error {
	b := p.binary.v8
	tls, err := b.TLSIsolate(p.process, p.bias())
	if err != nil {
		return fmt.Errorf("find the isolates: %w", err)
	}
	base, err := b.DispatchBase(p.process, p.bias())
	if err != nil {
		return fmt.Errorf("find the dispatch table: %w", err)
	}
	d.TlsIsolate, d.DispatchBase = tls, base
	d.Layout = layout(&b.Layout)
	d.HasV8 = 1
	return nil
}

// layout is l as the kernel's struct layout.
func layout(l *v8.Layout) bpf.JsprofLayout {
	return bpf.JsprofLayout{
		GcCount: l.GCCount, GcState: l.GCState, VmState: l.VMState, C_entryFp: l.CEntryFP, DispatchTable: l.DispatchTable,
		FirstJsFunction: l.FirstJSFunction, LastJsFunction: l.LastJSFunction,
		SharedFunctionInfo: l.SharedFunctionInfo, ScopeInfo: l.ScopeInfo, Script: l.Script, Code: l.Code,
		BytecodeArray: l.BytecodeArray, FirstNonstring: l.FirstNonstring,
		DebugInfo: l.DebugInfo, DebugInfoScript: l.DebugInfoScript,
		MapInstanceType: l.MapInstanceType, MapInstanceSize: l.MapInstanceSize, MapInobject: l.MapInobject,
		MapBitField3: l.MapBitField3, MapDescriptors: l.MapDescriptors, DescriptorsHeader: l.DescriptorsHeader,
		FunctionShared: l.FunctionShared, FunctionCode: l.FunctionCode, FunctionProperties: l.FunctionProperties,
		SharedName: l.SharedName, SharedScript: l.SharedScript, SharedFlags: l.SharedFlags,
		ScriptName: l.ScriptName, ScriptId: l.ScriptID, ScriptSourceUrl: l.ScriptSourceURL,
		ScopeFirst: l.ScopeFirst, ScopeMaxInlined: l.ScopeMaxInlined,
		ScopePositions: l.ScopePositions, ScopePositionsOf: l.ScopePositionsOf,
		CodeStart: l.CodeStart, CodeSize: l.CodeSize, CodeFlags: l.CodeFlags,
		FpContext: l.FPContext, FpFunction: l.FPFunction,
		FpBytecodeArray: l.FPBytecodeArray, FpBytecodeOffset: l.FPBytecodeOffset,
		BuiltinExitFunction: l.BuiltinExitFunction,
		DictionaryBit:       l.DictionaryBit, DescriptorShift: l.DescriptorShift,
		DetailsLocation: l.DetailsLocation, DetailsIndex: l.DetailsIndex,
		ScopeFlagsSmi: l.ScopeFlagsSmi, ScopeModule: l.ScopeModule, ScopeReceiver: l.ScopeReceiver,
		CodeStartPointer: l.CodeStartPointer, CodeKindMask: l.CodeKindMask,
		KindBaseline: l.KindBaseline, KindMaglev: l.KindMaglev, KindTurbofan: l.KindTurbofan,
		DispatchHandle: l.DispatchHandle, FrameBuiltinExit: l.FrameBuiltinExit,
		KindMembers: l.KindMembers, KindStatic: l.KindStatic,
	}
}

// A range's end has its kind in the low bits (bpf/target.h).
const (
	rangeAddon = bpf.JsprofCode(4)
	rangeBits  = 7
)

// addon is the extension of add-ons' files.
const addon = ".node"

// ranges returns what code lies where in p, for the kernel: sorted, not
// overlapping, neighbours of one kind as one.
func (p *target) ranges(all []process.Mapping) []bpf.JsprofRange {
	var ranges []bpf.JsprofRange
	add := func(start, end uint64, code bpf.JsprofCode) {
		if start >= end {
			return
		}
		last := len(ranges) - 1
		if last >= 0 && ranges[last].End == start|uint64(code) {
			ranges[last].End = end | uint64(code)
			return
		}
		ranges = append(ranges, bpf.JsprofRange{Start: start, End: end | uint64(code)})
	}
	for _, m := range p.code {
		switch {
		case m.Anonymous():
			if start, end := reservation(all, m.Mapping); len(ranges) == 0 || end > ranges[len(ranges)-1].End {
				add(start, end, bpf.JsprofCodeCODE_JIT)
			}
		case m.binary != nil && m.binary == p.binary:
			start, end := builtins(m)
			add(m.Start, start, bpf.JsprofCodeCODE_NATIVE)
			add(start, end, bpf.JsprofCodeCODE_BUILTIN)
			add(end, m.End, bpf.JsprofCodeCODE_NATIVE)
		case path.Ext(m.Path) == addon:
			add(m.Start, m.End, bpf.JsprofCodeCODE_NATIVE|rangeAddon)
		default:
			add(m.Start, m.End, bpf.JsprofCodeCODE_NATIVE)
		}
	}
	slices.SortFunc(ranges, func(a, b bpf.JsprofRange) int { return cmp.Compare(a.Start, b.Start) })
	return ranges
}

// builtins returns the part of m that V8's embedded builtins take, empty if none.
func builtins(m mapping) (start, end uint64) {
	offset, size := m.binary.v8.Builtins()
	start = clamp(m, offset)
	return start, clamp(m, offset+size) &^ rangeBits
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

// vdso is the path of the mapping of code that the kernel gives each process:
// one and the same for all of them, in no file.
const vdso = "[vdso]"

// maxVDSO bounds the vdso's image: it takes two or three pages.
const maxVDSO = 1 << 20

// openMapped opens the file behind m, or reads the vdso's image from memory.
func openMapped(p *process.Process, m process.Mapping) (io.ReaderAt, error) {
	if m.Path != vdso {
		return p.OpenFile(m)
	}
	image := make([]byte, min(m.End-m.Start, maxVDSO))
	if _, err := p.ReadAt(image, m.Start); err != nil {
		return nil, err
	}
	return bytes.NewReader(image), nil
}

// bias is what must be added to an address in p's V8 binary to have it in p's
// memory. The binary's largest mapping decides: V8 may map the part that holds
// its builtins once more.
func (p *target) bias() uint64 {
	if p.binary.elf.Type() == elf.ET_EXEC {
		return 0
	}
	var largest mapping
	for _, m := range p.code {
		if m.binary == p.binary && m.End-m.Start > largest.End-largest.Start {
			largest = m
		}
	}
	middle := (largest.End - largest.Start) / 2 // its ends may hold another segment's bytes
	address, ok := p.binary.elf.Address(largest.Offset + middle)
	if !ok {
		return 0
	}
	return largest.Start + middle - address
}
