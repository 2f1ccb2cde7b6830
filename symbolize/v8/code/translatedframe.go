package code

import (
	"fmt"

	"ustack/symbolize/v8/release"
)

// A translatedFrame is a frame that a translation makes, of any kind.
type translatedFrame struct {
	kind   release.Translated
	first  []int // operands
	values []translatedValue
}

// A translatedValue says where a value of a frame is.
type translatedValue struct {
	kind    release.Translated
	operand int
	words   []translatedValue // of an object that the code does not allocate
}

// frames returns the frames that the translation at an offset makes, outermost first, with
// their values.
func (t *translations) frames(at int) ([]translatedFrame, error) {
	r := translationReader{form: t.form}
	if _, err := r.begin(t.data, at); err != nil {
		return nil, err
	}
	var frames []translatedFrame
	var open []openValue // objects that have not all of their words yet, outermost first
	for range maxInstructions {
		if r.ends() {
			return frames, nil
		}
		opcode, operands, err := r.next()
		if err != nil {
			return nil, err
		}
		all := operands.signed32(r.operands(opcode))
		if operands.cut {
			return nil, errTranslationCut
		}
		kind := t.form.Translated(opcode)
		switch {
		case kind == release.NoValue:
			continue
		case kind.IsFrame():
			if len(open) > 0 || len(frames) >= maxInlined {
				return nil, fmt.Errorf("read translation: frame %d within an object", len(frames))
			}
			frames = append(frames, translatedFrame{kind: kind, first: all})
			continue
		case len(frames) == 0:
			return nil, errNotTranslation
		}
		value := translatedValue{kind: kind}
		if len(all) > 0 {
			value.operand = all[0]
		}
		to := &frames[len(frames)-1].values
		if open, err = addValue(to, open, value); err != nil {
			return nil, err
		}
	}
	return nil, errManyInstructions
}

// An openValue is an object whose words follow.
type openValue struct {
	translatedValue
	left int // words
}

// maxOpen bounds the objects within one another.
const maxOpen = 256

// addValue adds a value to the innermost open object, or else to a frame's values, and
// returns the objects that are open then.
func addValue(values *[]translatedValue, open []openValue, v translatedValue) ([]openValue, error) {
	left := 0
	switch v.kind {
	case release.CapturedValue:
		left = v.operand
	case release.ConcatValue:
		left = 2
	}
	if left < 0 || left > maxInstructions || len(open) >= maxOpen {
		return nil, fmt.Errorf("read translation: an object of %d values in %d others", left, len(open))
	}
	if left > 0 {
		return append(open, openValue{v, left}), nil
	}
	for len(open) > 0 {
		last := &open[len(open)-1]
		last.words = append(last.words, v)
		if last.left--; last.left > 0 {
			return open, nil
		}
		v, open = last.translatedValue, open[:len(open)-1]
	}
	*values = append(*values, v)
	return open, nil
}

// ends reports whether the translation has ended: the next one begins, or
// the data ends.
func (r *translationReader) ends() bool {
	if r.repeats > 0 {
		return false
	}
	ahead := r.own
	return len(ahead.rest) == 0 || r.form.Begin.Has(r.opcode(&ahead))
}

// signed32 decodes numbers whose lowest bits are their signs.
func (v *varints) signed32(count int) []int {
	numbers := make([]int, count)
	for i := range numbers {
		numbers[i] = v.signedMagnitude()
	}
	return numbers
}
