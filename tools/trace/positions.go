package trace

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// Bounds on what is kept to find positions in code.
const (
	maxTables     = 1 << 16
	maxTableBytes = 64 << 20 // of all tables
	maxSearches   = 1 << 12  // of one process, for code that its function does not refer to
	vainSearch    = 16       // searches that one counts for that finds nothing: it takes the longest
	maxAwaiting   = 1 << 6   // places in code of a function, while the kernel sends it again
	maxStrays     = 1 << 6   // pieces of such code that are remembered, of one process
	maxCodePages  = 1 << 8   // of one process's memory
	codeReads     = 3        // of one piece of code, while the process changes it
	maxTries      = 1 << 6   // to read one table or script, each once V8 may have moved its parts
)

// The parts of a frame's position.
const (
	formShift  = bpf.TracePositionBitsPOSITION_FORM_SHIFT
	checkShift = bpf.TracePositionBitsPOSITION_OFFSET_BITS
	checkMask  = 1<<bpf.TracePositionBitsPOSITION_CHECK_BITS - 1
	offsetMask = 1<<checkShift - 1
	pcEnd      = bpf.TracePositionBitsPOSITION_PC_BITS
	codeBytes  = uint64(bpf.TracePositionBitsPOSITION_CODE_BYTES)
)

// positions are the tables of the code that was met on stacks.
type positions struct {
	codes     map[bpf.TraceCodeKey]*codeTable
	bytecodes map[uint64]*codeTable // by function
	moved     map[uint64]*awaiting  // what waits for the kernel to send a function again
	strays    map[strayKey]stray    // code that its function does not refer to
	tries     map[any]int           // that have failed, by the key of one of the above
	bytes     int                   // of all tables
	unread    uint64                // tables that could not be read
	none      uint64                // tables without positions: V8 keeps none
	doubtful  uint64                // tables that contradict themselves where stacks are
	full      uint64                // tables that there was no room for
	crowded   uint64                // places that found too many others of their function waiting, each as often as it was met
}

func newPositions() positions {
	return positions{
		codes:     make(map[bpf.TraceCodeKey]*codeTable),
		bytecodes: make(map[uint64]*codeTable),
		moved:     make(map[uint64]*awaiting),
		strays:    make(map[strayKey]stray),
		tries:     make(map[any]int),
	}
}

// A codeTable maps a piece of code to the source. An empty one stands for code whose
// positions cannot be read.
type codeTable struct {
	code.Table
	inlined map[v8.Value]function // by SharedFunctionInfo
	failed  bool                  // to say where its code is, which is counted
}

// awaiting is what to read of a function once the kernel has sent where it is.
type awaiting struct {
	bytecodes bool
	strays    []strayKey // at most maxAwaiting
}

func formOf(position uint64) bpf.TracePositionForm {
	return bpf.TracePositionForm(position >> formShift)
}

var (
	errReplaced = errors.New("V8 has replaced the code")
	errGone     = errors.New("V8 has moved the code")
	errFull     = errors.New("too many tables")
	errSearched = errors.New("too many searches for code")
)

// settle counts the outcome of an attempt to read the table of a key, and reports
// whether it is final: else the table may be read once its parts are found again.
func (p *positions) settle(key any, table *codeTable, err error) bool {
	failed := p.tries[key]
	switch {
	case errors.Is(err, errFull): // not kept: the process may compile without end
		p.full++
		return false
	case err == nil:
		if failed > 0 {
			p.unread--
			delete(p.tries, key)
		}
		if !table.HasPositions() {
			p.none++
		}
		return true
	case failed == 0:
		p.unread++
	}
	if failed == 0 && len(p.tries) >= maxTables {
		return true
	}
	p.tries[key] = failed + 1
	return failed+1 >= maxTries
}

