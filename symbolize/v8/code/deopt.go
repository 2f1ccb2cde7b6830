package code

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

var errNoDeoptimization = errors.New("it has no deoptimization data")

// A deoptimization is the data that V8 keeps to return from optimized code to the
// functions it was compiled from.
type deoptimization struct {
	array      v8.Object
	elements   int
	shared     v8.Value
	inlined    int
	literals   v8.Object // the inlined functions, then others
	inlinings  v8.Object
	inliningsN int // bytes
}

// Elements of DeoptimizationData. Those of its entries begin some elements after that
// of the inlinings.
const (
	deoptTranslations = 0
	deoptEntries      = 4 // elements from that of the inlinings to the first entry
	deoptEntry        = 3 // elements of an entry
	deoptTranslation  = 1 // element of an entry: where its translation begins
)

// maxDeopts bounds the places at which a piece of code can be left.
const maxDeopts = 1 << 16

func (f *Finder) deoptimization(code Code) (deoptimization, error) {
	var d deoptimization
	var err error
	if d.array, err = f.heap.Object(code.deopt); err != nil {
		return d, err
	}
	element := func(i int) (v8.Value, error) { return f.heap.Field(d.array, arrayFirst+i*wordSize) }
	if d.elements, err = f.heap.SmiField(d.array, arrayLength); err != nil {
		return d, err
	}
	if d.elements <= f.code.DeoptInlinings {
		return d, fmt.Errorf("read code at %#x: %w", code.Address, errNoDeoptimization)
	}
	shared, err := element(f.code.DeoptShared)
	if err != nil {
		return d, err
	}
	if f.code.SharedWrapped {
		wrapper, err := f.heap.Object(shared)
		if err != nil {
			return d, err
		}
		if shared, err = f.heap.Field(wrapper, wrappedShared); err != nil {
			return d, err
		}
	}
	d.shared = shared
	inlined, err := element(f.code.DeoptInlined)
	if err != nil {
		return d, err
	}
	d.inlined, _ = inlined.Smi()
	for _, part := range []struct {
		index int
		to    *v8.Object
	}{{f.code.DeoptLiterals, &d.literals}, {f.code.DeoptInlinings, &d.inlinings}} {
		tagged, err := element(part.index)
		if err != nil {
			return d, err
		}
		if *part.to, err = f.heap.Object(tagged); err != nil {
			return d, err
		}
	}
	d.inliningsN, err = f.heap.SmiField(d.inlinings, arrayLength)
	return d, err
}

// returns are the calls of optimized code after which V8 may continue in unoptimized code.
// For each of them it keeps which functions are in progress, and which of their bytecodes
// run.
type returns struct {
	calls        []call // by offset
	discarded    []call // where they return to instead once V8 has discarded the code
	known        []call // the calls, and the checks in code without positions, by offset
	translations translations
	bytecodes    [][]byte   // positions in each inlined function, then in the code's own; nil: V8 has not made them
	closures     []v8.Value // the inlined functions themselves; 0: not known; nil: none is
}

// A call is a call in optimized code, or another place where it can be left.
type call struct {
	offset      uint32 // where it returns to, or of a check's jump
	translation uint32 // where that of the code's frame begins then
}

// find returns the call that returns to an offset.
func find(calls []call, offset int) (c call, ok bool) {
	i, ok := slices.BinarySearchFunc(calls, offset, func(c call, offset int) int { return cmp.Compare(int(c.offset), offset) })
	if ok {
		c = calls[i]
	}
	return c, ok
}

const callSize = 8

// size returns about how much memory r takes.
func (r *returns) size() int {
	n := (len(r.calls)+len(r.discarded)+len(r.known))*callSize + len(r.translations.data) + len(r.closures)*wordSize
	for _, positions := range r.bytecodes {
		n += len(positions)
	}
	return n
}

