package code

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// own is the function that the tables of these tests are for.
const own v8.Value = 0x1001

func places(t *testing.T, table *Table, offset int) []Place {
	t.Helper()
	got, err := table.At(offset)
	if err != nil {
		t.Fatalf("places at %d: %v", offset, err)
	}
	return got
}

func TestTableWithoutPositionsKnowsNone(t *testing.T) {
	for name, table := range map[string]Table{
		"zero":       {},
		"a function": {Shared: own, start: 7},
		"baseline":   {Shared: own, lengths: []byte{20, 10}, bytecodes: []byte{1}},
		"inlined":    {Shared: own, inlinings: []inlining{{position(1, 0), 0}}, Inlined: []v8.Value{0x2001}},
	} {
		for _, offset := range []int{-1 << 40, -1, 0, 1, 1 << 40} {
			if got, err := table.At(offset); got != nil || err != nil {
				t.Errorf("%s: places at %d = %v, %v, want none", name, offset, got, err)
			}
		}
	}
}

// TestFunctionHasNotBegunBeforeTheFirstPosition: its frame is being built.
func TestFunctionHasNotBegunBeforeTheFirstPosition(t *testing.T) {
	for _, start := range []int{-1, 0, 77} {
		for _, unsigned := range []bool{false, true} {
			table := Table{Shared: own, start: start, unsigned: unsigned, positions: encode([]entry{{9, position(90, 0), true}}, unsigned)}
			for offset, want := range map[int]int{-1 << 40: start, -1: start, 0: start, 8: start, 9: 90, 1 << 40: 90} {
				if got := places(t, &table, offset); !slices.Equal(got, []Place{{Shared: own, Offset: want}}) {
					t.Errorf("places at %d (unsigned %v) = %v, want one at %d", offset, unsigned, got, want)
				}
			}
		}
	}
}

// TestBytecodeOffsetsAreThoseOfFrames: V8 stores offsets from the BytecodeArray, tagged.
func TestBytecodeOffsetsAreThoseOfFrames(t *testing.T) {
	table := Table{Shared: own, start: 3, first: 53, positions: encode([]entry{{0, position(10, 0), true}, {4, position(20, 0), false}}, false)}
	for offset, want := range map[int]int{0: 3, 52: 3, 53: 10, 56: 10, 57: 20, 1 << 31: 20} {
		if got := places(t, &table, offset); !slices.Equal(got, []Place{{Shared: own, Offset: want}}) {
			t.Errorf("places at %d = %v, want one at %d", offset, got, want)
		}
	}
}

// TestBaselineInstructionsAreOfTheirBytecode has a prologue of 20 bytes, then 10 for
// each bytecode of one byte. Offsets are those of instructions: 29 is the last byte of
// the first bytecode's code, 30 the first byte of the second's.
func TestBaselineInstructionsAreOfTheirBytecode(t *testing.T) {
	table := Table{
		Shared: own, start: 3, lengths: []byte{20, 10, 10, 10}, bytecodes: []byte{200, 200, 200},
		sizes:     slices.Repeat([]byte{1}, widths*256),
		positions: encode([]entry{{0, position(10, 0), true}, {1, position(20, 0), true}, {2, position(30, 0), true}}, false),
	}
	for offset, want := range map[int]int{0: 3, 19: 3, 20: 10, 29: 10, 30: 20, 39: 20, 40: 30, 49: 30, 1 << 40: 30} {
		if got := places(t, &table, offset); !slices.Equal(got, []Place{{Shared: own, Offset: want}}) {
			t.Errorf("places at %d = %v, want one at %d", offset, got, want)
		}
	}
	for n := range table.lengths {
		cut := table
		cut.lengths = append(slices.Clone(table.lengths[:n]), 0x80)
		if _, err := cut.At(1 << 20); !errors.Is(err, errTableCut) {
			t.Errorf("lengths cut after %d: error = %v, want %v", n, err, errTableCut)
		}
	}
	table.sizes, table.bytecodes = nil, nil
	if got := places(t, &table, 49); len(got) != 1 {
		t.Errorf("places without the sizes of bytecodes = %v, want one", got)
	}
}

