package code

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// read is Heap.Object of an object that the image has.
func (m *image) read(t testing.TB, h *v8.Heap, tagged uint64) v8.Object {
	t.Helper()
	o, err := h.Object(v8.Value(tagged))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// set writes a word to a field of an object.
func (m *image) set(t testing.TB, h *v8.Heap, tagged uint64, class, field string, word uint64) {
	t.Helper()
	at, ok := h.Offset(class, field)
	if !ok {
		t.Fatalf("no %s.%s", class, field)
	}
	m.put(tagged-tag+uint64(at), word)
}

// text makes a string and returns a reference to it.
func (m *image) text(s string) uint64 {
	at := m.object("InternalizedString", 16+len(s))
	m.put32(at+12, uint32(len(s)))
	copy(m.bytes[at+16-imageBase:], s)
	return at | tag
}

// declares makes a function that declares so many parameters.
func (m *image) declares(t testing.TB, h *v8.Heap, count int) (shared uint64) {
	t.Helper()
	shared = m.compiled(m.bytecode(make([]byte, 20), nil))
	at, ok := h.Offset("SharedFunctionInfo", "internal_formal_parameter_count")
	if !ok {
		t.Fatal("where the number of parameters is kept is not known")
	}
	if m.Release.Frames.CountsReceiver {
		count++
	}
	m.put32(shared-tag+uint64(at), uint32(count)|7<<16) // what follows is another number
	return shared
}

func TestRegistersAreThoseOfTheBytecodes(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		array := m.bytecode(make([]byte, 20), nil)
		shared := m.compiled(array)
		size := array + uint64(m.Release.Sizes.BytecodeArrayTagged)
		for _, tt := range []struct {
			name string
			size uint32
			want int // below 0: refused
		}{
			{"none", 0, 0},
			{"some", 5 * wordSize, 5},
			{"the most", maxRegisters * wordSize, maxRegisters},
			{"too many", (maxRegisters + 1) * wordSize, -1},
			{"all bits", 1<<32 - 1, -1},
			{"half a register", 5*wordSize + 4, -1},
		} {
			m.put32(size, tt.size)
			if got, err := Registers(h, m.read(t, h, shared)); (err != nil) != (tt.want < 0) || err == nil && got != tt.want {
				t.Errorf("%s: registers = %d, %v, want %d", tt.name, got, err, tt.want)
			}
		}
	})
}

func TestFunctionsWithoutBytecodesHaveNoRegisters(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		shared := m.sharedFunctions(1)[0]
		circle := m.object("InterpreterData", 64) | tag
		m.set(t, h, circle, "InterpreterData", "bytecode_array", circle)
		for name, data := range map[string]uint64{
			"a builtin's number": small(7), "an array": m.array(), "a circle": circle, "not mapped": 0x10 | tag,
		} {
			m.put(shared-tag+uint64(m.Layout.SharedData), data)
			if got, err := Registers(h, m.read(t, h, shared)); err == nil {
				t.Errorf("%s: registers = %d, want an error", name, got)
			}
		}
	})
}

func TestRegistersOfAFrameAreBelowIt(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		first := int(m.Release.Frames.Registers)
		fp := m.frame(map[int]uint64{first: small(10), first - wordSize: small(11)}, small(20), small(21))
		for number, want := range []int{10, 11} {
			if got, err := Register(h, fp, number); uint64(got) != small(want) || err != nil {
				t.Errorf("register %d = %#x, %v, want %d", number, uint64(got), err, want)
			}
		}
		for index, want := range []int{20, 21} {
			if got, err := Argument(h, fp, index); uint64(got) != small(want) || err != nil {
				t.Errorf("argument %d = %#x, %v, want %d", index, uint64(got), err, want)
			}
		}
		for _, number := range []int{-1, maxRegisters, 1 << 40} {
			if got, err := Register(h, fp, number); err == nil {
				t.Errorf("register %d = %#x, want an error", number, uint64(got))
			}
		}
		if got, err := Register(h, imageBase, 0); err == nil {
			t.Errorf("register below the memory = %#x, want an error", uint64(got))
		}
	})
}

func TestParametersAreThoseThatAFunctionDeclares(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		for _, want := range []int{0, 1, 65534} {
			if got, err := Parameters(h, m.read(t, h, m.declares(t, h, want))); got != want || err != nil {
				t.Errorf("parameters = %d, %v, want %d", got, err, want)
			}
		}
	})
}

