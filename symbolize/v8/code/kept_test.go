package code

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// opcodeOf returns the last opcode that has the meaning; ok is false if none has it.
func opcodeOf(form *release.Translations, kind release.Translated) (opcode uint8, ok bool) {
	at := strings.LastIndexByte(form.Values, byte(kind))
	return uint8(max(at, 0)), at >= 0
}

// put writes a value, if translations of that form have its kind.
func (w *translationWriter) put(kind release.Translated, operands ...int) bool {
	opcode, ok := opcodeOf(w.form, kind)
	if ok {
		w.instruction(opcode, operands[:min(len(operands), int(w.form.Operands[opcode]-'0'))]...)
	}
	return ok
}

func TestValuesAreNamedForAllInstructions(t *testing.T) {
	for _, form := range forms() {
		if len(form.Values) != len(form.Operands) {
			t.Errorf("letters = %d, want %d", len(form.Values), len(form.Operands))
		}
		for opcode := range form.Operands {
			kind, operands := form.Translated(opcode), int(form.Operands[opcode]-'0')
			if form.Function.Has(opcode) != (kind == release.FunctionFrame) || form.Continuation.Has(opcode) != (kind == release.ContinuationFrame) {
				t.Errorf("instruction %d is %c", opcode, kind)
			}
			if strings.ContainsRune("ltiubDHfgsnod", rune(kind)) && operands != 1 || kind == release.OptimizedOut && operands != 0 {
				t.Errorf("instruction %d, %c, has %d operands", opcode, kind, operands)
			}
		}
		if form.Translated(-1) != release.NoValue || form.Translated(len(form.Values)) != release.NoValue {
			t.Error("an opcode that does not exist has a meaning")
		}
	}
}

// A keeping is a frame of optimized code with values.
type keeping struct {
	code         Code
	fp           uint64
	outer, inner uint64 // SharedFunctionInfos
	text         uint64 // a string
}

// Where the call returns to.
const keepingCall = 40

// values are what the registers of the inner function are kept as, with what they are.
func (m *image) values(text uint64) (kinds []release.Translated, words []uint64, want []Held) {
	add := func(kind release.Translated, word uint64, held Held) {
		if _, ok := opcodeOf(&m.Release.Code.Translations, kind); ok {
			kinds, words, want = append(kinds, kind), append(words, word), append(want, held)
		}
	}
	add(release.TaggedSlot, text, Held{Kind: HeldValue, Value: v8.Value(text)})
	add(release.TaggedSlot, small(-3), Held{Kind: HeldValue, Value: v8.Value(small(-3))})
	add(release.TaggedSlot, 0x1234, Held{})
	add(release.TaggedSlot, 0x10|tag, Held{})
	add(release.Int32Slot, 0xdead_ffff_fffe, Held{Kind: HeldValue, Value: v8.Value(small(-2))})
	add(release.Uint32Slot, 0xdead_ffff_fffe, Held{Kind: HeldNumber, Number: 0xffff_fffe})
	add(release.BoolSlot, 0xdead_0000_0000, Held{Kind: HeldOddball, Text: "false"})
	add(release.BoolSlot, 1, Held{Kind: HeldOddball, Text: "true"})
	add(release.DoubleSlot, math.Float64bits(1.5), Held{Kind: HeldNumber, Number: 1.5})
	add(release.DoubleSlot, holeNaN, Held{})
	add(release.HoleySlot, holeNaN, Held{Kind: HeldOddball, Text: "undefined"})
	add(release.HoleySlot, math.Float64bits(2.5), Held{Kind: HeldNumber, Number: 2.5})
	add(release.FloatSlot, uint64(math.Float32bits(0.25)), Held{Kind: HeldNumber, Number: 0.25})
	add(release.Int64Slot, 1<<40, Held{Kind: HeldNumber, Number: 1 << 40})
	add(release.BigIntSlot, 1<<64-5, Held{Kind: HeldBigInt, Text: "-5"})
	add(release.BigUintSlot, 1<<64-1, Held{Kind: HeldBigInt, Text: "18446744073709551615"})
	add(release.OptimizedOut, 0, Held{})
	add(release.UnknownValue, 0, Held{})
	add(release.RepeatedValue, 0, Held{Kind: NotMade})
	return kinds, words, want
}

