package code

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
)

// A HeldKind says in which form optimized code keeps a value.
type HeldKind int

// Forms of values.
const (
	NotHeld     HeldKind = iota // V8 does not keep it, or not where it can be found
	HeldValue                   // Value
	HeldNumber                  // Number, for which there is no object
	HeldOddball                 // Text is "true", "false" or "undefined"
	HeldBigInt                  // Text, in decimal
	NotMade                     // an object that the code has not allocated: it keeps what would be in it
)

// A Held is a value of a function that is in progress in optimized code.
type Held struct {
	Kind   HeldKind
	Value  v8.Value
	Number float64
	Text   string
	Words  []Held // of an object that was not made, its map first; nil if they are not known
}

// A Kept is what V8 keeps in optimized code of a function that is in progress: the frame
// that it would make to continue in unoptimized code.
type Kept struct {
	Shared     v8.Value // SharedFunctionInfo
	Function   Held
	This       Held
	Parameters []Held // those that the function declares, without a rest parameter
	Arguments  []Held // as they were passed
	Context    Held
	Registers  []Held
	Construct  bool // called by new; only of inlined functions
}

// Kept returns what V8 keeps of the functions that are in progress in the frame at fp while
// a call is that returns to pc: of the innermost inlined function first, of the code's own
// last. It returns nil if V8 keeps nothing there, as where no call is.
func (f *Finder) Kept(code Code, pc, fp uint64) ([]Kept, error) {
	e, err := f.exitsOf(code)
	if err != nil {
		return nil, err
	}
	c, ok := e.to(int(pc - code.Start))
	if !ok {
		return nil, nil
	}
	frames, err := e.translations.frames(int(c.translation))
	if err != nil {
		return nil, err
	}
	k := keptReader{Finder: f, fp: fp, literals: e.literals}
	for _, frame := range frames {
		if err := k.frame(frame); err != nil {
			return nil, err
		}
	}
	return k.kept, nil
}

// exits are the calls after which V8 may leave a piece of code, and what it needs then.
type exits struct {
	returns
	literals v8.Object
}

// maxExits bounds the pieces of code whose exits are kept.
const maxExits = 1 << 10

// exitsOf reads the exits of a piece of code, or returns those that it has read.
func (f *Finder) exitsOf(code Code) (*exits, error) {
	if e := f.exits[code.Address]; e != nil {
		return e, nil
	}
	d, err := f.deoptimization(code)
	if err != nil {
		return nil, err
	}
	e := &exits{literals: d.literals}
	if _, err := f.readCalls(&e.returns, code, d); err != nil {
		return nil, err
	}
	if len(e.calls) > 0 {
		tagged, err := f.heap.Field(d.array, arrayFirst+deoptTranslations*wordSize)
		if err != nil {
			return nil, err
		}
		data, err := tableOf(f.heap, tagged)
		if err != nil {
			return nil, fmt.Errorf("read translations: %w", err)
		}
		e.translations = translations{&f.code.Translations, data}
		if err := f.checkTranslation(&e.returns, d); err != nil {
			return nil, err
		}
	}
	if len(f.exits) < maxExits {
		if f.exits == nil {
			f.exits = make(map[uint64]*exits)
		}
		f.exits[code.Address] = e
	}
	return e, nil
}

// A keptReader reads the values of the functions of one frame.
type keptReader struct {
	*Finder
	fp       uint64
	literals v8.Object
	kept     []Kept // innermost first

	arguments []Held // of the next function, if it declares another number
	construct bool   // the next function is called by new
}

var errOtherValues = errors.New("read translation: a frame has another number of values")

// frame adds a frame of a translation, within those that were added before.
func (r *keptReader) frame(frame translatedFrame) error {
	switch frame.kind {
	case release.ConstructFrame:
		r.construct = true
		return nil
	case release.ArgumentsFrame:
		if len(frame.values) < keptArguments || len(frame.values) > maxArguments {
			return errOtherValues
		}
		r.arguments = r.held(frame.values[keptArguments:])
		return nil
	case release.FunctionFrame:
		k, err := r.function(frame)
		if err != nil {
			return err
		}
		k.Construct = r.construct
		if r.arguments != nil {
			k.Arguments = r.arguments
		}
		r.kept = append([]Kept{k}, r.kept...)
	}
	r.arguments, r.construct = nil, false
	return nil
}

// Values of a frame: the function, its receiver, then its arguments; for a function's
// frame, the context, the registers and the accumulator follow.
const (
	keptFunction  = 0
	keptReceiver  = 1
	keptArguments = 2
	keptFixed     = 4 // values of a function's frame besides parameters and registers
)

