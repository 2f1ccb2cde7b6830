package release_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/v8/disasm"
	"ustack/symbolize/v8/release"
)

// Functions of V8 whose machine code has what a release has.
const (
	setIdle        = "_ZN2v88internal7Isolate7SetIdleEb"
	setGCState     = "_ZN2v88internal4Heap10SetGCStateENS1_9HeapStateE"
	exitFunction   = "_ZNK2v88internal16BuiltinExitFrame8functionEv"
	exitReceiver   = "_ZNK2v88internal16BuiltinExitFrame8receiverEv"
	updateCache    = "_ZN2v86String29ExternalOneByteStringResource15UpdateDataCacheEv"
	checkRegExp    = "_ZN2v88internal23RegExpMacroAssemblerX6420CheckStackGuardStateEPmmm"
	checkRegExpNew = checkRegExp + "m" // with one parameter more
	trapHandler    = "_ZN2v88internal4wasm8WasmCode23RegisterTrapHandlerDataEv"
)

// instructions returns the instructions of a function.
func (m *measurement) instructions(name string) (all []x86asm.Inst, err error) {
	s, ok := m.file.Symbol(name)
	if !ok {
		return nil, fmt.Errorf("no function %s", name)
	}
	code := make([]byte, s.Size)
	if _, err := m.file.ReadAt(code, s.Address); err != nil {
		return nil, err
	}
	for at := 0; at < len(code); {
		inst, err := x86asm.Decode(code[at:], 64)
		if err != nil {
			break
		}
		at += inst.Len
		all = append(all, inst)
	}
	return all, nil
}

// stored returns the only offset, in the object that a method's this is, at which the
// function stores.
func (m *measurement) stored(name string) (int, error) {
	all, err := m.instructions(name)
	if err != nil {
		return 0, err
	}
	offsets := map[int]bool{}
	for _, inst := range all {
		to, ok := inst.Args[0].(x86asm.Mem)
		if ok && inst.Op == x86asm.MOV && !slices.Contains([]x86asm.Reg{x86asm.RIP, x86asm.RSP, x86asm.RBP}, to.Base) {
			offsets[int(to.Disp)] = true
		}
	}
	return only(offsets, name)
}

// loaded returns the only offset at which the function accesses what the address in its
// argument points to.
func (m *measurement) loaded(name string) (int, error) {
	found, ok := disasm.Accesses(m.file, name, true)
	if !ok {
		return 0, fmt.Errorf("no function %s", name)
	}
	offsets := map[int]bool{}
	for offset := range found {
		offsets[int(offset)] = true
	}
	return only(offsets, name)
}

func only(offsets map[int]bool, name string) (int, error) {
	if len(offsets) != 1 {
		return 0, fmt.Errorf("%s accesses the offsets %v", name, slices.Sorted(maps.Keys(offsets)))
	}
	for offset := range offsets {
		return offset, nil
	}
	return 0, nil
}

// measureIsolate sets where an isolate has its state, by the code that stores it.
func measureIsolate(m *measurement) error {
	heap, entry := disasm.FindFunctions(m.file).HeapOffset(), disasm.FindFunctions(m.file).CEntryFP()
	if heap == 0 || entry == 0 {
		return fmt.Errorf("the Heap is at %d in the Isolate, c_entry_fp_ at %d", heap, entry)
	}
	state, err := m.stored(setIdle)
	collection, err2 := m.stored(setGCState)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	m.set("Isolate.VMState", state-int(entry))
	m.set("Isolate.GCState", int(m.release.Isolate.GCCount)-collection)
	m.set("Isolate.EntryFP", place(m.release.Isolate.EntryFP, entry, heap))
	return nil
}

// place returns the place of a field, from the Isolate's start or from its Heap as in
// the known place: that is what patch levels have in common.
func place(known release.Place, offset, heap uint32) release.Place {
	if known.BeforeHeap != 0 {
		return release.Place{BeforeHeap: heap - offset}
	}
	return release.Place{Start: offset}
}

