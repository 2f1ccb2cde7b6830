package code

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8/release"
)

// forms are the known forms of translations.
func forms() (all []*release.Translations) {
	for _, r := range release.All() {
		if !slices.ContainsFunc(all, func(f *release.Translations) bool { return *f == r.Code.Translations }) {
			all = append(all, &r.Code.Translations)
		}
	}
	return all
}

// A translationWriter writes instructions.
type translationWriter struct {
	form *release.Translations
	data []byte
}

func (w *translationWriter) unsigned(n int) {
	for ; n >= 0x80; n >>= 7 {
		w.data = append(w.data, byte(n)|0x80)
	}
	w.data = append(w.data, byte(n))
}

func (w *translationWriter) signed(n int) {
	if n < 0 {
		w.unsigned(-n<<1 | 1)
	} else {
		w.unsigned(n << 1)
	}
}

// instruction writes an instruction; operands that are not given are 1.
func (w *translationWriter) instruction(opcode uint8, operands ...int) {
	if w.form.SignedOpcodes {
		w.signed(int(opcode))
	} else {
		w.data = append(w.data, opcode)
	}
	for len(operands) < int(w.form.Operands[opcode]-'0') {
		operands = append(operands, 1)
	}
	for _, n := range operands {
		w.signed(n)
	}
}

// begin begins a translation that may repeat the one that begins at basis; below 0: none.
func (w *translationWriter) begin(basis, frames int) (at int) {
	at = len(w.data)
	operands := []int{frames, frames}
	if w.form.Match == 0 {
		w.instruction(w.form.Begin.First, operands...)
		return at
	}
	w.data = append(w.data, w.form.Begin.First)
	if basis < 0 {
		basis = at
	}
	w.unsigned(at - basis)
	for _, n := range operands {
		w.signed(n)
	}
	return at
}

// frame writes a function's frame with two values: the function, a literal, and another.
func (w *translationWriter) frame(bytecode, literal int) {
	w.instruction(w.form.Function.First, bytecode, literal)
	w.instruction(uint8(strings.IndexRune(w.form.Values, rune(release.Literal))), closureOf(literal))
	w.value()
}

// closureOf returns the literal of the function whose SharedFunctionInfo is a literal.
func closureOf(literal int) int { return 1000 + literal }

// framed is what is read of a frame.
func framed(bytecode, literal int) functionFrame {
	return functionFrame{bytecode, literal, closureOf(literal)}
}

// value writes a value.
func (w *translationWriter) value() {
	w.instruction(uint8(strings.LastIndex(w.form.Operands[:len(w.form.Operands)-2], "1")), 3)
}

// repeat repeats instructions of the basis, in the long form or the short one.
func (w *translationWriter) repeat(count int, long bool) {
	if long {
		w.data = append(w.data, w.form.Match)
		w.unsigned(count)
	} else {
		w.data = append(w.data, byte(len(w.form.Operands)+count))
	}
}

// functionsAt reads one translation.
func functionsAt(t *translations, at int) ([]functionFrame, error) {
	left := maxInstructions
	return t.functions(at, &left)
}

func TestFramesOfFunctionsAreRead(t *testing.T) {
	for _, form := range forms() {
		w := &translationWriter{form: form}
		one := w.begin(-1, 1)
		w.frame(300, 2)
		three := w.begin(-1, 3)
		w.frame(5, 7)
		w.instruction(form.Continuation.First, 900, 1, 4)
		w.frame(-1, 1)
		slot := w.begin(-1, 1)
		w.instruction(form.Function.First, 8, 2)
		w.value()
		w.instruction(form.Function.First, 8, 2) // of another translation
		for at, want := range map[int][]functionFrame{slot: {{8, 2, -1}}, one: {framed(300, 2)}, three: {framed(5, 7), framed(-1, 1)}} {
			got, err := functionsAt(&translations{form, w.data}, at)
			if !slices.Equal(got, want) || err != nil {
				t.Errorf("frames at %d = %v, %v, want %v", at, got, err, want)
			}
		}
	}
}

