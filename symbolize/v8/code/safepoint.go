package code

import (
	"encoding/binary"
	"fmt"

	"ustack/symbolize"
)

// maxSafepoints bounds the entries of a table of safepoints that are read.
const maxSafepoints = 1 << 16

// Tables of safepoints begin with some u32: for TurboFan the last two are the number of
// entries and their form, for Maglev others follow.
const (
	safepointForm   = 4 // from the number of entries
	safepointFirst  = 8
	safepointHeader = 16 // of Maglev's; that of others is shorter
	safepointFixed  = 4  // bytes of each number of a fixed entry
)

// A safepointEntry has the sizes of an entry's parts, in bytes: the return address, the
// deoptimization and the trampoline come first.
type safepointEntry struct{ address, deopt, size int }

// safepointOf decodes the form of entries: bit 0 is set if they have a deoptimization and
// a trampoline, three bits each have the size of what they say of registers, of addresses
// and of the number of a deoptimization.
func safepointOf(form uint32, tier symbolize.Tier) safepointEntry {
	const mask = 7
	if form&1 == 0 {
		return safepointEntry{}
	}
	registers, address, deopt := int(form>>1&mask), int(form>>4&mask), int(form>>7&mask)
	size := 2*address + deopt + registers
	if tier == symbolize.Maglev {
		size++ // the number of spilled registers
	}
	return safepointEntry{address, deopt, size}
}

// A safepoint is a call in optimized code.
type safepoint struct {
	offset     int // of the instruction that it returns to
	trampoline int // where it returns to instead if V8 has discarded the code; below 0: nowhere
	deopt      int // number of the deoptimization then; below 0: there is none
}

// safepoints returns the calls of a piece of code that it may be left at.
func (f *Finder) safepoints(code Code) ([]safepoint, error) {
	at, form := code.Start+code.Size, &f.code.Safepoints
	header, err := f.heap.Bytes(at, safepointHeader, safepointHeader)
	if err != nil {
		return nil, fmt.Errorf("read safepoints at %#x: %w", at, err)
	}
	header = header[form.Length:]
	count := int(binary.LittleEndian.Uint32(header))
	if count > maxSafepoints {
		return nil, fmt.Errorf("read safepoints at %#x: %d", at, count)
	}
	first, entry := int(form.Length)+safepointFirst, safepointOf(binary.LittleEndian.Uint32(header[safepointForm:]), code.Tier)
	switch {
	case form.FixedEntries:
		entry = safepointEntry{safepointFixed, safepointFixed, 3 * safepointFixed}
	case code.Tier == symbolize.Maglev:
		first = safepointHeader
	}
	if entry.size == 0 {
		return nil, nil
	}
	b, err := f.heap.Bytes(at+uint64(first), uint64(count*entry.size), maxSafepoints*entry.size)
	if err != nil {
		return nil, fmt.Errorf("read safepoints at %#x: %w", at, err)
	}
	points := make([]safepoint, 0, count)
	for ; len(b) >= entry.size; b = b[entry.size:] {
		trampoline := b[entry.address+entry.deopt:]
		p := safepoint{number(b[:entry.address]), number(trampoline[:entry.address]), number(b[entry.address:][:entry.deopt])}
		if form.FixedEntries {
			p.trampoline, p.deopt = int(int32(p.trampoline)), int(int32(p.deopt))
		} else { // 0 stands for none
			p.trampoline, p.deopt = p.trampoline-1, p.deopt-1
		}
		points = append(points, p)
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
