package code

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"ustack/symbolize"
)

// Optimized code checks what it was compiled for, and jumps to an exit at its end where that
// does not hold. An exit is a call, of the same size on x86-64 and arm64 (V8 11 to 14). Those
// of checks come first, in the order of their deoptimizations.
const exitSize = 4

// Elements of DeoptimizationData, from that of the inlinings.
const (
	deoptExits  = 1 // offset of the first exit in the code
	deoptChecks = 2 // number of exits of checks
)

// checkExits are where code jumps to if a check fails.
type checkExits struct{ first, end int }

// deoptimization returns the number of the deoptimization of the exit at an offset; ok is
// false if no exit begins there.
func (e checkExits) deoptimization(offset int) (number int, ok bool) {
	at := offset - e.first
	return at / exitSize, at >= 0 && offset < e.end && at%exitSize == 0
}

// checksOf returns the checks of a piece of code, by offset.
func (f *Finder) checksOf(code Code, d deoptimization, starts []uint32) ([]call, error) {
	var exits checkExits
	count := 0
	for _, part := range []struct {
		index int
		to    *int
	}{{deoptExits, &exits.first}, {deoptChecks, &count}} {
		var err error
		*part.to, err = f.heap.SmiField(d.array, arrayFirst+(f.code.DeoptInlinings+part.index)*wordSize)
		if err != nil {
			return nil, fmt.Errorf("read checks: %w", err)
		}
	}
	if exits.first < 0 || uint64(exits.first) > code.Size || count < 0 || count > len(starts) {
		return nil, fmt.Errorf("read checks: %d that leave at %#x", count, exits.first)
	}
	exits.end = exits.first + count*exitSize
	b, err := f.heap.Bytes(code.Start, uint64(exits.first), maxCode)
	if err != nil {
		return nil, fmt.Errorf("read checks: %w", err)
	}
	jumps := jumpsX86
	if f.heap.Binary().Machine() == elf.EM_AARCH64 {
		jumps = jumpsARM64
	}
	var checks []call
	jumps(b, func(offset, to int) {
		if number, ok := exits.deoptimization(to); ok {
			checks = append(checks, call{uint32(offset), starts[number]})
		}
	})
	return checks, nil
}

// jumpsX86 calls visit with the offsets of what may be jumps in code for x86-64, and where they
// lead. Other instructions may hold the same bytes: few of them lead to an exit.
func jumpsX86(code []byte, visit func(offset, to int)) {
	const (
		far                = 4 // bytes of the distance
		jump               = 0xe9
		escape, jumpIf     = 0x0f, 0x80
		condition          = 0x0f
		shortest, withTest = 1 + far, 2 + far
	)
	for i := 0; i+shortest <= len(code); i++ {
		size := shortest
		switch {
		case code[i] == jump:
		case code[i] == escape && i+withTest <= len(code) && code[i+1]&^condition == jumpIf:
			size = withTest
		default:
			continue
		}
		distance := int32(binary.LittleEndian.Uint32(code[i+size-far:]))
		visit(i, i+size+int(distance))
	}
}

// jumpsARM64 is jumpsX86 for arm64.
func jumpsARM64(code []byte, visit func(offset, to int)) {
	forms := []struct {
		mask, is    uint32
		shift, bits int // of the distance, in instructions
	}{
		{0xfc000000, 0x14000000, 0, 26}, // b
		{0xff000010, 0x54000000, 5, 19}, // b.cond
		{0x7e000000, 0x34000000, 5, 19}, // cbz, cbnz
		{0x7e000000, 0x36000000, 5, 14}, // tbz, tbnz
	}
	const instruction = 4
	for i := 0; i+instruction <= len(code); i += instruction {
		word := binary.LittleEndian.Uint32(code[i:])
		for _, form := range forms {
			if word&form.mask == form.is {
				distance := int32(word>>form.shift) << (32 - form.bits) >> (32 - form.bits)
				visit(i, i+instruction*int(distance))
			}
		}
	}
}

// known returns the instructions of Maglev's code whose places V8 keeps, since the code can be
// left there: the calls in r, and the checks. TurboFan's code has positions, or is never left.
// Translations begin at starts.
func (f *Finder) known(r *returns, code Code, d deoptimization, starts []uint32) ([]call, error) {
	if code.Tier != symbolize.Maglev || len(r.calls) == 0 { // without calls r has no translations
		return nil, nil
	}
	known, err := f.checksOf(code, d, starts)
	if err != nil {
		return nil, err
	}
	known = append(known, r.calls...)
	slices.SortFunc(known, func(a, b call) int { return cmp.Compare(a.offset, b.offset) })
	return known, nil
}

// nearest returns the call or check that is nearest to an offset; ok is false if the code has
// neither.
func (r *returns) nearest(offset int) (c call, ok bool) {
	i, _ := slices.BinarySearchFunc(r.known, offset, func(c call, offset int) int { return cmp.Compare(int(c.offset), offset) })
	nearest := math.MaxInt
	for _, k := range r.known[max(i-1, 0):min(i+1, len(r.known))] {
		if distance := max(offset-int(k.offset), int(k.offset)-offset); distance < nearest {
			c, ok, nearest = k, true, distance
		}
	}
	return c, ok
}

// near returns the places of the call or check that is nearest to an offset; nil if the code
// has neither, or V8 has not made the positions. The instruction at the offset may be a few lines
// away, or, where a function is inlined, before its first check or after its last one.
func (t *Table) near(offset int) ([]Place, error) {
	c, ok := t.returns.nearest(offset)
	if !ok {
		return nil, nil
	}
	left := maxInstructions
	places, _, err := t.translate(c, &left)
	for i := range places {
		places[i].Nearest = true
	}
	return places, err
}
