package variables_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/stack"
	"ustack/symbolize/v8/value"
	"ustack/symbolize/v8/variables"
	"ustack/testdata/nodetest"
	"ustack/tools/jscore"
)

// program aborts in outer. late has not run; steps has saved its parameters.
const program = `'use strict';
const around = 'closure';
function* steps(first, second) { let kept = first; yield second; return kept; }
const suspended = steps(31, 'second');
suspended.next();
function outer(number, text) {
	let sum = number + 7000;
	var shared = 'in a context';
	const use = () => shared + around + late;
	process.abort(use, suspended);
	const late = 1;
	return text + sum;
}
outer(771, 'given');
`

// Offsets in bytes, and words.
const (
	wordSize     = 8
	pageSize     = 4096
	arrayLength  = 8
	arrayFirst   = 16
	previousSlot = 1
	smiShift     = 32
)

// A captured memory holds what was read from a core, and can be damaged.
type captured struct {
	core  v8.Memory         // nil: what was not read yet is not there
	pages map[uint64][]byte // by address
	reads []uint64          // addresses that were read
}

var errNotCaptured = errors.New("not captured")

func (c *captured) ReadAt(p []byte, address uint64) (int, error) {
	for n := 0; n < len(p); {
		at := address + uint64(n)
		page, err := c.page(at &^ (pageSize - 1))
		if err != nil {
			return n, err
		}
		n += copy(p[n:], page[at%pageSize:])
	}
	if c.core != nil {
		c.reads = append(c.reads, address+uint64(len(p))/2)
	}
	return len(p), nil
}

func (c *captured) page(address uint64) ([]byte, error) {
	if page, ok := c.pages[address]; ok {
		return page, nil
	}
	if c.core == nil {
		return nil, errNotCaptured
	}
	page := make([]byte, pageSize)
	if _, err := c.core.ReadAt(page, address); err != nil {
		return nil, err
	}
	c.pages[address] = page
	return page, nil
}

// put writes a word and returns a function that restores the old one.
func (c *captured) put(address, word uint64) (undo func()) {
	page, at := c.pages[address&^(pageSize-1)], address%pageSize
	old := binary.LittleEndian.Uint64(page[at:])
	binary.LittleEndian.PutUint64(page[at:], word)
	return func() { binary.LittleEndian.PutUint64(page[at:], old) }
}

// A scene is the program's frames, with the memory that their variables are read from.
type scene struct {
	*captured
	binary *v8.Binary
	frames []stack.Frame // of JavaScript, and that of the generator, which is the last
	outer  stack.Frame
}

