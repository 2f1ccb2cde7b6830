package code

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// Calls of the code that calling makes: where they return to, and where they do once the
// code is discarded.
const (
	inlinedCall, inlinedTrampoline = 32, 88
	ownCall, ownTrampoline         = 64, 92
	plainCall                      = 70 // it has no deoptimization
	firstExit                      = 84 // of the first deoptimization
	callingSize                    = 100
)

// safepointTable writes a table of safepoints.
func (m *image) safepointTable(tier symbolize.Tier, points []safepoint) []byte {
	form := &m.Release.Code.Safepoints
	table := make([]byte, form.Length)
	table = binary.LittleEndian.AppendUint32(table, uint32(len(points)))
	if form.FixedEntries {
		table = binary.LittleEndian.AppendUint32(table, 3) // bytes of registers, which are apart
		for _, p := range points {
			for _, n := range []int{p.offset, p.deopt, p.trampoline} {
				table = binary.LittleEndian.AppendUint32(table, uint32(int32(n)))
			}
		}
		return table
	}
	const registers, address, deopt = 1, 2, 1
	table = binary.LittleEndian.AppendUint32(table, 1|registers<<1|address<<4|deopt<<7)
	if tier == symbolize.Maglev {
		table = append(table, make([]byte, safepointHeader-len(table))...)
	}
	for _, p := range points {
		table = binary.LittleEndian.AppendUint16(table, uint16(p.offset))
		table = append(table, byte(p.deopt+1))
		table = binary.LittleEndian.AppendUint16(table, uint16(p.trampoline+1))
		table = append(table, 0xee)
		if tier == symbolize.Maglev {
			table = append(table, 0xdd)
		}
	}
	return table
}

// calling makes code that calls on behalf of an inlined function, then on its own, and
// returns where it is and the two functions.
func (m *image) calling(tier symbolize.Tier, entries []entry) (at, own, inlined uint64) {
	c := &m.Release.Code
	bytecode := func(first int) uint64 {
		return m.compiled(m.bytecode(make([]byte, 20), []entry{{0, position(first, 0), true}, {4, position(first+4, 0), true}, {8, position(first+8, 0), true}}))
	}
	own, inlined = bytecode(200), bytecode(700)
	w := &translationWriter{form: &c.Translations}
	both := w.begin(-1, 2)
	w.frame(4, 1)
	w.frame(8, 0)
	alone := w.begin(-1, 1)
	w.frame(8, 1)

	shared := own
	if c.SharedWrapped {
		shared = m.object("SharedFunctionInfoWrapper", 0, shared) | tag
	}
	data := make([]uint64, c.DeoptInlinings+deoptEntries+3*deoptEntry)
	data[deoptTranslations] = m.table(w.data)
	data[c.DeoptShared], data[c.DeoptInlined] = shared, small(1)
	data[c.DeoptLiterals], data[c.DeoptInlinings] = m.array(inlined, own), m.table(nil)
	data[c.DeoptInlinings+deoptExits], data[c.DeoptInlinings+deoptChecks] = small(firstExit), small(1)
	for i, start := range []int{alone, both, alone} {
		data[c.DeoptInlinings+deoptEntries+i*deoptEntry+deoptTranslation] = small(start)
	}
	const room = 200
	at, start := m.code(m.tiers()[tier], callingSize+room, m.array(data...), m.table(encode(entries, c.UnsignedSteps)))
	m.put32(at+uint64(m.Layout.CodeSize), callingSize)
	copy(m.bytes[start+callingSize-imageBase:], m.safepointTable(tier, []safepoint{
		{inlinedCall, inlinedTrampoline, 1}, {ownCall, ownTrampoline, 2}, {plainCall, -1, -1},
	}))
	return at, own, inlined
}

// TestCallsAreWhereV8WouldReturnTo has a table of positions that says otherwise.
func TestCallsAreWhereV8WouldReturnTo(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		for tier := range m.tiers() {
			if tier == symbolize.Baseline {
				continue
			}
			at, own, inlined := m.calling(tier, []entry{{0, position(50, 0), true}, {66, position(60, 0), true}})
			table, err := m.readTable(t, m.finder(t), at, own)
			if err != nil {
				t.Fatalf("%v: %v", tier, err)
			}
			nested := []Place{{Shared: v8.Value(inlined), Offset: 708}, {Shared: v8.Value(own), Offset: 204}}
			alone := []Place{{Shared: v8.Value(own), Offset: 208}}
			for returns, want := range map[int][]Place{
				inlinedCall: nested, inlinedTrampoline: nested, ownCall: alone, ownTrampoline: alone,
				plainCall: {{Shared: v8.Value(own), Offset: 60}},
			} {
				if got := places(t, &table, returns-1); !slices.Equal(got, want) {
					t.Errorf("%v: places of the call that returns to %d = %v, want %v", tier, returns, got, want)
				}
				if got, want := table.ReturnsTo(returns), returns != plainCall; got != want {
					t.Errorf("%v: a call returns to %d = %v, want %v", tier, returns, got, want)
				}
			}
			bounds := func(v8.Value) (start, end int) { return 0, 1000 }
			if err := table.Check(bounds); err != nil {
				t.Errorf("%v: Check = %v", tier, err)
			}
			if err := table.Check(func(v8.Value) (start, end int) { return 0, 207 }); err == nil {
				t.Errorf("%v: a position in an inlined function's bytecodes is outside of it: no error", tier)
			}
		}
	})
}

