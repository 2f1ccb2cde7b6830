package code

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

func TestCodeOfFunctionIsFound(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		for tier, kind := range m.tiers() {
			at, start := m.code(kind, 100, 0, 0)
			fn, isolate := m.function(at)
			got, err := m.finder(t).OfFunction(v8.Ref(fn), isolate)
			want := Code{Address: at, Start: start, Size: 100, Tier: tier}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(Code{})); diff != "" || err != nil {
				t.Errorf("code, %v (-want +got):\n%s", err, diff)
			}
			for pc, want := range map[uint64]bool{start - 1: false, start: true, start + 99: true, start + 100: false} {
				if holds := got.Holds(pc); holds != want {
					t.Errorf("code from %#x holds %#x: %t, want %t", start, pc, holds, want)
				}
			}
		}
	})
}

func TestCodeOfNothingIsRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		array := m.array()
		fn, isolate := m.function(array - tag)
		f := m.finder(t)
		if _, err := f.OfFunction(v8.Value(array), 0); !contains(err, "read function") {
			t.Errorf("code of an array: error = %v", err)
		}
		if _, err := f.OfFunction(v8.Ref(fn), isolate); !contains(err, "read code") {
			t.Errorf("code that is an array: error = %v", err)
		}
		if _, err := f.OfFunction(v8.Value(small(7)), isolate); err == nil {
			t.Error("code of a number has no error")
		}
		if m.Layout.DispatchHandle == 0 {
			return
		}
		f.dispatch = 0
		if _, err := f.OfFunction(v8.Ref(fn), 0); !errors.Is(err, errNoTable) {
			t.Errorf("code without a dispatch table: error = %v, want %v", err, errNoTable)
		}
	})
}

// TestCodeIsFoundByItsInstructions searches for a function's code from each of its
// instructions, among others.
func TestCodeIsFoundByItsInstructions(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		starts := map[uint64]uint64{} // of instructions, by code
		for range 3 {
			at, start := m.code(m.Layout.KindTurbofan, 200, 0, 0)
			starts[at] = start
		}
		for at, start := range starts {
			for pc := start; pc < start+200; pc += 7 {
				if got, err := f.At(pc, imageBase); err != nil || got.Address != at {
					t.Fatalf("code at %#x = %#x, %v, want %#x", pc, got.Address, err, at)
				}
			}
			if got, err := f.At(start+100, start+8); !errors.Is(err, errNoCode) {
				t.Errorf("code that begins before the search = %#x, %v, want %v", got.Address, err, errNoCode)
			}
		}
		if _, err := f.At(imageBase, imageBase); !errors.Is(err, errNoCode) {
			t.Errorf("code before all code: error = %v, want %v", err, errNoCode)
		}
		if _, err := f.At(imageBase/2, 0); err == nil {
			t.Error("code in memory that is not there has no error")
		}
	})
}

// A place has the number of a function and an offset.
type inlinedAt struct{ function, offset int }

// optimized makes optimized code: functions has the SharedFunctionInfo of the outer
// function first, inlinings the function and the call of each inlining; below 0 is
// the outer function.
func (m *image) optimized(functions []uint64, inlinings []inlinedAt, calls []sourcePosition, entries []entry) (at, start uint64) {
	c := &m.Release.Code
	shared := functions[0]
	if c.SharedWrapped {
		shared = m.object("SharedFunctionInfoWrapper", 0, shared) | tag
	}
	table := make([]byte, 0, len(inlinings)*inliningSize)
	for i, in := range inlinings {
		table = binary.LittleEndian.AppendUint64(table, uint64(calls[i]))
		table = binary.LittleEndian.AppendUint64(table, uint64(uint32(int32(in.function))))
	}
	data := make([]uint64, c.DeoptInlinings+1)
	data[c.DeoptShared], data[c.DeoptInlined] = shared, small(len(functions)-1)
	data[c.DeoptLiterals], data[c.DeoptInlinings] = m.array(functions[1:]...), m.table(table)
	return m.code(m.Layout.KindTurbofan, 100, m.array(data...), m.table(encode(entries, c.UnsignedSteps)))
}