// capture runs the program and captures what its variables are read from.
func capture(t *testing.T, version string) *scene {
	t.Helper()
	script := filepath.Join(t.TempDir(), "program.js")
	if err := os.WriteFile(script, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	core, _ := nodetest.Killed(t, nodetest.Node(t, version), "--no-opt", "--no-sparkplug", script)
	d, err := jscore.Open(t.Context(), core, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s := &scene{captured: &captured{core: d.Heap(), pages: make(map[uint64][]byte)}, binary: d.Heap().Binary()}
	for _, f := range d.Stack(d.Threads()[0]).Frames {
		if f.Kind == symbolize.JS {
			s.frames = append(s.frames, f)
		}
		if f.Name == "outer" {
			s.outer = f
		}
	}
	suspended, ok := named(s.read(t, s.outer), "suspended")
	if !ok {
		t.Fatalf("frames = %+v, want outer, which has suspended", s.frames)
	}
	s.frames = append(s.frames, d.Suspended(suspended.Value))
	for _, f := range s.frames {
		s.read(t, f)
	}
	s.core = nil
	return s
}

// heap returns the heap as it is now.
func (s *scene) heap(t *testing.T) *v8.Heap {
	t.Helper()
	h, err := v8.NewHeap(s.captured, s.binary)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// read returns the variables of a frame that can be read, and reads the values of all.
func (s *scene) read(t *testing.T, f stack.Frame) []variables.Variable {
	t.Helper()
	h := s.heap(t)
	r := variables.NewReader(h)
	found, _ := r.Of(f)
	for _, v := range found.Variables {
		value.BriefOf(h, v.Value)
	}
	if this, ok := r.This(f); ok {
		value.BriefOf(h, this)
	}
	return found.Variables
}

func named(all []variables.Variable, name string) (variables.Variable, bool) {
	i := slices.IndexFunc(all, func(v variables.Variable) bool { return v.Name == name })
	if i < 0 {
		return variables.Variable{}, false
	}
	return all[i], true
}

// shown returns the value of a frame's variable, or why it has none.
func (s *scene) shown(t *testing.T, f stack.Frame, name string) string {
	t.Helper()
	v, ok := named(s.read(t, f), name)
	switch {
	case !ok:
		return "absent"
	case v.State != variables.Known:
		return v.State.String()
	}
	return v.Kind.String() + " " + string(value.BriefOf(s.heap(t), v.Value).Text)
}

// field returns where an object has a field.
func (s *scene) field(t *testing.T, object v8.Value, class, name string) uint64 {
	t.Helper()
	at, ok := s.heap(t).Offset(class, name)
	if !ok {
		t.Fatalf("no %s.%s", class, name)
	}
	return object.Address() + uint64(at)
}

// word returns the word at an address.
func (s *scene) word(t *testing.T, address uint64) uint64 {
	t.Helper()
	w, err := s.heap(t).Word(address)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// register returns where outer's frame has a number.
func (s *scene) register(t *testing.T, number uint64) uint64 {
	t.Helper()
	const most = 16
	first := s.outer.FP + uint64(int64(s.binary.Release.Frames.Registers))
	for at := first; at > first-most*wordSize; at -= wordSize {
		if s.word(t, at) == number<<smiShift {
			return at
		}
	}
	t.Fatalf("no register has %d", number)
	return 0
}

// hole returns what late has in outer's Context.
func (s *scene) hole(t *testing.T) uint64 {
	t.Helper()
	const most = 8
	for slot := range uint64(most) {
		word := s.word(t, s.outer.Call.Context.Address()+arrayFirst+slot*wordSize)
		if s.heap(t).Oddball(v8.Value(word)) == "hole" {
			return word
		}
	}
	t.Fatal("no variable has the hole")
	return 0
}

// versions are the Node.js whose frames are captured.
func versions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"18.20.8", "26.10.0"}
}

func TestVariablesOfFrames(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			s := capture(t, version)
			t.Run("right", s.hasAll)
			t.Run("damaged", s.isDoubtful)
			t.Run("refused", s.isRefused)
		})
	}
}

// hasAll compares the variables with the program's.
func (s *scene) hasAll(t *testing.T) {
	steps := s.frames[len(s.frames)-1]
	for _, tt := range []struct {
		frame      stack.Frame
		name, want string
	}{
		{s.outer, "number", "parameter 771"},
		{s.outer, "text", "parameter given"},
		{s.outer, "sum", "local 7771"},
		{s.outer, "shared", "local in a context"},
		{s.outer, "late", "not initialized"},
		{s.outer, "around", "closure closure"},
		{s.outer, "unknown", "absent"},
		{steps, "first", "parameter 31"},
		{steps, "second", "parameter second"},
		{steps, "kept", "local 31"}, // a register that was saved
	} {
		if got := s.shown(t, tt.frame, tt.name); got != tt.want {
			t.Errorf("%s of %s = %s, want %s", tt.name, tt.frame.Name, got, tt.want)
		}
	}
	if _, ok := variables.NewReader(s.heap(t)).This(s.outer); !ok {
		t.Error("outer has no receiver, want undefined")
	}
	if found, err := variables.NewReader(s.heap(t)).Of(stack.Frame{}); err != nil || len(found.Variables) != 0 {
		t.Errorf("variables of a native frame = %+v, %v, want none", found, err)
	}
}

// isDoubtful damages a word each time: what it makes doubtful is not shown.
func (s *scene) isDoubtful(t *testing.T) {
	shared := s.outer.Shared
	count := s.field(t, shared, "SharedFunctionInfo", "internal_formal_parameter_count")
	scope := v8.Value(s.word(t, shared.Address()+uint64(s.binary.Layout.SharedName)))
	size := s.bytecodes(t) + uint64(s.binary.Release.Sizes.BytecodeArrayTagged)
	sum := s.register(t, 7771)
	for _, tt := range []struct {
		name     string
		at, word uint64
		wants    map[string]string
	}{
		{"another number of parameters", count, s.word(t, count) + 1, map[string]string{
			"number": "absent", "sum": "absent", "shared": "local in a context",
		}},
		{"a frame without registers", size, s.word(t, size) >> smiShift << smiShift, map[string]string{
			"number": "parameter 771", "sum": "optimized out", "shared": "local in a context",
		}},
		{"half a register", size, s.word(t, size) + 4, map[string]string{"number": "parameter 771", "sum": "optimized out"}},
		{"the hole in a register", sum, s.hole(t), map[string]string{"sum": "optimized out", "number": "parameter 771"}},
		{"a scope of nothing", scope.Address() + wordSize, s.word(t, s.outer.FP), map[string]string{"number": "absent", "sum": "absent"}},
		{"a Context that is a number", s.outer.FP - wordSize, 7 << smiShift, map[string]string{"number": "parameter 771"}},
	} {
		undo := s.put(tt.at, tt.word)
		for name, want := range tt.wants {
			if got := s.shown(t, s.outer, name); got != want {
				t.Errorf("%s: %s = %s, want %s", tt.name, name, got, want)
			}
		}
		undo()
	}
	optimized := s.outer
	optimized.Tier = symbolize.Turbofan
	inlined := optimized
	inlined.Inlined = true
	for _, f := range []stack.Frame{optimized, inlined} {
		if got := s.shown(t, f, "sum"); got != "optimized out" {
			t.Errorf("sum of optimized code = %s, want that it is not known", got)
		}
	}
	if got := s.shown(t, inlined, "number"); got != "optimized out" {
		t.Errorf("parameter of an inlined function = %s, want that it is not known", got)
	}
}