// generator makes a suspended generator of a function with so many parameters, and what it
// has saved.
func (m *image) generator(t testing.TB, h *v8.Heap, parameters int, saved ...uint64) (generator uint64) {
	t.Helper()
	fn := m.object("JSFunction", 64)
	m.put(fn+uint64(m.Layout.FunctionShared), m.declares(t, h, parameters))
	generator = m.object("JSGeneratorObject", 128) | tag
	m.set(t, h, generator, "JSGeneratorObject", "parameters_and_registers", m.array(saved...))
	m.set(t, h, generator, "JSGeneratorObject", "function", fn|tag)
	return generator
}

func TestGeneratorsSaveTheirParameters(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		saved := []uint64{small(1), small(2), small(3)} // the last is a register
		g := m.generator(t, h, 2, saved...)
		want := []v8.Value{v8.Value(small(1)), v8.Value(small(2))}
		if got, err := SavedBy(h, m.read(t, h, g)); !slices.Equal(got.Parameters, want) || got.Registers != nil || err != nil {
			t.Errorf("saved parameters = %v, %v, want %v", got, err, want)
		}
		if got, err := SavedBy(h, m.read(t, h, m.generator(t, h, 4, saved...))); err == nil {
			t.Errorf("4 parameters in 3 words = %v, want an error", got)
		}
		for name, tt := range map[string]struct {
			field string
			word  uint64
		}{
			"no array":    {"parameters_and_registers", g},
			"long array":  {"parameters_and_registers", m.object("FixedArray", 64, small(1<<30)) | tag},
			"no function": {"function", m.array()},
			"a number":    {"function", small(1)},
		} {
			whole := slices.Clone(m.bytes)
			m.set(t, h, g, "JSGeneratorObject", tt.field, tt.word)
			if got, err := SavedBy(h, m.read(t, h, g)); err == nil {
				t.Errorf("%s: saved parameters = %v, want an error", name, got)
			}
			copy(m.bytes, whole)
		}
	})
}

// wrapped makes a script whose text V8 has made a function with parameters.
func (m *image) wrapped(t testing.TB, h *v8.Heap, parameters ...uint64) v8.Function {
	t.Helper()
	script := m.object("Script", 160) | tag
	for _, field := range evalFields {
		if at, ok := h.Offset("Script", field); ok {
			m.put(script-tag+uint64(at), m.array(parameters...))
		}
	}
	return v8.Function{Script: script}
}

func TestParametersOfAWrappedScript(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		h := heapAt(t, m, m.Binary)
		for _, want := range [][]string{{}, {"exports", "require", "module"}} {
			var words []uint64
			for _, name := range want {
				words = append(words, m.text(name))
			}
			if got, err := WrappedParameters(h, m.wrapped(t, h, words...)); !slices.Equal(got, want) || err != nil {
				t.Errorf("parameters = %q, %v, want %q", got, err, want)
			}
		}
		for name, f := range map[string]v8.Function{
			"no script":       {},
			"not mapped":      m.wrapped(t, h, 0x10|tag),
			"more than limit": m.wrapped(t, h, make([]uint64, maxArguments+1)...),
		} {
			if got, err := WrappedParameters(h, f); err == nil {
				t.Errorf("%s: parameters = %q, want an error", name, got)
			}
		}
	})
}

// FuzzDamagedRegisters reads registers and parameters from memory of which random words are
// wrong.
func FuzzDamagedRegisters(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[len(nodetest.Versions)-1])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		h := heapAt(t, m, m.Binary)
		shared := m.declares(t, h, 2)
		generator := m.generator(t, h, 2, small(1), small(2), small(3))
		script := m.wrapped(t, h, m.text("exports"), m.text("require"))
		random := rand.New(rand.NewPCG(seed, 0))
		m.damage(random)
		if o, err := h.Object(v8.Value(shared)); err == nil {
			if n, err := Registers(h, o); err == nil && (n < 0 || n > maxRegisters) {
				t.Errorf("registers = %d, want %d at most", n, maxRegisters)
			}
			if n, err := Parameters(h, o); err == nil && (n < -1 || n > 1<<16) {
				t.Errorf("parameters = %d, want 16 bits", n)
			}
		}
		if o, err := h.Object(v8.Value(generator)); err == nil {
			if saved, err := SavedBy(h, o); err == nil && len(saved.Parameters)+len(saved.Registers) > len(m.bytes)/wordSize {
				t.Errorf("saved parameters = %d, from memory of %d bytes", len(saved.Parameters)+len(saved.Registers), len(m.bytes))
			}
		}
		names, _ := WrappedParameters(h, script)
		if len(names) > maxArguments {
			t.Errorf("names = %d, want %d at most", len(names), maxArguments)
		}
		_, _ = Register(h, random.Uint64(), random.IntN(2*maxRegisters))
		_, _ = Argument(h, random.Uint64(), random.IntN(2*maxRegisters))
	})
}
