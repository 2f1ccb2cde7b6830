package wasm

import (
	"fmt"
	"testing"

	"ustack/symbolize"
)

// codes returns the program's code: its start, and the address of its WasmCode.
func (m *memory) codes(t *testing.T, module uint64, f fields) (all []pair) {
	t.Helper()
	r := Reader{mem: m, shape: shape{owned: f.owned}}
	for _, pc := range append([]uint64{codeStart, codeStart + tableSize}, starts()...) {
		code, err := r.codeAt(module, pc)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pair{pc, code, 0})
	}
	return all
}

// imitate gives each WasmCode, at an offset, a byte that its flags may have: that of a
// jump table, or that of a function of Liftoff.
func (m *memory) imitate(codes []pair, f fields, at int) {
	for i, c := range codes {
		flags := byte(1 << f.kind)
		if i < tables {
			flags = kindJumpTable
		}
		m.bytes[c.first+uint64(at)-base] = flags
	}
}

// starts returns where the functions' code starts.
func starts() (all []uint64) {
	for i := range functions {
		all = append(all, start(i))
	}
	return all
}

// checkFunctions checks that all functions are found, with their tiers.
func checkFunctions(t *testing.T, r *Reader) {
	t.Helper()
	for i, pc := range starts() {
		want := symbolize.Liftoff
		if i%2 == 1 {
			want = symbolize.Turbofan
		}
		if got, _, err := r.Lookup(pc); got.Index != i || got.Tier != want || err != nil {
			t.Fatalf("function %d = %+v, %v, want tier %v", i, got, err, want)
		}
	}
}

// TestByteOfAPointerIsNotTheFlags has bytes before the flags that look like them, as
// the upper bytes of pointers do where threads allocate code in heaps of their own.
func TestByteOfAPointerIsNotTheFlags(t *testing.T) {
	for i, f := range arrangements {
		for _, at := range []int{0x1d, 0x1e, 0x1f} {
			t.Run(fmt.Sprintf("%d/%#x", i, at), func(t *testing.T) {
				m, r, module := program(f, nil)
				m.imitate(m.codes(t, module, f), f, at)
				checkFunctions(t, r)
			})
		}
	}
}

// TestWrongOffsetIsNotKept has four bytes before the flags that look like them, until
// there is code whose bytes do not.
func TestWrongOffsetIsNotKept(t *testing.T) {
	const decoy = 0x1c
	for i, f := range arrangements {
		for name, wrong := range map[string]byte{"table": kindJumpTable, "kind": 1<<f.kind | kindJumpTable, "tier": 0} {
			t.Run(fmt.Sprintf("%d/%s", i, name), func(t *testing.T) {
				m, r, module := program(f, nil)
				codes := m.codes(t, module, f)
				m.imitate(codes, f, decoy)
				if _, _, err := r.Lookup(start(1)); err != nil || r.shape.flags != decoy {
					t.Fatalf("flags are at %#x, %v, want %#x", r.shape.flags, err, decoy)
				}
				m.bytes[codes[tables+5].first+decoy-base] = wrong
				if got, _, err := r.Lookup(start(5)); got.Index != 5 || got.Tier != symbolize.Turbofan || err != nil {
					t.Errorf("function 5 = %+v, %v", got, err)
				}
				checkFunctions(t, r)
			})
		}
	}
}

// TestCodeBeyondTheSampleCorrectsTheOffset is the same for code that is not among what
// the offsets are derived from.
func TestCodeBeyondTheSampleCorrectsTheOffset(t *testing.T) {
	const decoy = 0x1c
	f := arrangements[0]
	m, r, module := program(f, nil)
	codes := m.codes(t, module, f)
	m.imitate(codes, f, decoy)
	for i := range maxSampled { // more functions, after the others
		at, code := start(functions+i), m.room(wasmBytes)
		copy(m.bytes[code-base:][:wasmBytes], m.bytes[codes[tables].first-base:])
		m.put(code+codeInstructions, at)
		m.put32(code+uint64(f.index), functions+i)
		codes = append(codes, pair{at, code, 0})
	}
	m.tree(module+f.owned, codes...)
	m.put(module+f.owned+treeBytes, 0, 0, 0)
	last := functions + maxSampled - 1
	m.bytes[codes[len(codes)-1].first+decoy-base] = kindJumpTable
	if _, _, err := r.Lookup(start(1)); err != nil || r.shape.flags != decoy {
		t.Fatalf("flags are at %#x, %v, want %#x", r.shape.flags, err, decoy)
	}
	if got, _, err := r.Lookup(start(last)); got.Index != last || err != nil {
		t.Errorf("function %d = %+v, %v", last, got, err)
	}
}