// TestMaglevsLoopsHaveNoPosition has a loop, from 48, whose position is that of its first
// line, and of which a call is elsewhere.
func TestMaglevsLoopsHaveNoPosition(t *testing.T) {
	loop := []entry{{0, position(204, 0), true}, {40, position(300, 0), true}, {48, position(202, 0), true}, {80, position(400, 0), true}}
	ahead := slices.Clone(loop)
	ahead[2].position = position(301, 0) // code that Maglev has moved
	eachImage(t, func(t *testing.T, m *image) {
		for tier := range m.tiers() {
			for name, tt := range map[string]struct {
				entries []entry
				maglev  map[int]int // positions
			}{
				"loop":  {loop, map[int]int{44: 300, 50: -1, 70: -1, 79: -1, 80: 400}},
				"moved": {ahead, map[int]int{44: 300, 50: 301, 70: -1, 79: -1, 80: 400}},
			} {
				if tier == symbolize.Baseline {
					continue
				}
				at, own, _ := m.calling(tier, tt.entries)
				table, err := m.readTable(t, m.finder(t), at, own)
				if err != nil {
					t.Fatal(err)
				}
				for offset, want := range tt.maglev {
					if tier != symbolize.Maglev && offset > 44 && offset < 80 {
						want = tt.entries[2].position.offset()
					}
					got, err := table.At(offset)
					if len(got) != 1 || got[0].Offset != want || errors.Is(err, ErrDoubtful) != (want < 0) {
						t.Errorf("%v, %s: places at %d = %v, %v, want one at %d", tier, name, offset, got, err, want)
					}
				}
			}
		}
	})
}

// TestCallsThatCannotBeAreRefused damages what calls are read from.
func TestCallsThatCannotBeAreRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		c, f := &m.Release.Code, m.finder(t)
		at, own, _ := m.calling(symbolize.Turbofan, nil)
		code, err := f.Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		deopt := uint64(code.deopt) - tag
		element := func(i int) uint64 { return deopt + arrayFirst + uint64(i)*wordSize }
		whole := slices.Clone(m.bytes)
		for name, damage := range map[string]func(){
			"many safepoints":   func() { m.put32(code.Start+code.Size+uint64(c.Safepoints.Length), maxSafepoints+1) },
			"safepoints beyond": func() { m.put32(code.Start+code.Size+uint64(c.Safepoints.Length), maxSafepoints) },
			"no translation":    func() { m.put(element(c.DeoptInlinings+deoptEntries+deoptEntry+deoptTranslation), small(1)) },
			"start far away":    func() { m.put(element(c.DeoptInlinings+deoptEntries+deoptEntry+deoptTranslation), small(1<<30)) },
			"start no number":   func() { m.put(element(c.DeoptInlinings+deoptEntries+deoptTranslation), own) },
			"no bytes":          func() { m.put(element(deoptTranslations), small(0)) },
			"another function":  func() { m.put(element(c.DeoptLiterals), m.array(own, own+8)) },
			"many entries":      func() { m.put(deopt+arrayLength, small(c.DeoptInlinings+deoptEntries+deoptEntry*(maxDeopts+1))) },
		} {
			damage()
			if table, err := f.Table(code, v8.Value(own)); err == nil {
				t.Errorf("%s: calls = %v, want an error", name, table.returns.calls)
			}
			copy(m.bytes, whole)
		}
		if table, err := f.Table(code, v8.Value(own)); err != nil || len(table.returns.calls) != 2 {
			t.Errorf("calls as V8 made them = %v, %v, want two", table.returns.calls, err)
		}
	})
}

// FuzzDamagedCalls reads calls from memory of which random words are wrong.
func FuzzDamagedCalls(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[len(nodetest.Versions)-1])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		at, own, _ := m.calling(symbolize.Maglev, []entry{{0, position(50, 0), true}})
		finder := m.finder(t)
		m.damage(rand.New(rand.NewPCG(seed, 0)))
		table, err := finder.tableAs(at, symbolize.Maglev, own)
		if err != nil {
			return
		}
		if n := table.Bytes(); n > len(m.bytes)*4 {
			t.Errorf("table of %d bytes from memory of %d", n, len(m.bytes))
		}
		for offset := range callingSize {
			if got, _ := table.At(offset); len(got) > maxInlined+1 {
				t.Errorf("places at %d = %d, want %d at most", offset, len(got), maxInlined+1)
			}
		}
	})
}