// Code handles a kernel record about machine code: it reads the code's table while it
// is there.
func (t *Table) Code(raw []byte) {
	r := Decode[bpf.TraceCodeObject](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, key := t.owners[uint32(r.Key.Owner>>32)], r.Key
	if g == nil || t.positions.codes[key] != nil {
		return
	}
	fn := t.functions[key.Id] // none if its record was lost: then the table is another function's
	table, err := t.readTable(g, key.Owner, fn, func(f *code.Finder) (code.Table, error) {
		c, err := f.Code(v8.Value(r.Address))
		if err != nil {
			return code.Table{}, err
		}
		if c.Start != r.Start || c.Size != r.Size || c.Tier != symbolize.Tier(r.Tier) {
			return code.Table{}, errReplaced
		}
		return f.Table(c, v8.Value(r.Shared))
	})
	switch {
	case t.positions.settle(key, table, err) || err != nil && !g.hasMemory():
		t.positions.codes[key] = table
	case !errors.Is(err, errFull): // it has moved
		t.sendAgain(t.maps.Codes, &key)
	}
}

// sendAgain asks the kernel to send again what it has sent of a key, by which it says
// where V8 has moved it.
func (t *Table) sendAgain(sent *ebpf.Map, key any) {
	err := sent.Delete(key)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err = errors.Join(err, t.changed()); err != nil {
		t.warn(fmt.Errorf("ask the kernel again for what V8 has moved: %w", err))
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
		switch formOf(f.Position) {
		case bpf.TracePositionFormPOSITION_BYTECODE:
			t.readBytecodes(g, r.Owner, id)
		case bpf.TracePositionFormPOSITION_PC:
			t.findStray(g, r.Owner, newStrayKey(id, f.Position))
		}
	}
}

// readBytecodes reads the table of a function's bytecodes, if it is where the kernel
// last said.
func (t *Table) readBytecodes(g *target, owner, id uint64) {
	fn, ok := t.functions[id]
	if !ok || t.positions.bytecodes[id] != nil {
		return
	}
	if waits := t.positions.moved[id]; waits != nil {
		waits.bytecodes = true
		return
	}
	table, err := t.readTable(g, owner, fn, func(f *code.Finder) (code.Table, error) { return f.BytecodeTable(fn.shared) })
	switch {
	case t.positions.settle(id, table, err) || err != nil && !g.hasMemory():
		t.positions.bytecodes[id] = table
	case !errors.Is(err, errFull):
		t.askForFunction(id).bytecodes = true
	}
}

// askForFunction asks the kernel where a function's SharedFunctionInfo is now. It returns
// what waits for the answer, which is nothing yet.
func (t *Table) askForFunction(id uint64) *awaiting {
	waits := new(awaiting)
	t.positions.moved[id] = waits
	t.sendAgain(t.maps.Names, &id)
	return waits
}

// found reads what has waited for a function.
func (t *Table) found(id uint64) {
	waits, owner := t.positions.moved[id], t.functions[id].script.owner
	g := t.owners[uint32(owner>>32)]
	if waits == nil || g == nil {
		return
	}
	delete(t.positions.moved, id)
	if waits.bytecodes {
		t.readBytecodes(g, owner, id)
	}
	for _, key := range waits.strays {
		t.findStray(g, owner, key)
	}
}

// await keeps a place in code until the kernel has sent its function again.
func (p *positions) await(waits *awaiting, key strayKey) {
	switch {
	case slices.Contains(waits.strays, key):
	case len(waits.strays) >= maxAwaiting:
		p.crowded++
	default:
		waits.strays = append(waits.strays, key)
	}
}

// unanswered returns how many tables could not be read, including those that were not tried
// because the kernel has not sent their function again, or not soon enough.
func (p *positions) unanswered() uint64 {
	n := p.unread + p.crowded
	for id, waits := range p.moved {
		if waits.bytecodes && p.tries[id] == 0 {
			n++
		}
		for _, key := range waits.strays {
			if p.tries[key] == 0 {
				n++
			}
		}
	}
	return n
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
	g.pages.Forget()
	table, err := read(g.codes)
	if err != nil {
		return nil, err
	}
	g.pages.Forget()
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
	if err := t.readInlined(g, owner, result, ends); err != nil {
		return nil, err
	}
	err = table.Check(func(shared v8.Value) (start, end int) { return result.inlined[shared].start, ends[shared] })
	if err == nil {
		t.keepEnds(result, ends)
	}
	return result, err
}

// readInlined reads the functions that are inlined in a piece of code, and adds where
// their texts end to ends.
func (t *Table) readInlined(g *target, owner uint64, table *codeTable, ends map[v8.Value]int) error {
	g.functions.Forget() // V8 may free the maps of functions, and make others there
	for _, p := range table.Functions() {
		f, err := code.Function(g.functions, p)
		if err != nil {
			return err
		}
		fn := function{name: f.String(), script: scriptKey{owner, int32(f.ScriptID)}, start: f.Start}
		table.inlined[p.Shared], ends[p.Shared] = fn, f.End
		if _, ok := t.scripts[fn.script]; ok || f.ScriptID == 0 {
			continue
		}
		s := script{name: code.ScriptName(g.heap, f.Script)}
		// Some scripts are only seen here: the kernel, which sees no inlined function, would
		// not send them again.
		if s.source, s.mapURL, err = t.readScript(g, fn.script, f.Script); errors.Is(err, errMoving) {
			return err
		}
		s.gone = !g.hasMemory()
		t.keepScript(fn.script, s)
	}
	return nil
}

// openCode opens what reads the target's code. Its heap caches maps: those of V8's own
// objects, which are all that is read with it, do not move.
func (g *target) openCode() (err error) {
	if g.heap != nil {
		return nil
	}
	if g.closed || g.binary == nil || g.binary.v8 == nil || g.binary.elf == nil {
		return process.ErrGone
	}
	g.pages = space.NewPages(g.process, maxCodePages)
	if g.functions, err = v8.NewHeap(g.pages, g.binary.v8); err != nil {
		return err
	}
	if g.heap, err = v8.NewHeap(g.pages, g.binary.v8); err == nil {
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
	tier := f.Tier
	switch formOf(position) {
	case bpf.TracePositionFormPOSITION_BYTECODE:
		table, offset = t.positions.bytecodes[id], int(position&offsetMask)
	case bpf.TracePositionFormPOSITION_CODE:
		key := bpf.TraceCodeKey{Owner: t.functions[id].script.owner, Id: id, Check: position >> checkShift & checkMask}
		table, offset = t.positions.codes[key], int(position&offsetMask)
	case bpf.TracePositionFormPOSITION_PC:
		s := t.positions.strays[newStrayKey(id, position)]
		table, offset, tier = s.table, s.offset, s.tier
	}
	if table == nil {
		return nil
	}
	places, err := table.At(offset)
	t.positions.count(table, err)
	if len(places) == 0 {
		return nil
	}
	f.Tier = tier // the kernel takes code for baseline code if it was entered from that in a loop
	last := len(places) - 1
	var inlined []symbolize.Frame
	for _, p := range places[:last] {
		inlined = append(inlined, t.inlinedFrame(g, table, p, f.Tier))
	}
	t.place(f, t.functions[id].script, places[last])
	return inlined
}

// count counts a table that could not say where its code is.
func (p *positions) count(table *codeTable, err error) {
	switch {
	case err == nil || table.failed:
		return
	case errors.Is(err, code.ErrDoubtful):
		p.doubtful++
	default:
		p.unread++
	}
	table.failed = true
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
	t.place(&f, fn.script, p)
	return f
}

// place sets a frame's executing position.
func (t *Table) place(f *symbolize.Frame, key scriptKey, p code.Place) {
	f.Nearest = p.Nearest
	if s := t.scripts[key]; s.source != nil && p.Offset >= 0 {
		line, column := s.source.Position(p.Offset)
		*f = t.originals.maps[key].Executing(*f, line, column)
	}
}