// sharedFunctions makes count SharedFunctionInfos.
func (m *image) sharedFunctions(count int) []uint64 {
	var all []uint64
	for range count {
		all = append(all, m.object("SharedFunctionInfo", 80)|tag)
	}
	return all
}

// TestInlinedFunctionsAreFound: the outer function 0 calls 1 at 10, which calls 2 at 20.
func TestInlinedFunctionsAreFound(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		functions := m.sharedFunctions(3)
		at, start := m.optimized(functions,
			[]inlinedAt{{function: 0}, {function: 1}},
			[]sourcePosition{position(10, 0), position(20, 1)},
			[]entry{{4, position(5, 0), true}, {8, position(30, 2), true}, {16, position(25, 1), true}, {24, position(40, 0), true}})
		fn, isolate := m.function(at)
		f := m.finder(t)
		code, err := f.OfFunction(v8.Ref(fn), isolate)
		if err != nil {
			t.Fatal(err)
		}
		for offset, want := range map[uint64][]inlinedAt{
			4: {{0, 5}}, 8: {{2, 30}, {1, 20}, {0, 10}}, 15: {{2, 30}, {1, 20}, {0, 10}}, 16: {{1, 25}, {0, 10}}, 99: {{0, 40}},
		} {
			places, err := f.Optimized(code, start+offset)
			var got []inlinedAt
			for _, p := range places {
				got = append(got, inlinedAt{slices.Index(functions, uint64(p.Shared)), p.Offset})
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(inlinedAt{})); diff != "" || err != nil {
				t.Errorf("places at %d, %v (-want +got):\n%s", offset, err, diff)
			}
		}
	})
}

func TestInliningThatCannotBeIsRefused(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		functions := m.sharedFunctions(2)
		for name, tt := range map[string]struct {
			in    inlinedAt
			call  sourcePosition
			entry sourcePosition
			want  string
			most  int // places
		}{
			"a function that is not there":  {inlinedAt{function: 7}, position(1, 0), position(2, 1), "function 7 of 1", 1},
			"an inlining that is not there": {inlinedAt{function: 0}, position(1, 0), position(2, 9), "read inlining 8 of 1", 1},
			"a function inlined in itself":  {inlinedAt{function: 0}, position(1, 1), position(2, 1), "", maxInlined + 1},
		} {
			at, start := m.optimized(functions, []inlinedAt{tt.in}, []sourcePosition{tt.call}, []entry{{0, tt.entry, true}})
			code, err := f.Code(v8.Ref(at))
			if err != nil {
				t.Fatal(err)
			}
			places, err := f.Optimized(code, start)
			if tt.want != "" && !contains(err, tt.want) {
				t.Errorf("%s: error = %v, want one with %q", name, err, tt.want)
			}
			if n := len(places); n > tt.most || n == 0 || uint64(places[n-1].Shared) != functions[0] {
				t.Errorf("%s: %d places, want at most %d, and the outer function last", name, n, tt.most)
			}
		}
	})
}

func TestCodeWithoutPositionsIsOfItsFunction(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		functions := m.sharedFunctions(1)
		at, start := m.optimized(functions, nil, nil, nil)
		m.put(at+uint64(m.Release.Code.Positions), m.array())
		code, err := f.Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		want := []Place{{Shared: v8.Value(functions[0]), Offset: -1}}
		if got, err := f.Optimized(code, start); !slices.Equal(got, want) || err != nil {
			t.Errorf("places = %v, %v, want %v", got, err, want)
		}
	})
}

// frame makes a stack frame and returns its frame pointer. slots has words by their
// offset from it.
func (m *image) frame(slots map[int]uint64, arguments ...uint64) uint64 {
	const below, above = 64, 64
	fp := m.room(below+above+8*len(arguments)) + below
	for at, w := range slots {
		m.put(fp+uint64(int64(at)), w)
	}
	m.put(fp+slotReceiver+8, arguments...)
	return fp
}