func TestTranslationsRepeatInstructions(t *testing.T) {
	for _, form := range forms() {
		if form.Match == 0 {
			continue
		}
		for _, long := range []bool{false, true} {
			w := &translationWriter{form: form}
			basis := w.begin(-1, 2)
			w.frame(10, 1)
			w.frame(20, 2)
			same := w.begin(basis, 2)
			w.repeat(6, long)
			other := w.begin(basis, 2)
			w.frame(11, 1) // three instructions of its own, then those of the basis
			w.repeat(3, long)
			inner := w.begin(basis, 2)
			w.repeat(3, long)
			w.frame(21, 3)
			for at, want := range map[int][]functionFrame{
				same: {framed(10, 1), framed(20, 2)}, other: {framed(11, 1), framed(20, 2)}, inner: {framed(10, 1), framed(21, 3)},
			} {
				got, err := functionsAt(&translations{form, w.data}, at)
				if !slices.Equal(got, want) || err != nil {
					t.Errorf("frames at %d = %v, %v, want %v", at, got, err, want)
				}
			}
		}
	}
}

func TestDamagedTranslationsAreRefused(t *testing.T) {
	for _, form := range forms() {
		w := &translationWriter{form: form}
		basis := w.begin(-1, 2)
		w.frame(10, 1)
		w.instruction(form.Function.First, 20, 2)
		end := len(w.data)
		w.value()
		whole := &translations{form, w.data}
		for _, at := range []int{-1, 1, len(w.data), 1 << 40} {
			if got, err := functionsAt(whole, at); !errors.Is(err, errNotTranslation) {
				t.Errorf("frames at %d = %v, %v, want %v", at, got, err, errNotTranslation)
			}
		}
		for n := range end {
			if got, err := functionsAt(&translations{form, w.data[:n]}, basis); err == nil {
				t.Errorf("frames of %d bytes = %v, want an error", n, got)
			}
		}
		for _, frames := range []int{-1, maxInlined + 1, 1 << 30} {
			w := &translationWriter{form: form}
			if got, err := functionsAt(&translations{form, w.data}, w.begin(-1, frames)); err == nil {
				t.Errorf("%d frames = %v, want an error", frames, got)
			}
		}
		if form.Match == 0 {
			continue
		}
		w = &translationWriter{form: form}
		alone := w.begin(-1, 1)
		w.repeat(4, true)
		if got, err := functionsAt(&translations{form, w.data}, alone); err == nil {
			t.Errorf("frames of a translation that repeats none = %v, want an error", got)
		}
	}
}

// TestTranslationsEnd has values without end.
func TestTranslationsEnd(t *testing.T) {
	for _, form := range forms() {
		w := &translationWriter{form: form}
		w.begin(-1, 1)
		for range maxInstructions {
			w.value()
		}
		w.frame(1, 1)
		if got, err := functionsAt(&translations{form, w.data}, 0); err == nil {
			t.Errorf("frames after %d values = %v, want an error", maxInstructions, got)
		}
		const bound = 10
		left := bound
		if got, err := (&translations{form, w.data}).functions(0, &left); !errors.Is(err, errManyInstructions) || left != 0 {
			t.Errorf("frames with %d instructions at most = %v, %v, with %d left; want %v", bound, got, err, left, errManyInstructions)
		}
	}
}

// FuzzTranslations reads frames of any content.
func FuzzTranslations(f *testing.F) {
	for i, form := range forms() {
		w := &translationWriter{form: form}
		basis := w.begin(-1, 2)
		w.frame(10, 1)
		w.frame(20, 2)
		if form.Match > 0 {
			w.begin(basis, 2)
			w.repeat(6, false)
		}
		f.Add(w.data, 0, i)
	}
	f.Fuzz(func(t *testing.T, data []byte, at, which int) {
		all := forms()
		got, err := functionsAt(&translations{all[uint(which)%uint(len(all))], data}, at)
		if len(got) > maxInlined || err != nil && got != nil {
			t.Errorf("frames = %d, %v, want %d at most", len(got), err, maxInlined)
		}
	})
}
