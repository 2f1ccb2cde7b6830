package code

import (
	"encoding/binary"
	"fmt"

	"ustack/symbolize"
)

// Bounds on a table of safepoints: its entries, and the words of its code's frame.
const (
	maxSafepoints = 1 << 16
	maxSlots      = 1 << 16
)

// Tables of safepoints begin with some u32: for TurboFan the last two are the number of
// entries and their form, for Maglev one or two others follow.
const (
	safepointForm     = 4 // from the number of entries
	safepointFirst    = 8
	safepointTagged   = 8 // of Maglev's: how many words hold references
	safepointUntagged = 12
	safepointHeader   = 16 // of Maglev's; that of others is shorter
	safepointFixed    = 4  // bytes of each number of a fixed entry
)

// A safepointEntry has the sizes of an entry's parts, in bytes: the return address, the
// deoptimization and the trampoline come first, what there is of registers comes last.
type safepointEntry struct {
	address, deopt, registers, size int

	leaves bool // it has a deoptimization and a trampoline
}

// safepointOf decodes the form of entries: bit 0 is set if they have a deoptimization and
// a trampoline, three bits each have the size of what they say of registers, of addresses
// and of the number of a deoptimization. The rest is the size of what follows the entries
// for each of them.
func safepointOf(form uint32, tier symbolize.Tier) (entry safepointEntry, bits int) {
	const mask = 7
	e := safepointEntry{address: int(form >> 4 & mask), registers: int(form >> 1 & mask), leaves: form&1 != 0}
	e.size = e.address + e.registers
	if e.leaves {
		e.deopt = int(form >> 7 & mask)
		e.size += e.deopt + e.address
	}
	if tier == symbolize.Maglev {
		e.size++ // the number of spilled registers
		return e, 0
	}
	return e, int(form >> 10)
}

// A safepoint is a call in optimized code.
type safepoint struct {
	offset     int // of the instruction that it returns to
	trampoline int // where it returns to instead if V8 has discarded the code; below 0: nowhere
	deopt      int // number of the deoptimization then; below 0: there is none
}

// A safepointTable is what precedes the entries of a table.
type safepointTable struct {
	first  uint64 // address of the entries
	count  int
	entry  safepointEntry
	bits   int // bytes that follow the entries for each of them: which words of the frame hold references
	slots  int // words of the frame, from the return address on
	tagged int // of Maglev's code: how many of those after the fixed ones hold references
}

// safepointTable reads what precedes the entries of a piece of code's table.
func (f *Finder) safepointTable(code Code) (safepointTable, error) {
	at, form := code.Start+code.Size, &f.code.Safepoints
	b, err := f.heap.Bytes(at, safepointHeader, safepointHeader)
	if err != nil {
		return safepointTable{}, fmt.Errorf("read safepoints at %#x: %w", at, err)
	}
	slots, header := code.slots, b[form.Length:]
	if form.Length > 0 {
		slots = binary.LittleEndian.Uint32(b)
	}
	t := safepointTable{first: at + uint64(form.Length) + safepointFirst, count: int(binary.LittleEndian.Uint32(header))}
	if t.count > maxSafepoints {
		return safepointTable{}, fmt.Errorf("read safepoints at %#x: %d", at, t.count)
	}
	last := binary.LittleEndian.Uint32(header[safepointForm:])
	if form.FixedEntries {
		t.entry, t.bits = safepointEntry{address: safepointFixed, deopt: safepointFixed, size: 3 * safepointFixed, leaves: true}, int(last)
	} else {
		t.entry, t.bits = safepointOf(last, code.Tier)
	}
	if code.Tier == symbolize.Maglev {
		t.first = at + safepointHeader
		tagged := binary.LittleEndian.Uint32(header[safepointTagged:])
		if form.Length == 0 {
			slots = fixedSlots + tagged + binary.LittleEndian.Uint32(header[safepointUntagged:])
		}
		t.tagged = int(min(tagged, maxSlots))
	}
	if slots > maxSlots || t.bits > maxSlots/8 {
		return safepointTable{}, fmt.Errorf("read safepoints at %#x: %d words of a frame", at, slots)
	}
	t.slots = int(slots)
	return t, nil
}

// entries reads the entries of a table.
func (f *Finder) entries(t safepointTable) ([]byte, error) {
	if t.entry.size == 0 {
		return nil, nil
	}
	b, err := f.heap.Bytes(t.first, uint64(t.count*t.entry.size), maxSafepoints*t.entry.size)
	if err != nil {
		err = fmt.Errorf("read safepoints at %#x: %w", t.first, err)
	}
	return b, err
}

// safepoint decodes an entry of t.
func (f *Finder) safepoint(t safepointTable, b []byte) safepoint {
	e := t.entry
	p := safepoint{number(b[:e.address]), -1, -1}
	switch {
	case f.code.Safepoints.FixedEntries:
		p.trampoline, p.deopt = int(int32(number(b[e.address+e.deopt:][:e.address]))), int(int32(number(b[e.address:][:e.deopt])))
	case e.leaves: // 0 stands for none
		p.trampoline, p.deopt = number(b[e.address+e.deopt:][:e.address])-1, number(b[e.address:][:e.deopt])-1
	}
	return p
}

// safepoints returns the calls of a piece of code that it may be left at.
func (f *Finder) safepoints(code Code) ([]safepoint, error) {
	t, err := f.safepointTable(code)
	if err != nil || !t.entry.leaves {
		return nil, err
	}
	b, err := f.entries(t)
	if err != nil {
		return nil, err
	}
	points := make([]safepoint, 0, t.count)
	for ; len(b) >= t.entry.size; b = b[t.entry.size:] {
		points = append(points, f.safepoint(t, b))
	}
	return points, nil
}

// number decodes a little-endian number of at most eight bytes.
func number(b []byte) (n int) {
	for i, digit := range b {
		n |= int(digit) << (8 * i)
	}
	return n
}
