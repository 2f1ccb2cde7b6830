package release_test

import (
	"fmt"
	"runtime"

	"ustack/symbolize/v8/disasm"
)

// Slots of a JavaScript frame in all releases.
const (
	functionSlot = -16
	countSlot    = -24 // of arguments
	word         = 8
)

// interpreted are flags of a process that interprets what is called often.
const interpreted = "--no-opt --no-sparkplug"

// A blocked process reads its input: fs.readSync, which is interpreted, has called a
// function of the binding.
type blocked struct {
	p            *probe
	exit, script uint64 // frame pointers of the binding's function and of readSync
}

// block returns a process once it is blocked.
func (m *measurement) block() (*blocked, error) {
	p := m.probe(interpreted)
	function, _, err := p.find("require('fs').readSync")
	if err != nil {
		return nil, err
	}
	isolate, err := m.isolate(p)
	if err != nil {
		return nil, err
	}
	entry := isolate + uint64(m.release.Isolate.EntryFP.In(disasm.FindFunctions(m.file).HeapOffset()))
	const attempts, depth = 1 << 20, 8
	for range attempts { // it writes first that it is ready
		exit, err := p.word(entry)
		if err != nil {
			return nil, err
		}
		for fp, i := exit, 0; i < depth; i++ {
			if called, err := p.word(fp + wrap(functionSlot)); err == nil && called == uint64(function) {
				return &blocked{p, exit, fp}, nil
			}
			if fp, err = p.word(fp); err != nil {
				break
			}
		}
		runtime.Gosched()
	}
	return nil, fmt.Errorf("no frame of readSync is on the stack")
}

func wrap(slot int) uint64 { return uint64(int64(slot)) }

// slots returns the slots of a frame, from one to another, that have a value.
func (b *blocked) slots(fp uint64, from, to int, fits func(v uint64) bool) (found []int) {
	for slot := from; slot <= to; slot += word {
		if v, err := b.p.word(fp + wrap(slot)); err == nil && fits(v) {
			found = append(found, slot)
		}
	}
	return found
}

// measureFrames sets slots of frames by those of a process that reads its input.
func measureFrames(m *measurement) error {
	const template = "process.binding('fs').read > - shared_info: > ~FUNCTION_TEMPLATE_INFO_TYPE"
	p := m.probe(interpreted)
	bytecodes, _, err := p.find("require('fs').readSync > - bytecode:")
	if err != nil {
		return err
	}
	info, _, err := p.find(template)
	if err != nil {
		return err
	}
	b, err := m.block()
	if err != nil {
		return err
	}
	const passed = 2 // readSync(0, chunk)
	count, err := p.word(b.script + wrap(countSlot))
	if err != nil || count != passed && count != passed+1 {
		return fmt.Errorf("readSync has %d arguments: %w", count, err)
	}
	m.set("Frames.CountsReceiver", count == passed+1)
	if err := m.bytecodeSlots(b, bytecodes); err != nil {
		return err
	}
	if _, ok := m.binary.lookup("frametype_ApiCallbackExitFrame"); !ok {
		m.set("Frames.APIExitFunction", 0)
		return nil
	}
	found := b.slots(b.exit, 2*word, 16*word, func(v uint64) bool { return v == uint64(info) })
	if len(found) != 1 {
		return fmt.Errorf("the slots %v of an exit frame have the function", found)
	}
	m.set("Frames.APIExitFunction", found[0])
	return nil
}

// bytecodeSlots sets the slots of an interpreted frame that the metadata omits: that of
// the bytecodes, and that of the offset in them, from the tagged address.
func (m *measurement) bytecodeSlots(b *blocked, bytecodes tagged) error {
	array, offset := 0, 0
	if _, ok := m.binary.lookup("off_fp_bytecode_array"); !ok {
		const first, last = -6 * word, countSlot - word
		length, err := b.p.word(uint64(bytecodes) - 1 + word)
		if err != nil {
			return err
		}
		arrays := b.slots(b.script, first, last, func(v uint64) bool { return v == uint64(bytecodes) })
		start := uint64(m.release.Sizes.BytecodeArray) - 1
		offsets := b.slots(b.script, first, last, func(v uint64) bool {
			return uint32(v) == 0 && v>>32 >= start && v>>32 < start+length>>32
		})
		if len(arrays) != 1 || len(offsets) != 1 {
			return fmt.Errorf("bytecodes may be in the slots %v, the offset in %v", arrays, offsets)
		}
		array, offset = arrays[0], offsets[0]
	}
	m.set("Frames.BytecodeArray", array)
	m.set("Frames.BytecodeOffset", offset)
	return nil
}
