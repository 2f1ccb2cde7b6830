package code

import (
	"debug/elf"
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

func TestJumpsAreWhereTheyLead(t *testing.T) {
	for name, tt := range map[string]struct {
		jumps func(code []byte, visit func(offset, to int))
		code  []byte
		want  map[int]int
	}{
		// nop; jo +0x10; jmp -7; add eax,[rcx]; jnle +0x100, whose last byte is missing
		"x86-64": {jumpsX86, []byte{
			0x90, 0x0f, 0x80, 0x10, 0, 0, 0, 0xe9, 0xf9, 0xff, 0xff, 0xff, 0x03, 0x01, 0x0f, 0x8f, 0, 1, 0,
		}, map[int]int{1: 23, 7: 5}},
		// b +8; b.vs +16; cbnz x1, -4; tbz w2, #3, +32; ldr x0, [x1]; bc.eq +16, which is no b.cond
		"arm64": {jumpsARM64, words(0x14000002, 0x54000086, 0xb5ffffe1, 0x36180102, 0xf9400020, 0x54000090), map[int]int{0: 8, 4: 20, 8: 4, 12: 44}},
		"empty": {jumpsX86, nil, nil},
	} {
		got := make(map[int]int)
		tt.jumps(tt.code, func(offset, to int) { got[offset] = to })
		if !maps.Equal(got, tt.want) {
			t.Errorf("%s: jumps = %v, want %v", name, got, tt.want)
		}
	}
}

func words(all ...uint32) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// jump returns an instruction that jumps so far if numbers have overflowed.
func (m *image) jump(distance int) []byte {
	if m.Machine() == elf.EM_AARCH64 {
		return words(0x54000006 | uint32(distance/4)<<5)
	}
	return binary.LittleEndian.AppendUint32([]byte{0x0f, 0x80}, uint32(distance-6))
}

const checkAt = 12

// checking makes Maglev's code without positions that has a check, beside calls.
func (m *image) checking(t *testing.T) (at, own, inlined uint64) {
	t.Helper()
	at, own, inlined = m.calling(symbolize.Maglev, nil)
	code, err := m.finder(t).Code(v8.Ref(at))
	if err != nil {
		t.Fatal(err)
	}
	copy(m.bytes[code.Start+checkAt-imageBase:], m.jump(firstExit-checkAt))
	return at, own, inlined
}

// TestMaglevWithoutPositionsHasTheNearest has code with a check of its own at 12, and calls
// that return to 32, of an inlined function, and to 64.
func TestMaglevWithoutPositionsHasTheNearest(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		if m.Layout.KindMaglev == 0 {
			return // the version has no Maglev
		}
		at, own, inlined := m.checking(t)
		table, err := m.readTable(t, m.finder(t), at, own)
		if err != nil {
			t.Fatal(err)
		}
		alone := []Place{{Shared: v8.Value(own), Offset: 208, Nearest: true}}
		nested := []Place{{Shared: v8.Value(inlined), Offset: 708, Nearest: true}, {Shared: v8.Value(own), Offset: 204, Nearest: true}}
		for offset, want := range map[int][]Place{0: alone, checkAt: alone, 21: alone, 23: nested, 40: nested, 49: alone, 1 << 30: alone} {
			if got := places(t, &table, offset); !slices.Equal(got, want) {
				t.Errorf("places at %d = %v, want %v", offset, got, want)
			}
		}
		if got := places(t, &table, inlinedCall-1); len(got) != 2 || got[0].Nearest {
			t.Errorf("places of a call = %v, want two that are its own", got)
		}
		turbofan, err := m.finder(t).tableAs(at, symbolize.Turbofan, own)
		if got := places(t, &turbofan, checkAt); err != nil || got != nil {
			t.Errorf("places in TurboFan's code = %v, %v, want none", got, err)
		}
	})
}

// TestChecksThatCannotBeAreRefused damages what checks are found by.
func TestChecksThatCannotBeAreRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		if m.Layout.KindMaglev == 0 {
			return // the version has no Maglev
		}
		at, own, _ := m.checking(t)
		code, err := m.finder(t).Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		element := func(i int) uint64 {
			return uint64(code.deopt) - tag + arrayFirst + uint64(m.Release.Code.DeoptInlinings+i)*wordSize
		}
		whole := slices.Clone(m.bytes)
		for name, damage := range map[string]func(){
			"exits beyond the code": func() { m.put(element(deoptExits), small(callingSize+1)) },
			"exits before the code": func() { m.put(element(deoptExits), small(-1)) },
			"too many":              func() { m.put(element(deoptChecks), small(4)) },
			"fewer than none":       func() { m.put(element(deoptChecks), small(-1)) },
			"no number":             func() { m.put(element(deoptChecks), own) },
		} {
			damage()
			if table, err := m.readTable(t, m.finder(t), at, own); err == nil {
				t.Errorf("%s: checks and calls = %v, want an error", name, table.returns.known)
			}
			copy(m.bytes, whole)
		}
	})
}

// FuzzDamagedChecks reads checks from memory of which random words are wrong.
func FuzzDamagedChecks(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[len(nodetest.Versions)-1])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		at, own, _ := m.checking(t)
		finder := m.finder(t)
		m.damage(rand.New(rand.NewPCG(seed, 0)))
		table, err := finder.tableAs(at, symbolize.Maglev, own)
		if err != nil {
			return
		}
		if n := len(table.returns.known); n > callingSize+len(table.returns.calls) {
			t.Errorf("checks and calls in %d bytes = %d", callingSize, n)
		}
		for offset := range callingSize {
			if got, _ := table.At(offset); len(got) > maxInlined+1 {
				t.Errorf("places at %d = %d, want %d at most", offset, len(got), maxInlined+1)
			}
		}
	})
}