// nestedTable has functions inlined four deep: each inlining is at a call in the one
// before it, and the last two are of the function itself and of the first callee.
func nestedTable() Table {
	return Table{
		Shared: own, Inlined: []v8.Value{0x2001, 0x3001},
		inlinings: []inlining{
			{position(10, 0), 0}, {position(20, 1), 1}, {position(30, 2), -1}, {position(40, 3), 0},
		},
		positions: encode([]entry{
			{0, position(1, 0), true},
			{4, position(11, 1), true},
			{8, position(21, 2), true},
			{12, position(31, 3), true},
			{16, position(41, 4), true},
			{20, position(2, 0), true},
			{24, 1, true},
		}, false),
	}
}

func TestInlinedFunctionsAreNestedInTheirCallers(t *testing.T) {
	table := nestedTable()
	for offset, want := range map[int][]Place{
		3:  {{Shared: own, Offset: 1}},
		4:  {{Shared: 0x2001, Offset: 11}, {Shared: own, Offset: 10}},
		8:  {{Shared: 0x3001, Offset: 21}, {Shared: 0x2001, Offset: 20}, {Shared: own, Offset: 10}},
		12: {{Shared: own, Offset: 31}, {Shared: 0x3001, Offset: 30}, {Shared: 0x2001, Offset: 20}, {Shared: own, Offset: 10}},
		16: {{Shared: 0x2001, Offset: 41}, {Shared: own, Offset: 40}, {Shared: 0x3001, Offset: 30}, {Shared: 0x2001, Offset: 20}, {Shared: own, Offset: 10}},
		20: {{Shared: own, Offset: 2}},
		24: {{Shared: own, Offset: -1}},
	} {
		if diff := cmp.Diff(want, places(t, &table, offset), cmp.AllowUnexported(Place{})); diff != "" {
			t.Errorf("places at %d (-want +got):\n%s", offset, diff)
		}
	}
}

func TestDamagedInliningsAreRefused(t *testing.T) {
	for name, damage := range map[string]func(*Table){
		"a function that is not there":            func(t *Table) { t.inlinings[1].function = 2 },
		"a function far away":                     func(t *Table) { t.inlinings[1].function = 1 << 30 },
		"functions missing":                       func(t *Table) { t.Inlined = nil },
		"an inlining that is not there":           func(t *Table) { t.inlinings[2].call = position(1, 9) },
		"an inlining just beyond the last":        func(t *Table) { t.inlinings[2].call = position(1, 5) },
		"inlinings missing":                       func(t *Table) { t.inlinings = nil },
		"an external position, of an inlining":    func(t *Table) { t.inlinings[2].call = 1<<64 - 1 },
		"an entry of an inlining that is missing": func(t *Table) { t.positions = encode([]entry{{0, position(1, 65535), true}}, false) },
	} {
		table := nestedTable()
		damage(&table)
		if got, err := table.At(16); err == nil {
			t.Errorf("%s: places = %v, want an error", name, got)
		}
	}
}

// TestInliningsInACircleEnd: an inlining that is within itself, and two in each other.
func TestInliningsInACircleEnd(t *testing.T) {
	for name, inlinings := range map[string][]inlining{
		"itself":     {{position(1, 1), 0}},
		"each other": {{position(1, 2), 0}, {position(2, 1), -1}},
	} {
		table := Table{Shared: own, Inlined: []v8.Value{0x2001}, inlinings: inlinings, positions: encode([]entry{{0, position(5, 1), true}}, false)}
		got, err := table.At(0)
		if len(got) > maxInlined+1 || (err == nil) != (len(got) > 0) {
			t.Errorf("%s: %d places, %v, want %d at most", name, len(got), err, maxInlined+1)
		}
	}
}