// keep makes code in which one function is inlined in another, which called it by new with
// three arguments where it declares one.
func (m *image) keep(t testing.TB) (k keeping, want []Held) {
	t.Helper()
	h := heapAt(t, m, m.Binary)
	c, form := &m.Release.Code, &m.Release.Code.Translations
	k.text = m.text("kept")
	kinds, words, want := m.values(k.text)
	k.outer, k.inner = m.declares(t, h, 2), m.declares(t, h, 1)
	registers := func(shared uint64, count int) {
		array, _, err := bytecodes(h, m.read(t, h, shared))
		if err != nil {
			t.Fatal(err)
		}
		m.put32(array.Address+uint64(m.Release.Sizes.BytecodeArrayTagged), uint32(count*wordSize))
	}
	registers(k.outer, 1)
	registers(k.inner, len(kinds)+1) // and an object
	const slots = 5                  // of the first word
	w := &translationWriter{form: form}
	w.begin(-1, 2)
	w.instruction(form.Function.First, 4, 1)
	for _, slot := range []int{3, -1, -2, -3, 2, slots, slots} { // function, receiver, two parameters, context, register, accumulator
		w.put(release.TaggedSlot, slot)
	}
	w.put(release.ConstructFrame)
	w.put(release.ArgumentsFrame, 0, 4)
	for range 2 {
		w.put(release.Literal, 2)
	}
	for i := range 3 {
		w.put(release.Literal, 3+i)
	}
	w.instruction(form.Function.First, 8, 0)
	for _, literal := range []int{2, 2, 3, 2} { // function, receiver, parameter, context
		w.put(release.Literal, literal)
	}
	for i, kind := range kinds {
		w.put(kind, slots+i)
	}
	w.put(release.CapturedValue, 2)
	w.put(release.Literal, 2)
	w.put(release.CapturedValue, 1)
	w.put(release.Literal, 2)
	w.put(release.Literal, 2) // accumulator
	w.begin(-1, 1)

	shared := k.outer
	if c.SharedWrapped {
		shared = m.object("SharedFunctionInfoWrapper", 0, shared) | tag
	}
	data := make([]uint64, c.DeoptInlinings+deoptEntries+deoptEntry)
	data[deoptTranslations] = m.table(w.data)
	data[c.DeoptShared], data[c.DeoptInlined] = shared, small(1)
	data[c.DeoptLiterals], data[c.DeoptInlinings] = m.array(k.inner, k.outer, k.text, small(31), small(32), small(33)), m.table(nil)
	const room = 100
	at, start := m.code(m.tiers()[symbolize.Turbofan], callingSize+room, m.array(data...), m.table(nil))
	m.put32(at+uint64(m.Layout.CodeSize), callingSize)
	copy(m.bytes[start+callingSize-imageBase:], m.safepointTable(symbolize.Turbofan, []safepoint{{keepingCall, -1, 0}}))
	var err error
	if k.code, err = m.finder(t).Code(v8.Ref(at)); err != nil {
		t.Fatal(err)
	}
	below := m.room((slots + len(words)) * wordSize)
	k.fp = m.frame(map[int]uint64{-8: k.text, -16: k.text}, small(21), small(22))
	if below > k.fp {
		t.Fatal("the words are above the frame")
	}
	for i, word := range words {
		m.put(k.fp-uint64(slots-1+i)*wordSize, word)
	}
	text := Held{Kind: HeldValue, Value: v8.Value(k.text)}
	return k, append(want, Held{Kind: NotMade, Words: []Held{text, {Kind: NotMade, Words: []Held{text}}}})
}

