package code

import (
	"errors"
	"fmt"

	"ustack/symbolize/v8/release"
)

// translations are the instructions by which V8 makes frames of functions from the frame
// of the optimized code that they were compiled into.
type translations struct {
	form *release.Translations
	data []byte
}

// A functionFrame is the frame of a function that is in progress.
type functionFrame struct {
	bytecode int // offset of the one that runs; below 0: none yet
	literal  int // index of the function's SharedFunctionInfo in the literals
	closure  int // that of the function itself; below 0: it is no literal
}

// maxInstructions bounds the instructions of a translation: some for each frame, and one
// for each of its registers.
const maxInstructions = 1 << 16

var (
	errNotTranslation = errors.New("read translation: none begins there")
	errTranslationCut = errors.New("read translation: it ends early")

	errManyInstructions = errors.New("read translation: too many instructions")
)

// maxAllInstructions bounds those of all translations that are read for one answer.
const maxAllInstructions = 1 << 20

// functions returns the functions' frames that the translation at an offset makes,
// outermost first. It reads as many instructions as left says, and reduces left by that.
func (t *translations) functions(at int, left *int) ([]functionFrame, error) {
	r := translationReader{form: t.form}
	frames, err := r.begin(t.data, at)
	if err != nil {
		return nil, err
	}
	if frames < 0 || frames > maxInlined {
		return nil, fmt.Errorf("read translation: %d frames", frames)
	}
	functions := make([]functionFrame, 0, frames)
	begun := false // a function's frame, of whose values the first is the function
	for range min(maxInstructions, *left) {
		if frames == 0 && (!begun || r.ends()) {
			return functions, nil
		}
		*left--
		opcode, operands, err := r.next()
		if err != nil {
			return nil, err
		}
		count := r.operands(opcode)
		switch {
		case t.form.Function.Has(opcode):
			functions = append(functions, functionFrame{operands.signedMagnitude(), operands.signedMagnitude(), -1})
			count -= 2
			frames--
		case t.form.Continuation.Has(opcode):
			frames--
		case begun && t.form.Translated(opcode) == release.Literal:
			functions[len(functions)-1].closure = operands.signedMagnitude()
			count--
		}
		begun = t.form.Function.Has(opcode)
		operands.skip(count)
		if operands.cut {
			return nil, errTranslationCut
		}
	}
	return nil, errManyInstructions
}

// A translationReader reads the instructions of a translation, of which some are those
// of an earlier translation: each is the instruction that is there in the same place.
type translationReader struct {
	form    *release.Translations
	own     varints
	earlier varints
	behind  int // instructions of own that were read since the last of earlier
	repeats int // instructions that follow in earlier
}

// begin reads the instruction that begins the translation at an offset in data, and
// returns how many frames it makes of functions and of builtins that continue.
func (r *translationReader) begin(data []byte, at int) (frames int, err error) {
	if at < 0 || at >= len(data) {
		return 0, errNotTranslation
	}
	r.own.rest = data[at:]
	opcode := r.opcode(&r.own)
	if !r.form.Begin.Has(opcode) {
		return 0, errNotTranslation
	}
	operands := r.operands(opcode)
	if r.form.Match > 0 {
		back := r.own.unsigned()
		if back > uint64(at) {
			return 0, errNotTranslation
		}
		if back > 0 {
			r.earlier.rest = data[at-int(back):]
			r.skipEarlier()
		}
		operands--
	}
	r.own.signedMagnitude() // of all kinds
	frames = r.own.signedMagnitude()
	r.own.skip(operands - 2)
	if r.own.cut {
		return 0, errTranslationCut
	}
	return frames, nil
}

// next returns the next instruction, and where its operands are.
func (r *translationReader) next() (opcode int, operands *varints, err error) {
	if r.repeats == 0 {
		opcode = r.opcode(&r.own)
		if r.form.Match == 0 || opcode < len(r.form.Operands) && opcode != int(r.form.Match) {
			r.behind++
			return opcode, &r.own, r.check(&r.own, opcode)
		}
		if r.repeats = opcode - len(r.form.Operands); r.repeats <= 0 {
			r.repeats = int(min(r.own.unsigned(), maxInstructions))
		}
		for ; r.behind > 0 && len(r.earlier.rest) > 0; r.behind-- {
			r.skipEarlier()
		}
	}
	r.repeats--
	opcode = r.opcode(&r.earlier)
	return opcode, &r.earlier, r.check(&r.earlier, opcode)
}

// check returns an error if an opcode that was read from v is none.
func (r *translationReader) check(v *varints, opcode int) error {
	switch {
	case v.cut:
		return errTranslationCut
	case opcode < 0 || opcode >= len(r.form.Operands) || r.form.Begin.Has(opcode):
		return fmt.Errorf("read translation: instruction %d", opcode)
	}
	return nil
}

// opcode reads an opcode from v.
func (r *translationReader) opcode(v *varints) int {
	if r.form.SignedOpcodes {
		return v.signedMagnitude()
	}
	return v.byte()
}

// operands returns how many operands an instruction has.
func (r *translationReader) operands(opcode int) int { return int(r.form.Operands[opcode] - '0') }

// skipEarlier skips an instruction of the earlier translation.
func (r *translationReader) skipEarlier() {
	if opcode := r.opcode(&r.earlier); opcode >= 0 && opcode < len(r.form.Operands) {
		r.earlier.skip(r.operands(opcode))
	} else {
		r.earlier = varints{cut: true}
	}
}