func TestCallIsReadFromItsFrame(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		l := &m.Layout
		fn, _ := m.function(imageBase)
		arguments := []uint64{small(1), small(2), small(3)}
		for _, n := range []int{0, 2, 3} {
			count := uint64(n)
			if m.Release.Frames.CountsReceiver {
				count++
			}
			fp := m.frame(map[int]uint64{
				int(l.FPFunction): fn | tag, int(l.FPContext): 0x77, slotReceiver: small(9), slotCount: count,
			}, arguments...)
			want := Call{Function: v8.Ref(fn), Context: 0x77, This: v8.Value(small(9)), Count: n}
			for _, a := range arguments[:n] {
				want.Arguments = append(want.Arguments, v8.Value(a))
			}
			if got, err := f.Call(fp); !cmp.Equal(want, got) || err != nil {
				t.Errorf("call = %+v, %v, want %+v", got, err, want)
			}
		}
		fp := m.frame(map[int]uint64{slotCount: 1 << 40})
		if _, err := f.Call(fp); !contains(err, "arguments") {
			t.Errorf("call with 2^40 arguments: error = %v", err)
		}
		fp = m.frame(map[int]uint64{slotCount: 60000}, make([]uint64, maxArguments+10)...)
		if got, err := f.Call(fp); len(got.Arguments) != maxArguments || err != nil {
			t.Errorf("arguments read = %d, %v, want %d", len(got.Arguments), err, maxArguments)
		}
		if _, err := f.Call(imageBase / 2); err == nil {
			t.Error("call in a frame that is not there has no error")
		}
	})
}

// bytecode makes a BytecodeArray and returns its address.
func (m *image) bytecode(code []byte, entries []entry) uint64 {
	first := m.Release.Fields["BytecodeArray.data"]
	if n, ok := m.Constant("class_BytecodeArray__data__uintptr_t"); ok {
		first = uint16(n)
	}
	at := m.object("BytecodeArray", int(first)+len(code), small(len(code)))
	copy(m.bytes[at+uint64(first)-imageBase:], code)
	m.put(at+uint64(m.Release.Fields["BytecodeArray.source_position_table"]), m.table(encode(entries, m.Release.Code.UnsignedSteps)))
	return at
}

func TestInterpretedFrameHasItsPosition(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		l := &m.Layout
		array := m.bytecode(make([]byte, 40), []entry{{2, position(11, 0), true}, {20, position(22, 0), true}, {39, position(33, 0), true}})
		frame := func(bytecode uint64) uint64 {
			return m.frame(map[int]uint64{int(l.FPBytecodeArray): array | tag, int(l.FPBytecodeOffset): bytecode})
		}
		for at, want := range map[int]int{1: -1, 2: 11, 19: 11, 20: 22, 38: 22, 39: 33} {
			fp := frame(small(at + int(f.code.bytecodes) - tag))
			if got, err := f.Interpreted(fp); got != want || err != nil {
				t.Errorf("position of bytecode %d = %d, %v, want %d", at, got, err, want)
			}
			if f.IsBaseline(fp) {
				t.Error("a frame with a bytecode offset is said to be baseline's")
			}
			if got, err := f.Returning(fp); got != 33 || err != nil {
				t.Errorf("position of the end = %d, %v, want 33", got, err)
			}
		}
		fp := frame(array | tag)
		if _, err := f.Interpreted(fp); !contains(err, "bytecode's offset") || !f.IsBaseline(fp) {
			t.Errorf("frame without an offset: error = %v, baseline = %t", err, f.IsBaseline(fp))
		}
		m.put(fp+uint64(int64(l.FPBytecodeArray)), m.array())
		if _, err := f.Interpreted(fp); !contains(err, "read bytecodes") {
			t.Errorf("frame without bytecodes: error = %v", err)
		}
	})
}