func TestOptimizedCodeKeepsValues(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		k, want := m.keep(t)
		f := m.finder(t)
		for range 2 { // the second time from what was kept
			got, err := f.Kept(k.code, k.code.Start+keepingCall, k.fp)
			if err != nil || len(got) != 2 {
				t.Fatalf("Kept = %v, %v, want two functions", got, err)
			}
			number := func(n int) Held { return Held{Kind: HeldValue, Value: v8.Value(small(n))} }
			text := Held{Kind: HeldValue, Value: v8.Value(k.text)}
			inner, outer := got[0], got[1]
			if inner.Shared != v8.Value(k.inner) || outer.Shared != v8.Value(k.outer) || !inner.Construct || outer.Construct {
				t.Errorf("functions = %#x, %#x, by new %v, %v", inner.Shared, outer.Shared, inner.Construct, outer.Construct)
			}
			if !reflect.DeepEqual(inner.Registers, want) {
				t.Errorf("registers = %v, want %v", inner.Registers, want)
			}
			if want := []Held{number(31), number(32), number(33)}; !reflect.DeepEqual(inner.Arguments, want) || !reflect.DeepEqual(inner.Parameters, want[:1]) {
				t.Errorf("arguments = %v, parameters = %v, want %v", inner.Arguments, inner.Parameters, want)
			}
			if same := []Held{inner.Function, inner.This, inner.Context, outer.Function, outer.Context}; !reflect.DeepEqual(same, slices.Repeat([]Held{text}, len(same))) {
				t.Errorf("functions, receivers and contexts = %v, %v", inner, outer)
			}
			if want := []Held{number(21), number(22)}; !reflect.DeepEqual(outer.Parameters, want) || !reflect.DeepEqual(outer.Registers, inner.Registers[:1]) {
				t.Errorf("the outer function's parameters = %v, registers = %v, want %v", outer.Parameters, outer.Registers, want)
			}
		}
		if got, err := f.Kept(k.code, k.code.Start+keepingCall+1, k.fp); got != nil || err != nil {
			t.Errorf("Kept where no call is = %v, %v, want nothing", got, err)
		}
	})
}

// TestValuesThatDisagreeAreRefused damages what V8 says of functions.
func TestValuesThatDisagreeAreRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		k, _ := m.keep(t)
		h := heapAt(t, m, m.Binary)
		whole := slices.Clone(m.bytes)
		array, _, err := bytecodes(h, m.read(t, h, k.inner))
		if err != nil {
			t.Fatal(err)
		}
		for name, damage := range map[string]func(){
			"registers": func() { m.put32(array.Address+uint64(m.Release.Sizes.BytecodeArrayTagged), wordSize) },
			"no function": func() {
				d, err := m.finder(t).deoptimization(k.code)
				if err != nil {
					t.Fatal(err)
				}
				m.put(d.literals.Address+arrayFirst, small(1))
			},
		} {
			damage()
			if got, err := m.finder(t).Kept(k.code, k.code.Start+keepingCall, k.fp); err == nil {
				t.Errorf("%s: Kept = %v, want an error", name, got)
			}
			copy(m.bytes, whole)
		}
	})
}

// FuzzTranslatedFrames reads frames of any content.
func FuzzTranslatedFrames(f *testing.F) {
	for i, form := range forms() {
		w := &translationWriter{form: form}
		basis := w.begin(-1, 2)
		w.frame(10, 1)
		w.put(release.CapturedValue, 2)
		w.put(release.ArgumentsFrame, 1, 1)
		w.frame(20, 2)
		if form.Match > 0 {
			w.begin(basis, 2)
			w.repeat(6, false)
		}
		f.Add(w.data, 0, i)
	}
	f.Fuzz(func(t *testing.T, data []byte, at, which int) {
		all := forms()
		got, err := (&translations{all[uint(which)%uint(len(all))], data}).frames(at)
		values := 0
		for _, frame := range got {
			values += len(frame.values)
		}
		if len(got) > maxInlined || values > maxInstructions || err != nil && got != nil {
			t.Errorf("frames = %d with %d values, %v, want %d at most", len(got), values, err, maxInlined)
		}
	})
}

// FuzzDamagedKept reads what is kept from memory of which random words are wrong.
func FuzzDamagedKept(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[len(nodetest.Versions)-1])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		k, _ := m.keep(t)
		m.damage(rand.New(rand.NewPCG(seed, 0)))
		h, err := v8.NewHeap(m, m.Binary)
		if err != nil {
			t.Fatal(err)
		}
		finder := &Finder{heap: h, layout: &m.Layout, code: m.layout}
		got, err := finder.Kept(k.code, k.code.Start+keepingCall, k.fp)
		if len(got) > maxInlined || err != nil && got != nil {
			t.Errorf("Kept = %d functions, %v, want %d at most", len(got), err, maxInlined)
		}
	})
}