// returnsOf reads the calls of a piece of code. It returns where all translations begin.
func (f *Finder) returnsOf(code Code, d deoptimization, inlined []v8.Value) (r returns, starts []uint32, err error) {
	if starts, err = f.readCalls(&r, code, d); err != nil || len(r.calls) == 0 {
		return returns{}, nil, err
	}
	tagged, err := f.heap.Field(d.array, arrayFirst+deoptTranslations*wordSize)
	if err != nil {
		return returns{}, nil, err
	}
	data, err := tableOf(f.heap, tagged)
	if err != nil {
		return returns{}, nil, fmt.Errorf("read translations: %w", err)
	}
	r.translations = translations{&f.code.Translations, data}
	if err := f.checkTranslation(&r, d); err != nil {
		return returns{}, nil, err
	}
	for _, shared := range append(slices.Clone(inlined), d.shared) {
		positions, err := f.bytecodePositions(shared)
		if err != nil {
			return returns{}, nil, err
		}
		r.bytecodes = append(r.bytecodes, positions)
	}
	r.closures = f.closuresOf(d, &r, starts)
	return r, starts, nil
}

// maxLiteral bounds the index of a function in the literals.
const maxLiteral = 1 << 20

// checkTranslation returns an error unless the outermost frame of the first call is that of
// the code's own function.
func (f *Finder) checkTranslation(r *returns, d deoptimization) error {
	left := maxInstructions
	frames, err := r.translations.functions(int(r.calls[0].translation), &left)
	if err != nil {
		return err
	}
	if len(frames) == 0 || frames[0].literal < 0 || frames[0].literal > maxLiteral {
		return errors.New("read translation: it has no frame of a function")
	}
	function, err := f.heap.Field(d.literals, arrayFirst+frames[0].literal*wordSize)
	if err == nil && function.Strong() != d.shared {
		err = errors.New("read translation: it is another function's")
	}
	return err
}

// readCalls adds the calls of a piece of code to r. It returns where all translations begin.
func (f *Finder) readCalls(r *returns, code Code, d deoptimization) (starts []uint32, err error) {
	if starts, err = f.translationStarts(d); err != nil || len(starts) == 0 {
		return nil, err
	}
	points, err := f.safepoints(code)
	if err != nil {
		return nil, err
	}
	for _, p := range points {
		if p.deopt < 0 || p.deopt >= len(starts) {
			continue
		}
		r.calls = append(r.calls, call{uint32(p.offset), starts[p.deopt]})
		if p.trampoline >= 0 {
			r.discarded = append(r.discarded, call{uint32(p.trampoline), starts[p.deopt]})
		}
	}
	for _, calls := range [][]call{r.calls, r.discarded} {
		slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.offset, b.offset) })
	}
	return starts, nil
}

// translationStarts returns where the translation of each deoptimization begins.
func (f *Finder) translationStarts(d deoptimization) ([]uint32, error) {
	first := f.code.DeoptInlinings + deoptEntries
	count := (d.elements - first) / deoptEntry
	if count <= 0 {
		return nil, nil
	}
	if count > maxDeopts {
		return nil, fmt.Errorf("read deoptimization data: %d entries", count)
	}
	const size = deoptEntry * wordSize
	b, err := f.heap.Bytes(d.array.Address+uint64(arrayFirst+first*wordSize), uint64(count*size), maxDeopts*size)
	if err != nil {
		return nil, fmt.Errorf("read deoptimization data: %w", err)
	}
	starts := make([]uint32, count)
	for i := range starts {
		n, ok := v8.Value(binary.LittleEndian.Uint64(b[i*size+deoptTranslation*wordSize:])).Smi()
		if !ok {
			return nil, fmt.Errorf("read deoptimization %d: its translation is at %#x", i, n)
		}
		starts[i] = uint32(n)
	}
	return starts, nil
}

// closuresOf returns which of the closures of each inlined function runs in a piece of code,
// whose translations begin at starts; 0 if that cannot be read, or is not the same one in all
// translations. It returns nil if they are too long.
func (f *Finder) closuresOf(d deoptimization, r *returns, starts []uint32) []v8.Value {
	if d.inlined == 0 {
		return nil
	}
	const several = -1
	left := maxAllInstructions
	literals := make(map[int]int) // of closures, by those of their SharedFunctionInfos
	for _, start := range starts {
		frames, _ := r.translations.functions(int(start), &left) // none of what cannot be read
		if left == 0 {
			return nil
		}
		for _, frame := range frames {
			if frame.literal < 0 || frame.literal >= d.inlined {
				continue
			}
			if known, ok := literals[frame.literal]; ok && known != frame.closure {
				frame.closure = several
			}
			literals[frame.literal] = frame.closure
		}
	}
	closures := make([]v8.Value, d.inlined)
	for shared, closure := range literals {
		if closure >= 0 {
			closures[shared], _ = f.literal(d.literals, closure)
		}
	}
	return closures
}