// TestBaselineFrameHasItsPosition runs code that has ten bytes for each bytecode of
// one byte, after a prologue of twenty.
func TestBaselineFrameHasItsPosition(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		f := m.finder(t)
		f.code.sizes = slices.Repeat([]byte{1}, 3*256)
		array := m.bytecode(slices.Repeat([]byte{200}, 4), []entry{{0, position(10, 0), true}, {2, position(12, 0), true}, {3, position(13, 0), true}})
		at, start := m.code(m.Layout.KindBaseline, 60, 0, m.table([]byte{20, 10, 10, 10, 10}))
		code, err := f.Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		fp := m.frame(map[int]uint64{int(m.Layout.FPBytecodeArray): array | tag})
		for offset, want := range map[uint64]int{20: -1, 21: 10, 30: 10, 40: 10, 41: 12, 50: 12, 51: 13, 60: 13} {
			if got, err := f.Baseline(code, fp, start+offset); got != want || err != nil {
				t.Errorf("position at %d = %d, %v, want %d", offset, got, err, want)
			}
		}
		m.put(array+arrayLength, small(maxBytecodes+1))
		if _, err := f.Baseline(code, fp, start); !contains(err, "read bytecodes") {
			t.Errorf("more bytecodes than V8 allows: error = %v", err)
		}
		f.code.sizes = nil
		if _, err := f.Baseline(code, fp, start); !errors.Is(err, errNoSizes) {
			t.Errorf("without the sizes of bytecodes: error = %v", err)
		}
	})
}

func contains(err error, text string) bool {
	return err != nil && strings.Contains(err.Error(), text)
}

// FuzzDamagedCode reads frames and code of which random words are wrong.
func FuzzDamagedCode(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	path := nodetest.Node(f, nodetest.Versions[0])
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, path)
		functions := m.sharedFunctions(2)
		at, start := m.optimized(functions, []inlinedAt{{function: 0}}, []sourcePosition{position(1, 0)}, []entry{{0, position(2, 1), true}})
		fn, isolate := m.function(at)
		array := m.bytecode(make([]byte, 40), []entry{{2, position(11, 0), true}})
		fp := m.frame(map[int]uint64{
			int(m.Layout.FPFunction): fn | tag, slotCount: 2,
			int(m.Layout.FPBytecodeArray): array | tag, int(m.Layout.FPBytecodeOffset): small(60),
		}, small(1), small(2))
		finder := m.finder(t)
		m.damage(rand.New(rand.NewPCG(seed, 0)))
		code, _ := finder.OfFunction(v8.Ref(fn), isolate)
		code.Tier = symbolize.Turbofan
		places, _ := finder.Optimized(code, start)
		if len(places) > maxInlined+1 {
			t.Errorf("places = %d, want %d at most", len(places), maxInlined+1)
		}
		call, _ := finder.Call(fp)
		if len(call.Arguments) > maxArguments {
			t.Errorf("arguments = %d, want %d at most", len(call.Arguments), maxArguments)
		}
		finder.Exit(fp)
		finder.Template(fp)
		finder.Interpreted(fp)
		finder.IsBaseline(fp)
		finder.Returning(fp)
		finder.Baseline(code, fp, start)
		finder.At(start, imageBase)
	})
}

// damage overwrites random words: with small integers, references, and noise.
func (m *image) damage(random *rand.Rand) {
	for range 20 {
		at := imageBase + uint64(random.IntN(len(m.bytes)/8))*8
		switch random.IntN(4) {
		case 0:
			m.put(at, small(int(random.Uint32())))
		case 1:
			m.put(at, imageBase+uint64(random.IntN(len(m.bytes)/8))*8|tag)
		case 2:
			m.put(at, 1<<64-1)
		default:
			m.put(at, random.Uint64())
		}
	}
}

func TestTemplateHasTheNameOfItsFunction(t *testing.T) {
	eachImage(t, func(t *testing.T, m *image) {
		l := &m.Layout
		if l.APIExitFunction == 0 {
			return
		}
		shared := m.sharedFunctions(1)[0]
		name := m.object("InternalizedString", 32)
		m.put32(name+12, 4)
		copy(m.bytes[name+16-imageBase:], "poll")
		m.put(shared-tag+uint64(l.SharedName), name|tag)
		template := m.object("FunctionTemplateInfo", int(l.TemplateShared)+8)
		m.put(template+uint64(l.TemplateShared), shared)
		f := m.finder(t)
		fp := m.frame(map[int]uint64{int(l.APIExitFunction): template | tag})
		if got, err := f.Template(fp); got.Name != "poll" || got.Script != 0 || err != nil {
			t.Errorf("function = %+v, %v, want poll without a script", got, err)
		}
		fp = m.frame(map[int]uint64{int(l.APIExitFunction): shared})
		if _, err := f.Template(fp); err == nil {
			t.Error("a function of another type has no error")
		}
	})
}
