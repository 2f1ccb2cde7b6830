package v8

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8/release"
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

// An echo is a memory that repeats the same few words everywhere.
type echo []byte

func (e echo) ReadAt(p []byte, addr uint64) (int, error) {
	if len(e) == 0 {
		return 0, errors.New("nothing there")
	}
	for i := range p {
		p[i] = e[(addr+uint64(i))%uint64(len(e))]
	}
	return len(p), nil
}

// FuzzCode reads frames and code from meaningless memory.
func FuzzCode(f *testing.F) {
	l := Layout{
		FirstJSFunction: 1, LastJSFunction: 0x4000, Code: 0x101, BytecodeArray: 0x101,
		FunctionCode: 8, CodeSize: 16, CodeFlags: 24, CodeStart: 32, CodeStartPointer: 1, CodeKindMask: 15,
		KindBaseline: 11, KindTurbofan: 13, FPBytecodeArray: -32, FPBytecodeOffset: -40,
	}
	f.Add(slices.Repeat([]byte{1}, 64), uint64(0x1001))
	f.Add([]byte{1, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1}, uint64(8))
	f.Fuzz(func(t *testing.T, data []byte, at uint64) {
		code := codeLayout{
			Code: release.Code{
				Deopt: 40, Positions: 48, Streams: true,
				DeoptInlined: 1, DeoptLiterals: 2, DeoptShared: 3, DeoptInlinings: 4, SharedWrapped: true,
			},
			bytecodes: 16, bytecodePositions: 24,
			sizes: sizes, byteArrays: []uint16{0x101}, instructionsObject: 0x101,
		}
		h := &Heap{mem: echo(data), layout: &l, kinds: map[uint16]string{0x101: "Map"}, maps: map[uint64]*Map{}}
		c := &Codes{h, code, 0}
		found, _ := c.OfFunction(Value(at), at)
		found.Tier = symbolize.Turbofan
		places, _ := c.Optimized(found, at)
		if len(places) > maxInlined+1 {
			t.Errorf("places = %d, want %d at most", len(places), maxInlined+1)
		}
		call, _ := c.Call(at)
		if len(call.Arguments) > maxArguments {
			t.Errorf("arguments = %d, want %d at most", len(call.Arguments), maxArguments)
		}
		c.Exit(at)
		c.Template(at)
		c.Interpreted(at)
		c.IsBaseline(at)
		c.Returning(at)
		c.Baseline(found, at, at)
		c.At(at, at-min(at, 1<<12))
	})
}