// TestPositionsAreWithinTheirFunctions: parts of two tables may be read as one.
func TestPositionsAreWithinTheirFunctions(t *testing.T) {
	type bounds map[v8.Value][2]int
	for name, tt := range map[string]struct {
		bounds bounds
		right  bool
	}{
		"all within":           {bounds{own: {1, 40}, 0x2001: {11, 41}, 0x3001: {21, 30}}, true},
		"one before its own":   {bounds{own: {2, 40}, 0x2001: {11, 41}, 0x3001: {21, 30}}, false},
		"one after an inlined": {bounds{own: {1, 40}, 0x2001: {11, 40}, 0x3001: {21, 30}}, false},
		"a call after it":      {bounds{own: {1, 40}, 0x2001: {11, 41}, 0x3001: {21, 29}}, false},
		"a call in the caller": {bounds{own: {1, 39}, 0x2001: {11, 41}, 0x3001: {21, 30}}, false},
	} {
		table := nestedTable()
		err := table.Check(func(shared v8.Value) (start, end int) { return tt.bounds[shared][0], tt.bounds[shared][1] })
		if (err == nil) != tt.right {
			t.Errorf("%s: error = %v, want none = %v", name, err, tt.right)
		}
	}
}

func TestCutPositionsAreAnError(t *testing.T) {
	whole := nestedTable()
	for n := range whole.positions {
		table := whole
		table.positions = whole.positions[:n]
		got, err := table.At(1 << 20)
		if err != nil && !errors.Is(err, errTableCut) {
			t.Errorf("%d bytes: %v, want %v", n, err, errTableCut)
		}
		if err != nil && got != nil {
			t.Errorf("%d bytes: places = %v with an error", n, got)
		}
	}
}

// readTable reads the table of the Code at an address.
func (m *image) readTable(t *testing.T, f *Finder, at, shared uint64) (Table, error) {
	t.Helper()
	code, err := f.Code(v8.Ref(at))
	if err != nil {
		t.Fatal(err)
	}
	return f.Table(code, v8.Value(shared))
}

// compiled makes the SharedFunctionInfo of a function with bytecodes.
func (m *image) compiled(array uint64) uint64 {
	shared := m.sharedFunctions(1)[0]
	m.put(shared-tag+uint64(m.Layout.SharedData), array|tag)
	return shared
}

// TestTablesAreCopiesOfWhatV8Has reads the tables of all kinds of code.
func TestTablesAreCopiesOfWhatV8Has(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		f.code.sizes = slices.Repeat([]byte{1}, widths*256)
		array := m.bytecode(slices.Repeat([]byte{200}, 4), []entry{{0, position(10, 0), true}, {2, position(12, 0), true}})
		shared := m.compiled(array)

		table, err := f.BytecodeTable(v8.Value(shared))
		if err != nil {
			t.Fatal(err)
		}
		if table.Shared != v8.Value(shared) || table.Bytes() == 0 {
			t.Errorf("table of %#x has %d bytes, want some of %#x", uint64(table.Shared), table.Bytes(), shared)
		}
		first := int(f.code.bytecodes) - tag
		for at, want := range map[int]int{0: 10, 1: 10, 2: 12, 3: 12} {
			if got := places(t, &table, first+at); len(got) != 1 || got[0].Offset != want {
				t.Errorf("places of bytecode %d = %v, want one at %d", at, got, want)
			}
		}

		at, _ := m.code(m.Layout.KindBaseline, 60, 0, m.table([]byte{20, 10, 10, 10, 10}))
		if table, err = m.readTable(t, f, at, shared); err != nil {
			t.Fatal(err)
		}
		for offset, want := range map[int]int{20: 10, 39: 10, 40: 12, 59: 12} {
			if got := places(t, &table, offset); len(got) != 1 || got[0].Offset != want {
				t.Errorf("places at %d of baseline code = %v, want one at %d", offset, got, want)
			}
		}
		clear(m.bytes[len(m.bytes)/2:])
		if got := places(t, &table, 40); len(got) != 1 || got[0].Offset != 12 {
			t.Errorf("places in a table whose code is gone = %v, want one at 12", got)
		}
	})
}

