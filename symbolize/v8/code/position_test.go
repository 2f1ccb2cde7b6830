package code

import (
	"encoding/binary"
	"errors"
	"testing"
)

// An entry is an entry of a position table, as V8 adds it.
type entry struct {
	code      int // offset
	position  sourcePosition
	statement bool
}

func position(offset, inlining int) sourcePosition {
	return sourcePosition(offset+1)<<1 | sourcePosition(inlining)<<31
}

// encode builds a table as V8 does: up to 13 with signed steps, from 14 on
// unsigned.
func encode(entries []entry, unsigned bool) []byte {
	var table []byte
	code, source := -1, int64(0)
	for _, e := range entries {
		step := e.code - code
		switch {
		case unsigned && e.statement:
			table = binary.AppendUvarint(table, uint64(step)<<stepFlags|1)
		case unsigned:
			table = binary.AppendUvarint(table, uint64(step)<<stepFlags)
		case e.statement:
			table = binary.AppendVarint(table, int64(step))
		default:
			table = binary.AppendVarint(table, int64(^step))
		}
		table = binary.AppendVarint(table, int64(e.position)-source)
		code, source = e.code, int64(e.position)
	}
	return table
}

var entries = []entry{
	{0, position(17, 0), true},
	{5, position(300, 0), false},
	{5, position(40, 2), true},
	{130, position(20, 1), false},
	{70000, position(1<<29, 65535), true},
}

func TestPositionIsTheLastEntryNotBehind(t *testing.T) {
	for _, tt := range []struct {
		name         string
		at           int
		offset, into int
		ok           bool
	}{
		{"before the first", -1, 0, 0, false},
		{"the first", 0, 17, 0, true},
		{"between two", 4, 17, 0, true},
		{"the later of two at one place", 5, 40, 2, true},
		{"an expression", 130, 20, 1, true},
		{"far", 69999, 20, 1, true},
		{"the last", 1 << 30, 1 << 29, 65535, true},
	} {
		for _, unsigned := range []bool{false, true} {
			got, ok, err := positionAt(encode(entries, unsigned), tt.at, unsigned)
			if err != nil || ok != tt.ok {
				t.Errorf("%s (unsigned %v): %v, %v, want %v", tt.name, unsigned, ok, err, tt.ok)
			}
			if ok && (got.offset() != tt.offset || got.inlining() != tt.into) {
				t.Errorf("%s (unsigned %v): offset %d in %d, want %d in %d",
					tt.name, unsigned, got.offset(), got.inlining(), tt.offset, tt.into)
			}
		}
	}
}

func TestTableThatEndsInANumberIsSaid(t *testing.T) {
	whole := encode(entries, false)
	for n := range whole {
		_, _, err := positionAt(whole[:n], 1<<30, false)
		if err != nil && !errors.Is(err, errTableCut) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := positionAt(whole[:len(whole)-1], 1<<30, false); !errors.Is(err, errTableCut) {
		t.Errorf("error = %v, want %v", err, errTableCut)
	}
}

func TestExternalPositionIsNone(t *testing.T) {
	if got := sourcePosition(1 | 5<<1).offset(); got != -1 {
		t.Errorf("offset = %d, want -1", got)
	}
}

// Bytecodes of one to three bytes, whose operands may be wide.
var sizes = bytecodeSizes{
	1, 1, 1, 1, 1, 2, 3, // one byte per operand
	1, 1, 1, 1, 1, 3, 5, // two
	1, 1, 1, 1, 1, 5, 9, // four
}

func TestBaselineOffsetIsOfItsBytecode(t *testing.T) {
	bytecodes := []byte{4, 5, 0, wide, 5, 0, 0, 6, 0, 0, extraWide, 6, 0, 0, 0, 0, 0, 0, 0, 0, debugWide, 5, 0, 0}
	starts := []int{0, 1, 3, 7, 10, 20, 24}
	next := func(at int) int { return sizes.next(bytecodes, at) }
	for i, start := range starts[:len(starts)-1] {
		if got := next(start); got != starts[i+1] {
			t.Errorf("next of %d = %d, want %d", start, got, starts[i+1])
		}
	}
	lengths := []uint64{10, 4, 200, 8, 1, 1, 1} // of the prologue's code, then of each bytecode's
	var table []byte
	for _, n := range lengths {
		table = binary.AppendUvarint(table, n)
	}
	for _, tt := range []struct {
		offset uint64
		want   int
	}{{0, -1}, {10, -1}, {11, 0}, {14, 0}, {15, 1}, {214, 1}, {215, 3}, {223, 7}, {225, 20}, {9999, 20}} {
		if got, err := bytecodeAt(table, tt.offset, next); got != tt.want || err != nil {
			t.Errorf("bytecode at %d = %d, %v, want %d", tt.offset, got, err, tt.want)
		}
	}
	if _, err := bytecodeAt([]byte{1, 0x80}, 10, next); !errors.Is(err, errTableCut) {
		t.Errorf("error = %v, want %v", err, errTableCut)
	}
}

func FuzzPositions(f *testing.F) {
	f.Add(encode(entries, false), 5, false)
	f.Add(encode(entries, true), 5, true)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, -1, true)
	f.Fuzz(func(t *testing.T, table []byte, at int, unsigned bool) {
		p, ok, _ := positionAt(table, at, unsigned)
		if ok && (p.offset() < -1 || p.inlining() < 0) {
			t.Errorf("offset %d in %d", p.offset(), p.inlining())
		}
		bytecodeAt(table, uint64(at), func(bytecode int) int {
			next := sizes.next(table, bytecode)
			if next < bytecode {
				t.Errorf("the bytecode after %d is at %d", bytecode, next)
			}
			return next
		})
	})
}
