package code

import (
	"fmt"
	"math/bits"

	"ustack/symbolize"
)

// fixedSlots are the words with which the frame of optimized code begins: the return
// address, the caller's frame pointer, the context, the function and the number of
// arguments.
const fixedSlots = 5

// A Span is a part of a frame, in bytes from its frame pointer up to, not including, End.
type Span struct{ Start, End int64 }

// Unvisited returns what of an optimized function's frame V8's collector does not visit
// while the call is in progress that returns to pc, lowest address first. Words there
// hold no references, or some that are not used any more. What is pushed for the call is
// not part of it. (V8 9.4 to 14.6: Iterate of its frames in src/execution/frames.cc.)
func (f *Finder) Unvisited(code Code, pc uint64) ([]Span, error) {
	t, err := f.safepointTable(code)
	if err != nil {
		return nil, err
	}
	b, err := f.entries(t)
	if err != nil {
		return nil, err
	}
	offset := int(pc - code.Start)
	if code.Tier == symbolize.Maglev {
		return f.unvisitedByMaglev(t, b, offset), nil
	}
	at := f.covering(t, b, offset)
	if at < 0 {
		return nil, fmt.Errorf("read safepoints at %#x: none returns to %#x", t.first, pc)
	}
	data := t.first + uint64(len(b)+at*t.bits)
	visited, err := f.heap.Bytes(data, uint64(t.bits), maxSlots/8)
	if err != nil {
		return nil, fmt.Errorf("read safepoint at %#x: %w", data, err)
	}
	return spans(t.slots, func(slot int) bool { // the first bit is for the last word
		bit := t.slots - 1 - slot
		return bit/8 < len(visited) && visited[bit/8]>>(bit%8)&1 != 0
	}), nil
}

// covering returns the index of the entry for a call in TurboFan's code that returns to an
// offset: the last one whose trampoline, or else whose return address, is not after it.
// Equal neighbours share the first one's entry. In fixed entries, the only one may be for
// all calls. It is -1 if there is none.
func (f *Finder) covering(t safepointTable, b []byte, offset int) int {
	const all = 1<<32 - 1
	at, left := -1, -1
	for i := range len(b) / max(t.entry.size, 1) {
		p := f.safepoint(t, b[i*t.entry.size:])
		switch {
		case f.code.Safepoints.FixedEntries:
			if p.offset == offset || p.trampoline == offset || p.offset == all {
				return i
			}
			continue
		case p.trampoline >= 0 && p.trampoline <= offset:
			left = i
		case p.offset <= offset:
			at = i
		}
	}
	if left >= 0 {
		return left
	}
	return at
}

// unvisitedByMaglev is Unvisited for Maglev's code. What it pushes before a call is
// known by the call's entry; a call without an entry pushes nothing.
func (f *Finder) unvisitedByMaglev(t safepointTable, b []byte, offset int) []Span {
	slots, registers := t.slots, 0
	for ; len(b) >= t.entry.size; b = b[t.entry.size:] {
		if p := f.safepoint(t, b); p.offset == offset || p.trampoline == offset {
			last := b[t.entry.size-t.entry.registers-1:]
			slots, registers = slots+int(last[0]), number(last[1:][:t.entry.registers])
			break
		}
	}
	return spans(slots, func(slot int) bool {
		if slot < t.slots {
			return slot < fixedSlots+t.tagged
		}
		return slot-t.slots < bits.UintSize && registers>>(slot-t.slots)&1 != 0
	})
}

// spans returns the parts of a frame of so many words that are not visited.
func spans(slots int, visited func(slot int) bool) (all []Span) {
	for slot := slots - 1; slot >= fixedSlots; slot-- {
		if visited(slot) {
			continue
		}
		start := int64(1-slot) * wordSize // the return address is above the frame pointer
		if last := len(all) - 1; last >= 0 && all[last].End == start {
			all[last].End += wordSize
		} else {
			all = append(all, Span{start, start + wordSize})
		}
	}
	return all
}
