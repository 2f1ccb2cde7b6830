package trace

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// Bounds on what is kept to find positions in code.
const (
	maxTables     = 1 << 16
	maxTableBytes = 64 << 20 // of all tables
	maxSearches   = 1 << 12  // of one process, for code that its function does not refer to
	maxStrays     = 1 << 6   // pieces of such code that are remembered, of one process
	codeReads     = 3        // of one piece of code, while the process changes it
)

// The parts of a frame's position.
const (
	formShift  = bpf.TracePositionBitsPOSITION_FORM_SHIFT
	checkShift = bpf.TracePositionBitsPOSITION_OFFSET_BITS
	checkMask  = 1<<bpf.TracePositionBitsPOSITION_CHECK_BITS - 1
	offsetMask = 1<<checkShift - 1
	addrMask   = 1<<formShift - 1
)

// positions are the tables of the code that was met on stacks.
type positions struct {
	codes     map[bpf.TraceCodeKey]*codeTable
	bytecodes map[uint64]*codeTable     // by function
	strays    map[strayKey]stray        // code that its function does not refer to
	asked     map[bpf.TraceCodeKey]bool // the kernel was asked to send it again
	bytes     int                       // of all tables
	unread    uint64                    // tables that could not be read
	full      uint64                    // tables that there was no room for
}

func newPositions() positions {
	return positions{
		codes:     make(map[bpf.TraceCodeKey]*codeTable),
		bytecodes: make(map[uint64]*codeTable),
		strays:    make(map[strayKey]stray),
		asked:     make(map[bpf.TraceCodeKey]bool),
	}
}

// A codeTable maps a piece of code to the source. An empty one stands for code whose
// positions cannot be read.
type codeTable struct {
	code.Table
	inlined map[v8.Value]function // by SharedFunctionInfo
}

// A strayKey is a place in code that its function does not refer to: V8 entered it in
// the middle of a loop, or has compiled the function again since it was called.
type strayKey struct{ function, pc uint64 }

type stray struct {
	table  *codeTable
	offset int
}

var (
	errReplaced = errors.New("V8 has replaced the code")
	errFull     = errors.New("too many tables")
	errSearched = errors.New("too many searches for code")
)

// count counts a table that could not be read because of err, if that is not nil.
func (p *positions) count(err error) {
	switch {
	case errors.Is(err, errFull):
		p.full++
	case err != nil:
		p.unread++
	}
}