// TestRecursionIsInlinedInItself: V8 gives the function itself an index below 0.
func TestRecursionIsInlinedInItself(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		functions := m.sharedFunctions(2)
		at, _ := m.optimized(functions,
			[]inlinedAt{{function: -1}, {function: 0}},
			[]sourcePosition{position(10, 0), position(20, 1)},
			[]entry{{4, position(30, 2), true}})
		table, err := m.readTable(t, m.finder(t), at, functions[0])
		if err != nil {
			t.Fatal(err)
		}
		want := []Place{{Shared: v8.Value(functions[1]), Offset: 30}, {Shared: v8.Value(functions[0]), Offset: 20}, {Shared: v8.Value(functions[0]), Offset: 10}}
		if diff := cmp.Diff(want, places(t, &table, 4), cmp.AllowUnexported(Place{})); diff != "" {
			t.Errorf("places (-want +got):\n%s", diff)
		}
		if !slices.Equal(table.Inlined, []v8.Value{v8.Value(functions[1])}) {
			t.Errorf("inlined = %#x, want %#x", table.Inlined, functions[1:])
		}
	})
}

func TestTablesThatCannotBeAreRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		functions := m.sharedFunctions(1)
		if _, err := f.Table(Code{Builtin: true}, v8.Value(functions[0])); !errors.Is(err, errNotTable) {
			t.Errorf("table of a builtin: error = %v, want %v", err, errNotTable)
		}
		if _, err := f.BytecodeTable(v8.Value(small(1))); err == nil {
			t.Error("table of a number has no error")
		}
		if _, err := f.BytecodeTable(v8.Value(m.array())); err == nil {
			t.Error("table of an array has no error")
		}
		if table, err := f.BytecodeTable(v8.Value(functions[0])); !contains(err, "bytecodes") && !contains(err, "read") {
			t.Errorf("table of a function without bytecodes = %+v, %v, want an error", table, err)
		}
		at, _ := m.optimized(functions, nil, nil, []entry{{0, position(1, 0), true}})
		positions := binary.LittleEndian.Uint64(m.bytes[at+uint64(m.Release.Code.Positions)-imageBase:]) - tag
		for _, length := range []int{-1, maxTable + 1, 1<<31 - 1} {
			m.put(positions+arrayLength, small(length))
			if _, err := m.readTable(t, f, at, functions[0]); err == nil {
				t.Errorf("table of %d bytes has no error", length)
			}
		}
	})
}

// TestInliningsAreBounded: counts that no code can have allocate nothing.
func TestInliningsAreBounded(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		functions := m.sharedFunctions(2)
		f := m.finder(t)
		at, _ := m.optimized(functions, []inlinedAt{{function: 0}}, []sourcePosition{position(1, 0)}, []entry{{0, position(2, 1), true}})
		code, err := f.Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		data := uint64(code.deopt) - tag
		element := func(i int) uint64 { return data + arrayFirst + uint64(i)*wordSize }
		inlinings := binary.LittleEndian.Uint64(m.bytes[element(f.code.DeoptInlinings)-imageBase:]) - tag
		for _, tt := range []struct {
			name string
			at   uint64
			was  int
		}{{"functions", element(f.code.DeoptInlined), 1}, {"bytes of inlinings", inlinings + arrayLength, inliningSize}} {
			for _, n := range []int{-1, maxInlinings*inliningSize + 1, 1<<31 - 1} {
				m.put(tt.at, small(n))
				if table, err := f.Table(code, v8.Value(functions[0])); err == nil {
					t.Errorf("%d %s: table of %d bytes, want an error", n, tt.name, table.Bytes())
				}
			}
			m.put(tt.at, small(tt.was))
		}
		if _, err := f.Table(code, v8.Value(functions[0])); err != nil {
			t.Errorf("table as V8 made it: %v", err)
		}
	})
}