// measureDispatchTable sets where an isolate has the address of the dispatch table, which
// V8's accessor finds through the isolate or its group.
func measureDispatchTable(m *measurement) error {
	if !m.release.Functions.DispatchHandle {
		m.set("Isolate.DispatchTable", release.Place{})
		return nil
	}
	d, ok := disasm.FindFunctions(m.file).DispatchTable()
	heap := disasm.FindFunctions(m.file).HeapOffset()
	isolate, err := m.isolate(m.probe(""))
	if !ok || err != nil {
		return fmt.Errorf("no accessor of the dispatch table, or no isolate: %w", err)
	}
	at := d.Isolate
	if d.Group != 0 {
		if at, err = m.tableOfGroup(d, isolate, heap); err != nil {
			return err
		}
	}
	m.set("Isolate.DispatchTable", place(m.release.Isolate.DispatchTable, at, heap))
	return nil
}

// tableOfGroup returns the first offset in the isolate that has the address which the
// isolate's group has.
func (m *measurement) tableOfGroup(d disasm.Dispatch, isolate uint64, heap uint32) (uint32, error) {
	p := m.probe("")
	group, err := p.word(d.Group)
	if err != nil {
		return 0, err
	}
	table, err := p.word(group + uint64(d.Offset))
	if err != nil {
		return 0, err
	}
	data, err := p.read(isolate, int(heap))
	if err != nil {
		return 0, err
	}
	found := occurrences(data, table, field{})
	if len(found) == 0 {
		return 0, fmt.Errorf("no address of the dispatch table in the Isolate")
	}
	return uint32(found[0]), nil
}

// isolate returns the address of a process's isolate: its Heap is known from the header
// of a page.
func (m *measurement) isolate(p *probe) (uint64, error) {
	h, err := m.headerIn(p, "{}", m.release.Pages.MetadataApart)
	if err != nil {
		return 0, err
	}
	heap := binary.LittleEndian.Uint64(h.fields[m.release.Pages.Heap:])
	return heap - uint64(disasm.FindFunctions(m.file).HeapOffset()), nil
}

// measureExitFrames sets the slots of the frame of a call to a C++ builtin.
func measureExitFrames(m *measurement) error {
	function, err := m.loaded(exitFunction)
	receiver, err2 := m.loaded(exitReceiver)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	m.set("Frames.BuiltinExitFunction", function)
	m.set("Frames.ExitReceiver", receiver)
	return nil
}

// measureSpaces sets the names of spaces, which V8 lists by number.
func measureSpaces(m *measurement) error {
	text, err := m.probe("").evaluate("console.log(require('v8').getHeapSpaceStatistics().map(s => s.space_name).join(' '))")
	if err != nil {
		return err
	}
	var names []string
	for _, name := range strings.Fields(text) {
		name = strings.NewReplacer("read_only", "readonly", "_space", "", "_object", "").Replace(name)
		names = append(names, strings.ReplaceAll(name, "_", "-"))
	}
	m.set("Pages.Spaces", names)
	return nil
}

// confirmExternal compares where an embedder's text is with where its resource caches
// that; releases in which strings do not use it have 0.
func confirmExternal(m *measurement) error {
	cached, err := m.stored(updateCache)
	if err != nil {
		return err
	}
	return m.confirm("Strings.External", int(m.release.Strings.External), 0, cached)
}

// confirmRegExp compares the slot of a regular expression with the slots that V8 reads:
// it reads the isolate, which is in the slot before.
func confirmRegExp(m *measurement) error {
	found, ok := disasm.Accesses(m.file, checkRegExp, false)
	if !ok {
		found, ok = disasm.Accesses(m.file, checkRegExpNew, false)
	}
	if !ok {
		return fmt.Errorf("no function %s", checkRegExp)
	}
	const word = 8
	var slots []int
	for offset := range found {
		slots = append(slots, int(offset)+word)
	}
	return m.confirm("Frames.RegExpArgument", int(m.release.Frames.RegExpArgument), slots...)
}

// measureWasmKind sets the bits of the kind of WebAssembly's code, which V8 tests at the
// start of a function that does nothing for all kinds but one.
func measureWasmKind(m *measurement) error {
	all, err := m.instructions(trapHandler)
	if err != nil {
		return err
	}
	for _, inst := range all {
		of, isField := inst.Args[0].(x86asm.Mem)
		mask, ok := inst.Args[1].(x86asm.Imm)
		if inst.Op == x86asm.TEST && isField && of.Base == x86asm.RDI && ok && mask&(mask+1) == 0 {
			m.set("Wasm.KindBits", bits.OnesCount64(uint64(mask)))
			return nil
		}
	}
	return fmt.Errorf("%s does not test the kind", trapHandler)
}
