package release

import "strings"

// A Translated says what an instruction of a translation stands for: a frame, or where a
// value of the frame before it is (V8 9.4 to 14.6: src/deoptimizer/translation-opcode.h).
type Translated byte

// What instructions stand for. The operand of a slot is its number in the frame.
const (
	FunctionFrame     Translated = 'J'
	ContinuationFrame Translated = 'K' // one of V8's builtins continues
	ConstructFrame    Translated = 'N' // the next function is called by new
	ArgumentsFrame    Translated = 'X' // the arguments of the next function, which declares another number
	OtherFrame        Translated = 'F'

	Literal       Translated = 'l' // the operand is an index into the literals
	TaggedSlot    Translated = 't'
	Int32Slot     Translated = 'i'
	Uint32Slot    Translated = 'u'
	BoolSlot      Translated = 'b'
	DoubleSlot    Translated = 'D'
	HoleySlot     Translated = 'H' // a double or undefined
	FloatSlot     Translated = 'f'
	Int64Slot     Translated = 'g'
	BigIntSlot    Translated = 's' // a BigInt of 64 bits
	BigUintSlot   Translated = 'n'
	CapturedValue Translated = 'o' // an object that the code does not allocate; as many values follow as the operand says
	ConcatValue   Translated = '+' // a string made of the two values that follow
	RepeatedValue Translated = 'd' // an object that a value before it stands for
	OptimizedOut  Translated = '-'
	UnknownValue  Translated = '?' // in a register, or computed
	NoValue       Translated = '.'
)

// Translated returns what an instruction stands for.
func (t *Translations) Translated(opcode int) Translated {
	if opcode < 0 || opcode >= len(t.Values) {
		return NoValue
	}
	return Translated(t.Values[opcode])
}

// IsFrame reports whether an instruction begins a frame.
func (t Translated) IsFrame() bool { return strings.ContainsRune("JKNXF", rune(t)) }