// FuzzTable asks tables of any content for their places.
func FuzzTable(f *testing.F) {
	nested := nestedTable()
	f.Add(nested.positions, []byte(nil), []byte{1, 2, 3}, 16, 0, false)
	f.Add(encode(entries, true), []byte{20, 10, 0x80}, []byte{200, 0, 1, 255}, 1<<40, 53, true)
	f.Add(encode(entries, false), []byte{}, []byte(nil), -1<<62, 1<<31, false)
	f.Fuzz(func(t *testing.T, positions, lengths, bytecodes []byte, offset, first int, unsigned bool) {
		table := nestedTable()
		table.positions, table.lengths, table.bytecodes = positions, lengths, bytecodes
		table.first, table.unsigned, table.sizes = first, unsigned, sizes
		for i := range table.inlinings { // any place in the tables, mostly wrong
			if len(bytecodes) > i {
				table.inlinings[i] = inlining{position(i, int(bytecodes[i]%8)), int(int8(bytecodes[i])) % 4}
			}
		}
		checked := table.Check(func(v8.Value) (start, end int) { return 0, 1 << 30 })
		got, err := table.At(offset)
		if len(got) > maxInlined+1 || err != nil && got != nil {
			t.Errorf("%d places, %v", len(got), err)
		}
		for _, p := range got {
			if p.Offset < -1 || p.Shared == 0 {
				t.Errorf("place %+v, %v", p, checked)
			}
		}
	})
}

// FuzzDamagedTable reads tables from memory of which random words are wrong.
func FuzzDamagedTable(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[len(nodetest.Versions)-1])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		array := m.bytecode(slices.Repeat([]byte{200}, 40), []entry{{2, position(11, 0), true}})
		shared := m.compiled(array)
		functions := append([]uint64{shared}, m.sharedFunctions(2)...)
		at, _ := m.optimized(functions, []inlinedAt{{function: 0}, {function: 1}, {function: -1}},
			[]sourcePosition{position(1, 0), position(2, 1), position(3, 2)}, []entry{{0, position(2, 3), true}})
		baseline, _ := m.code(m.Layout.KindBaseline, 60, 0, m.table([]byte{20, 10, 10}))
		finder := m.finder(t)
		finder.code.sizes = slices.Repeat([]byte{1}, widths*256)
		m.damage(rand.New(rand.NewPCG(seed, 0)))
		for _, read := range []func() (Table, error){
			func() (Table, error) { return finder.BytecodeTable(v8.Value(shared)) },
			func() (Table, error) { return finder.tableAs(at, symbolize.Turbofan, shared) },
			func() (Table, error) { return finder.tableAs(baseline, symbolize.Baseline, shared) },
		} {
			table, err := read()
			if n := table.Bytes(); n > len(m.bytes)*2 {
				t.Errorf("table of %d bytes from memory of %d, %v", n, len(m.bytes), err)
			}
			for _, offset := range []int{-1, 0, 1, 20, 53, 1 << 31} {
				if got, _ := table.At(offset); len(got) > maxInlined+1 {
					t.Errorf("places at %d = %d, want %d at most", offset, len(got), maxInlined+1)
				}
			}
		}
	})
}

// tableAs reads the table of the Code at an address as if it were of that tier.
func (f *Finder) tableAs(at uint64, tier symbolize.Tier, shared uint64) (Table, error) {
	code, err := f.Code(v8.Ref(at))
	if err != nil {
		return Table{}, fmt.Errorf("read code: %w", err)
	}
	code.Tier = tier
	return f.Table(code, v8.Value(shared))
}