// bytecodes returns the address of outer's BytecodeArray.
func (s *scene) bytecodes(t *testing.T) uint64 {
	t.Helper()
	h := s.heap(t)
	start, _, err := code.Bytecodes(h, s.outer.Shared)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := h.Offset("BytecodeArray", "data")
	return start - uint64(first)
}

// isRefused reads what is no function and Contexts that do not end.
func (s *scene) isRefused(t *testing.T) {
	of := func(f stack.Frame) error {
		_, err := variables.NewReader(s.heap(t)).Of(f)
		return err
	}
	number := stack.Frame{Frame: symbolize.Frame{Kind: symbolize.JS}}
	number.Call.Function = 7 << smiShift
	other := s.outer
	other.Shared = s.outer.Call.Context
	for name, f := range map[string]stack.Frame{"a number": number, "a Context": other} {
		if err := of(f); err == nil {
			t.Errorf("variables of %s: no error", name)
		}
	}
	closure := v8.Value(s.word(t, s.field(t, s.outer.Call.Function, "JSFunction", "context")))
	defer s.put(closure.Address()+arrayFirst+previousSlot*wordSize, uint64(closure))()
	if err := of(s.outer); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a Context in itself: error = %v, want one with %q", err, "more than")
	}
}

// maxSteps bounds the reads of memory for the variables of a few damaged frames. Contexts in
// a circle need a dozen for each of 4096.
const maxSteps = 2_000_000

// A counted memory counts reads.
type counted struct {
	v8.Memory
	reads int
}

func (c *counted) ReadAt(p []byte, address uint64) (int, error) {
	c.reads++
	return c.Memory.ReadAt(p, address)
}

// FuzzDamagedFrames reads variables from memory of which random words are wrong.
func FuzzDamagedFrames(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	var s *scene
	f.Fuzz(func(t *testing.T, seed uint64) {
		if s == nil {
			s = capture(t, nodetest.Versions[len(nodetest.Versions)-1])
		}
		defer s.damage(rand.New(rand.NewPCG(seed, 0)))()
		memory := &counted{Memory: s.captured}
		h, err := v8.NewHeap(memory, s.binary)
		if err != nil {
			t.Fatal(err)
		}
		r := variables.NewReader(h)
		for _, frame := range s.frames {
			found, _ := r.Of(frame)
			if found.Arguments > len(found.Variables) {
				t.Errorf("arguments = %d of %d variables", found.Arguments, len(found.Variables))
			}
			for _, v := range found.Variables {
				if v.Name == "" {
					t.Errorf("a variable of %s has no name: %+v", frame.Name, v)
				}
			}
			r.This(frame)
		}
		if memory.reads > maxSteps {
			t.Errorf("reads of memory = %d, want %d at most", memory.reads, maxSteps)
		}
	})
}

// damage changes random words that were read and returns a function that restores them.
func (c *captured) damage(random *rand.Rand) (undo func()) {
	var undos []func()
	for range 30 {
		word := random.Uint64()
		switch random.IntN(4) {
		case 0:
			word = uint64(random.Uint32()) << smiShift
		case 1:
			word = c.reads[random.IntN(len(c.reads))]&^(wordSize-1) | 1
		case 2:
			word = 1<<64 - 1
		}
		undos = append(undos, c.put(c.reads[random.IntN(len(c.reads))]&^(wordSize-1), word))
	}
	return func() {
		for _, f := range slices.Backward(undos) {
			f()
		}
	}
}