// function returns what a function's frame has.
func (r *keptReader) function(frame translatedFrame) (Kept, error) {
	const literal = 1 // operand
	if len(frame.first) <= literal {
		return Kept{}, errNotTranslation
	}
	shared, err := r.literal(r.literals, frame.first[literal])
	if err != nil {
		return Kept{}, err
	}
	o, err := r.heap.Object(shared)
	if err != nil {
		return Kept{}, err
	}
	count, err := Parameters(r.heap, o)
	if err != nil {
		return Kept{}, err
	}
	registers, err := Registers(r.heap, o)
	if err != nil {
		return Kept{}, err
	}
	if count < 0 || len(frame.values) != keptFixed+count+registers {
		return Kept{}, errOtherValues
	}
	values := r.held(frame.values)
	k := Kept{Shared: shared, Function: values[keptFunction], This: values[keptReceiver]}
	k.Parameters, values = values[keptArguments:][:count], values[keptArguments+count:]
	k.Arguments = k.Parameters
	k.Context, k.Registers = values[0], values[1:][:registers]
	return k, nil
}

// held reads values.
func (r *keptReader) held(values []translatedValue) []Held {
	all := make([]Held, len(values))
	for i, v := range values {
		all[i] = r.value(v)
	}
	return all
}

// value reads a value. What cannot be read is not held.
func (r *keptReader) value(v translatedValue) Held {
	switch v.kind {
	case release.CapturedValue:
		return r.captured(v.words)
	case release.ConcatValue, release.RepeatedValue:
		return Held{Kind: NotMade}
	case release.Literal:
		literal, err := r.literal(r.literals, v.operand)
		if err != nil {
			return Held{}
		}
		return r.tagged(literal)
	case release.OptimizedOut, release.UnknownValue:
		return Held{}
	}
	word, err := r.heap.Word(r.slotAddress(v.operand))
	if err != nil {
		return Held{}
	}
	return r.decode(v.kind, word)
}

// captured reads an object that the code has not allocated. A number is one without it.
func (r *keptReader) captured(words []translatedValue) Held {
	held := Held{Kind: NotMade, Words: r.held(words)}
	if len(held.Words) == 2 && held.Words[1].Kind == HeldNumber {
		if m, err := r.heap.MapAt(held.Words[0].Value.Address()); err == nil && m.Kind == "HeapNumber" {
			return held.Words[1]
		}
	}
	return held
}

// slotAddress returns where a slot of the frame is: they are counted downwards from the
// return address (V8 9.4 to 14.6: OptimizedJSFrame::StackSlotOffsetRelativeToFp).
func (r *keptReader) slotAddress(slot int) uint64 {
	const first = 8
	return r.fp + uint64(int64(first)-int64(slot)*wordSize)
}

// decode returns the value that a word of the frame has.
func (r *keptReader) decode(kind release.Translated, word uint64) Held {
	switch kind {
	case release.TaggedSlot:
		return r.tagged(v8.Value(word))
	case release.Int32Slot:
		return heldInteger(int64(int32(word)))
	case release.Uint32Slot:
		return heldInteger(int64(uint32(word)))
	case release.Int64Slot:
		return heldInteger(int64(word))
	case release.FloatSlot:
		return Held{Kind: HeldNumber, Number: float64(math.Float32frombits(uint32(word)))}
	case release.DoubleSlot, release.HoleySlot:
		return heldDouble(kind, word)
	case release.BoolSlot:
		return Held{Kind: HeldOddball, Text: strconv.FormatBool(uint32(word) != 0)}
	case release.BigIntSlot:
		return Held{Kind: HeldBigInt, Text: strconv.FormatInt(int64(word), 10)}
	case release.BigUintSlot:
		return Held{Kind: HeldBigInt, Text: strconv.FormatUint(word, 10)}
	}
	return Held{}
}

// heldInteger returns an integer: small ones need no object.
func heldInteger(n int64) Held {
	if n == int64(int32(n)) {
		return Held{Kind: HeldValue, Value: v8.Small(int(n))}
	}
	return Held{Kind: HeldNumber, Number: float64(n)}
}

// Doubles that are no numbers for V8: the hole, for which programs read undefined.
const (
	holeNaN  = 0xFFF7FFFFFFF7FFFF
	plainNaN = 0x7FF8000000000000
	signBit  = 1 << 63
)

func heldDouble(kind release.Translated, word uint64) Held {
	n := math.Float64frombits(word)
	switch {
	case kind == release.HoleySlot && word == holeNaN:
		return Held{Kind: HeldOddball, Text: "undefined"}
	case math.IsNaN(n) && word&^signBit != plainNaN:
		return Held{}
	}
	return Held{Kind: HeldNumber, Number: n}
}

// tagged returns a tagged word, if it is a value. V8's own values are none.
func (r *keptReader) tagged(v v8.Value) Held {
	if _, ok := v.Smi(); ok {
		return Held{Kind: HeldValue, Value: v}
	}
	if !v.IsObject() || r.heap.Oddball(v) == "hole" {
		return Held{}
	}
	if _, err := r.heap.Object(v); err != nil {
		return Held{}
	}
	return Held{Kind: HeldValue, Value: v}
}