// literal returns an element of the literals.
func (f *Finder) literal(literals v8.Object, index int) (v8.Value, error) {
	length, err := f.heap.SmiField(literals, arrayLength)
	if err != nil {
		return 0, err
	}
	if index < 0 || index >= length || index > maxLiteral {
		return 0, fmt.Errorf("read translation: literal %d of %d", index, length)
	}
	v, err := f.heap.Field(literals, arrayFirst+index*wordSize)
	return v.Strong(), err
}

// bytecodePositions returns the positions of a function's bytecodes; nil if it has no
// bytecodes, or V8 has not made their positions.
func (f *Finder) bytecodePositions(shared v8.Value) ([]byte, error) {
	o, err := f.heap.Object(shared)
	if err != nil {
		return nil, err
	}
	array, ok, err := bytecodes(f.heap, o)
	if err != nil || !ok {
		return nil, err
	}
	return f.positionsOf(array)
}

// ReturnsTo reports whether a call returns to an offset in optimized code, for which V8
// keeps the functions that are in progress.
func (t *Table) ReturnsTo(offset int) bool {
	_, ok := t.returns.to(offset)
	return ok
}

// to returns the call that returns to an offset.
func (r *returns) to(offset int) (c call, ok bool) {
	if c, ok = find(r.calls, offset); !ok {
		c, ok = find(r.discarded, offset)
	}
	return c, ok
}

// inCall returns the places at which functions are while the call is in progress that
// returns to an offset; ok is false if V8 does not keep that. An error's stack has the same
// places.
func (t *Table) inCall(offset int) (places []Place, ok bool, err error) {
	c, ok := t.returns.to(offset)
	if !ok {
		return nil, false, nil
	}
	left := maxInstructions
	return t.translate(c, &left)
}

// translate returns the places of the frames that a call's translation makes. It reads as many
// instructions as left says, and reduces left by that.
func (t *Table) translate(c call, left *int) (places []Place, ok bool, err error) {
	frames, err := t.returns.translations.functions(int(c.translation), left)
	if err != nil {
		return nil, false, err
	}
	for _, frame := range slices.Backward(frames) {
		function := frame.literal
		if function == frames[0].literal {
			function = len(t.Inlined)
		} else if function < 0 || function >= len(t.Inlined) {
			return nil, false, fmt.Errorf("read translation: function %d of %d", function, len(t.Inlined))
		}
		positions := t.returns.bytecodes[function]
		if positions == nil {
			return nil, false, nil
		}
		p, begun, err := positionAt(positions, frame.bytecode, t.unsigned)
		if err != nil {
			return nil, false, err
		}
		place := t.place(t.Shared, t.start)
		if function < len(t.Inlined) {
			place = t.place(t.Inlined[function], -1)
		}
		if begun {
			place.Offset = p.offset()
		}
		places = append(places, place)
	}
	return places, len(places) > 0, nil
}

// isDoubtful reports whether the instruction at an offset may be elsewhere than its range's
// position, whose places are given, because a call in that range is. Maglev records the
// position of a loop for all of its rounds but the first, and the last position of all for
// the code that it moves to the end (V8 13.6 to 14.6).
func (t *Table) isDoubtful(offset int, r positionRange, places []Place) bool {
	if t.tier != symbolize.Maglev {
		return false
	}
	left := maxAllInstructions
	for _, c := range t.returns.calls {
		if at := int64(c.offset) - 1; at < r.start || at >= r.end {
			continue
		}
		in, ok, err := t.translate(c, &left)
		if left == 0 {
			return true
		}
		if err == nil && ok && !slices.Equal(in, places) {
			return int(c.offset) <= offset || t.goesBack(r)
		}
	}
	return false
}

// goesBack reports whether the position of a range is before that of an earlier range in
// the same function, as it is where a loop's first round ends.
func (t *Table) goesBack(r positionRange) (back bool) {
	_ = eachPosition(t.positions, t.unsigned, func(code int64, p sourcePosition) bool {
		back = back || p.inlining() == r.position.inlining() && p.offset() > r.position.offset()
		return !back && code < r.start
	}) // has been read
	return back
}