// Code handles a kernel record about machine code: it reads the code's table while it
// is there.
func (t *Table) Code(raw []byte) {
	r := Decode[bpf.TraceCodeObject](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, fn, key := t.owners[uint32(r.Key.Owner>>32)], t.functions[r.Key.Id], r.Key
	if g == nil || fn.shared == 0 || t.positions.codes[key] != nil {
		return
	}
	table, err := t.readTable(g, key.Owner, fn, func(f *code.Finder) (code.Table, error) {
		c, err := f.Code(v8.Value(r.Address))
		if err != nil {
			return code.Table{}, err
		}
		if c.Start != r.Start || c.Size != r.Size {
			return code.Table{}, errReplaced
		}
		return f.Table(c, fn.shared)
	})
	again := err != nil && !errors.Is(err, errFull) && !t.positions.asked[key]
	if again && len(t.positions.asked) < maxTables && g.hasMemory() { // it has moved: the kernel is to say where
		t.positions.asked[key] = true
		if err := t.maps.Codes.Delete(&key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.warn(fmt.Errorf("ask the kernel again for code: %w", err))
		}
		return
	}
	t.positions.count(err)
	if !errors.Is(err, errFull) { // the process may compile without end
		t.positions.codes[key] = table
	}
}

// readPositions reads the tables that a stack needs and that do not come with a record
// of their own.
func (t *Table) readPositions(g *target, r *bpf.TraceStack) {
	for _, f := range r.Frames[:min(int(r.Count), len(r.Frames))] {
		if kindOf(f.Word) != bpf.TraceFrameKindFRAME_JS {
			continue
		}
		id := f.Word & idMask
		switch bpf.TracePositionForm(f.Position >> formShift) {
		case bpf.TracePositionFormPOSITION_BYTECODE:
			t.readBytecodes(g, r.Owner, id)
		case bpf.TracePositionFormPOSITION_PC:
			t.findStray(g, r.Owner, strayKey{id, f.Position & addrMask})
		}
	}
}

func (t *Table) readBytecodes(g *target, owner, id uint64) {
	if t.positions.bytecodes[id] != nil {
		return
	}
	fn, ok := t.functions[id]
	if !ok {
		return
	}
	table, err := t.readTable(g, owner, fn, func(f *code.Finder) (code.Table, error) { return f.BytecodeTable(fn.shared) })
	t.positions.count(err)
	t.positions.bytecodes[id] = table
}

// findStray finds the code at a pc of a function that does not refer to it.
func (t *Table) findStray(g *target, owner uint64, key strayKey) {
	if _, ok := t.positions.strays[key]; ok {
		return
	}
	fn, ok := t.functions[key.function]
	mapping := g.find(key.pc)
	if !ok || mapping == nil {
		return
	}
	offset := 0
	table, err := t.readTable(g, owner, fn, func(f *code.Finder) (code.Table, error) {
		c, err := g.codeAt(f, key.pc, mapping.Start)
		if err != nil {
			return code.Table{}, err
		}
		offset = int(key.pc - c.Start)
		return f.Table(c, fn.shared)
	})
	t.positions.count(err)
	if !errors.Is(err, errFull) && !errors.Is(err, errSearched) {
		t.positions.strays[key] = stray{table, offset}
	}
}

// codeAt returns the code that holds a pc, in memory that starts at low.
func (g *target) codeAt(f *code.Finder, pc, low uint64) (code.Code, error) {
	for _, found := range g.strays {
		if !found.Holds(pc) {
			continue
		}
		if now, err := f.Code(v8.Ref(found.Address)); err == nil && now == found {
			return now, nil
		}
	}
	if g.searches >= maxSearches {
		return code.Code{}, errSearched
	}
	g.searches++
	c, err := f.At(pc, low)
	if err == nil {
		g.strays = append(g.strays[max(0, len(g.strays)-maxStrays+1):], c)
	}
	return c, err
}

// readTable reads a table of the function fn, of the thread owner. The process may be
// running: what is read counts only if it is the same twice, and is the function's. The
// returned table is never nil.
func (t *Table) readTable(g *target, owner uint64, fn function, read func(*code.Finder) (code.Table, error)) (*codeTable, error) {
	empty := &codeTable{}
	p := &t.positions
	if len(p.codes)+len(p.bytecodes)+len(p.strays) >= maxTables || p.bytes >= maxTableBytes {
		return empty, errFull
	}
	var err error
	for range codeReads {
		var table *codeTable
		if table, err = t.tryTable(g, owner, fn, read); err == nil {
			p.bytes += table.Bytes()
			return table, nil
		}
		g.heap, g.codes = nil, nil // it may have cached what was no map
	}
	return empty, err
}

func (t *Table) tryTable(g *target, owner uint64, fn function, read func(*code.Finder) (code.Table, error)) (*codeTable, error) {
	if err := g.openCode(); err != nil {
		return nil, err
	}
	table, err := read(g.codes)
	if err != nil {
		return nil, err
	}
	again, err := read(g.codes)
	if err != nil {
		return nil, err
	}
	own, err := g.heap.FunctionOf(table.Shared)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(table, again) || own.ScriptID != int(fn.script.id) || own.Start != fn.start {
		return nil, errReplaced
	}
	ends := map[v8.Value]int{table.Shared: own.End}
	result := &codeTable{Table: table, inlined: map[v8.Value]function{table.Shared: fn}}
	if err := t.readInlined(g.heap, owner, result, ends); err != nil {
		return nil, err
	}
	return result, table.Check(func(shared v8.Value) (start, end int) { return result.inlined[shared].start, ends[shared] })
}

// readInlined reads the functions that are inlined in a piece of code, and adds where
// their texts end to ends.
func (t *Table) readInlined(heap *v8.Heap, owner uint64, table *codeTable, ends map[v8.Value]int) error {
	for _, shared := range table.Inlined {
		f, err := heap.FunctionOf(shared)
		if err != nil {
			return err
		}
		fn := function{name: f.String(), script: scriptKey{owner, int32(f.ScriptID)}, start: f.Start}
		table.inlined[shared], ends[shared] = fn, f.End
		if _, ok := t.scripts[fn.script]; ok || f.ScriptID == 0 {
			continue
		}
		s := script{name: code.ScriptName(heap, f.Script)}
		if source, err := code.ReadScript(heap, f.Script, f.ScriptID); err == nil {
			s.source, s.mapURL = &source, t.readMapURL(heap, f.Script, fn.script)
		}
		t.keepScript(fn.script, s)
	}
	return nil
}

// openCode opens what reads the target's code. Its heap caches maps: those of V8's own
// objects, which are all that is read, do not move.
func (g *target) openCode() (err error) {
	if g.heap != nil {
		return nil
	}
	if g.closed || g.binary == nil || g.binary.v8 == nil || g.binary.elf == nil {
		return process.ErrGone
	}
	if g.heap, err = v8.NewHeap(g.process, g.binary.v8); err == nil {
		g.codes, _ = code.NewFinder(g.heap, g.bias) // the kernel says where code is
	}
	return err
}

// execute gives the frame of a JavaScript function its executing position, and returns
// the frames of the functions inlined there, innermost first.
func (t *Table) execute(g *target, word, position uint64, f *symbolize.Frame) []symbolize.Frame {
	id := word & idMask
	var table *codeTable
	var offset int
	switch bpf.TracePositionForm(position >> formShift) {
	case bpf.TracePositionFormPOSITION_BYTECODE:
		table, offset = t.positions.bytecodes[id], int(position&offsetMask)
	case bpf.TracePositionFormPOSITION_CODE:
		key := bpf.TraceCodeKey{Owner: t.functions[id].script.owner, Id: id, Check: position >> checkShift & checkMask}
		table, offset = t.positions.codes[key], int(position&offsetMask)
	case bpf.TracePositionFormPOSITION_PC:
		s := t.positions.strays[strayKey{id, position & addrMask}]
		table, offset = s.table, s.offset
	}
	if table == nil {
		return nil
	}
	places, err := table.At(offset)
	if err != nil || len(places) == 0 {
		return nil
	}
	last := len(places) - 1
	var inlined []symbolize.Frame
	for _, p := range places[:last] {
		inlined = append(inlined, t.inlinedFrame(g, table, p, f.Tier))
	}
	t.place(f, t.functions[id].script, places[last].Offset)
	return inlined
}

// inlinedFrame returns the frame of a function that has none of its own.
func (t *Table) inlinedFrame(g *target, table *codeTable, p code.Place, tier symbolize.Tier) symbolize.Frame {
	fn := table.inlined[p.Shared]
	s := t.scripts[fn.script]
	f := symbolize.Frame{Kind: symbolize.JS, Name: fn.name, File: s.name, Tier: tier, Inlined: true}
	if s.source != nil && fn.start >= 0 {
		f.Line, f.Column = s.source.Position(fn.start)
	}
	f = t.original(g, fn.script, f)
	t.place(&f, fn.script, p.Offset)
	return f
}

// place sets a frame's executing position.
func (t *Table) place(f *symbolize.Frame, key scriptKey, offset int) {
	if s := t.scripts[key]; s.source != nil && offset >= 0 {
		line, column := s.source.Position(offset)
		*f = t.originals.maps[key].Executing(*f, line, column)
	}
}
