package wasm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

// A memory is made-up memory in which V8's objects of WebAssembly are.
type memory struct {
	bytes []byte
	reads int // so far
}

const base = 0x100000

func (m *memory) ReadAt(p []byte, addr uint64) (int, error) {
	m.reads++
	if addr < base || addr-base >= uint64(len(m.bytes)) {
		return 0, errGone
	}
	if n := copy(p, m.bytes[addr-base:]); n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

var errGone = errors.New("not mapped")

// room returns the address of size bytes that nothing else uses.
func (m *memory) room(size int) uint64 {
	at := base + uint64(len(m.bytes))
	m.bytes = append(m.bytes, make([]byte, (size+15)&^15)...)
	return at
}

func (m *memory) put(addr uint64, words ...uint64) {
	for i, w := range words {
		binary.LittleEndian.PutUint64(m.bytes[addr-base+uint64(8*i):], w)
	}
}

func (m *memory) put32(addr uint64, n int) {
	binary.LittleEndian.PutUint32(m.bytes[addr-base:], uint32(n))
}

// A pair is an entry of a map: a key with the first two words of its value.
type pair struct{ key, first, second uint64 }

// tree fills in the std::map whose header is at an address, balanced, as libstdc++
// has it.
func (m *memory) tree(header uint64, pairs ...pair) {
	slices.SortFunc(pairs, func(a, b pair) int { return int(int64(a.key - b.key)) })
	if len(pairs) == 0 {
		m.put(header+8, 0, header, header, 0)
		return
	}
	var nodes []uint64
	var build func(parent uint64, pairs []pair) uint64
	build = func(parent uint64, pairs []pair) uint64 {
		if len(pairs) == 0 {
			return 0
		}
		middle, node := len(pairs)/2, m.room(nodeWords*8)
		left := build(node, pairs[:middle])
		nodes = append(nodes, node)
		right := build(node, pairs[middle+1:])
		p := pairs[middle]
		m.put(node+8, parent, left, right, p.key, p.first, p.second)
		return node
	}
	root := build(header, pairs)
	m.put(header+8, root, nodes[0], nodes[len(nodes)-1], uint64(len(nodes)))
}

// A fields says where a version of V8 keeps the fields.
type fields struct {
	regions, owned, wire     uint64 // in the global state, and in a NativeModule
	size, index, flags, kind int    // in a WasmCode
}

// Two arrangements, like those of V8 9.4 and of 14.6.
var arrangements = []fields{
	{regions: 0x28, owned: 0x138, wire: 0x60, size: 0x2c, index: 0x30, flags: 0x70, kind: 3},
	{regions: 0x50, owned: 0x1a8, wire: 0x90, size: 0x18, index: 0x48, flags: 0x5c, kind: 2},
}

const (
	codeStart = 0x400000 // of the code space
	tables    = 2        // jump tables
	tableSize = 0x40     // of each of them
	codeSize  = 0x20     // of each function
	functions = 40
	fresh     = 7 // functions that are not in the map yet
)

// start returns the address of a function's code.
func start(index int) uint64 { return codeStart + 2*tableSize + uint64(index)*codeSize }

// program makes a process with one module and returns its reader. Functions with
// an even number were compiled by Liftoff.
func program(f fields, wire []byte) (m *memory, r *Reader, module uint64) {
	m = &memory{}
	pointer, state := m.room(8), m.room(maxState)
	module = m.room(maxOwned)
	m.put(pointer, state)
	m.tree(state+f.regions, pair{codeStart, codeStart + 0x10000, module})
	tableKind := byte(kindJumpTable)
	code := func(at uint64, size, index int, flags byte) pair {
		c := m.room(wasmBytes)
		m.put(c, module, at)
		m.put32(c+uint64(f.size), size)
		m.put32(c+uint64(f.index), index)
		m.bytes[c+uint64(f.flags)-base] = flags
		return pair{at, c, 0}
	}
	all := []pair{code(codeStart, tableSize, noFunction, tableKind), code(codeStart+tableSize, tableSize, noFunction, tableKind)}
	for i := range functions {
		all = append(all, code(start(i), codeSize, i, byte(1+i%2)<<f.kind))
	}
	owned := len(all) - fresh
	m.tree(module+f.owned, all[:owned]...)
	vector := m.room(fresh * 8)
	for i, p := range all[owned:] {
		m.put(vector+uint64(8*i), p.first)
	}
	m.put(module+f.owned+treeBytes, vector, vector+fresh*8, vector+fresh*8)
	if wire != nil {
		data, holder := m.room(len(wire)), m.room(16)
		copy(m.bytes[data-base:], wire)
		m.put(holder, data, uint64(len(wire)))
		m.put(module+f.wire, holder)
	}
	b := &v8.Binary{WasmState: pointer - 0x1000}
	b.Layout.WasmKindBits = uint8(f.kind)
	return m, NewReader(m, b, 0x1000), module
}

const wasmBytes = codeBytes + 16

// leb encodes a number.
func leb(n int) []byte {
	var b []byte
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

func section(id byte, content ...[]byte) []byte {
	all := slices.Concat(content...)
	return slices.Concat([]byte{id}, leb(len(all)), all)
}

// named is a module with names of some functions, after other sections.
func named(names map[int]string) []byte {
	entries := leb(len(names))
	for i := range functions {
		if name, ok := names[i]; ok {
			entries = slices.Concat(entries, leb(i), leb(len(name)), []byte(name))
		}
	}
	return slices.Concat(magic, section(1, make([]byte, 300)), section(customSection, []byte("\x05other"), make([]byte, 40)),
		section(customSection, []byte("\x04name"), section(0, []byte("\x03mod")), section(functionNames, entries)))
}

// eachArrangement runs test with a program in each arrangement of V8's fields.
func eachArrangement(t *testing.T, wire []byte, test func(t *testing.T, m *memory, r *Reader, module uint64)) {
	for i, f := range arrangements {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			m, r, module := program(f, wire)
			test(t, m, r, module)
		})
	}
}

func TestFunctionIsFoundByEachOfItsInstructions(t *testing.T) {
	names := map[int]string{0: "zero", 5: "five", 39: "last"}
	eachArrangement(t, named(names), func(t *testing.T, _ *memory, r *Reader, module uint64) {
		for i := range functions {
			want := Code{Module: module, Start: start(i), End: start(i) + codeSize, Index: i, Tier: symbolize.Liftoff}
			if i%2 == 1 {
				want.Tier = symbolize.Turbofan
			}
			wantName := fmt.Sprintf("wasm-function[%d]", i)
			if name, ok := names[i]; ok {
				wantName = name
			}
			for pc := want.Start; pc < want.End; pc++ {
				if got, name, err := r.Lookup(pc); got != want || name != wantName || err != nil {
					t.Fatalf("code at %#x = %+v, %q, %v, want %+v, %q", pc, got, name, err, want, wantName)
				}
			}
		}
	})
}

func TestCodeOfNoFunctionIsNamed(t *testing.T) {
	eachArrangement(t, nil, func(t *testing.T, _ *memory, r *Reader, _ uint64) {
		for _, pc := range []uint64{codeStart, codeStart + tableSize, codeStart + 2*tableSize - 1} {
			if got, name, err := r.Lookup(pc); got.Index >= 0 || got.Tier != symbolize.NoTier || name != stub || err != nil {
				t.Errorf("jump table at %#x = %+v, %q, %v", pc, got, name, err)
			}
		}
		for _, pc := range []uint64{0, codeStart - 1, start(functions), codeStart + 0x10000, 1<<64 - 1} {
			if got, _, err := r.Lookup(pc); !errors.Is(err, ErrNoCode) {
				t.Errorf("code at %#x = %+v, %v, want %v", pc, got, err, ErrNoCode)
			}
		}
	})
}

func TestBinaryMayNotSayWhereTheCodeIs(t *testing.T) {
	if r := NewReader(&memory{}, &v8.Binary{}, 0); r != nil {
		t.Errorf("reader = %v, want nil", r)
	}
	m := &memory{}
	pointer := m.room(8)
	r := NewReader(m, &v8.Binary{WasmState: pointer}, 0)
	if _, _, err := r.Lookup(codeStart); !errors.Is(err, ErrNoCode) {
		t.Errorf("before V8 starts: error = %v, want %v", err, ErrNoCode)
	}
	m.put(pointer, m.room(maxState)) // no module is loaded
	if _, _, err := r.Lookup(codeStart); !errors.Is(err, ErrNoCode) {
		t.Errorf("without a module: error = %v, want %v", err, ErrNoCode)
	}
}

// TestEndedProcessIsAnsweredFor looks functions up after the memory is gone.
func TestEndedProcessIsAnsweredFor(t *testing.T) {
	eachArrangement(t, nil, func(t *testing.T, m *memory, r *Reader, _ uint64) {
		want, wantName, err := r.Lookup(start(3))
		if err != nil {
			t.Fatal(err)
		}
		m.bytes = nil
		if got, name, err := r.Lookup(start(3) + 1); got != want || name != wantName || err != nil {
			t.Errorf("function looked up before = %+v, %q, %v, want %+v, %q", got, name, err, want, wantName)
		}
		if _, _, err := r.Lookup(start(4)); !errors.Is(err, errGone) {
			t.Errorf("another function: error = %v, want %v", err, errGone)
		}
	})
}

// TestFreedCodeIsForgotten unloads the module: what was found there is not found
// again, although it is cached.
func TestFreedCodeIsForgotten(t *testing.T) {
	f := arrangements[0]
	m, r, _ := program(f, nil)
	if _, _, err := r.Lookup(start(3)); err != nil {
		t.Fatal(err)
	}
	state, err := v8.ReadWord(m, r.pointer)
	if err != nil {
		t.Fatal(err)
	}
	m.tree(state + f.regions)
	if got, _, err := r.Lookup(start(3)); !errors.Is(err, ErrNoCode) {
		t.Errorf("code of a module that is gone = %+v, %v, want %v", got, err, ErrNoCode)
	}
}

func TestOverlappingCodeReplacesWhatWasKnown(t *testing.T) {
	code := func(start, end uint64) namedCode { return namedCode{Code: Code{Start: start, End: end}} }
	r := &Reader{}
	for _, c := range []namedCode{code(10, 20), code(30, 40), code(20, 30), code(50, 60), code(15, 35)} {
		r.remember(c)
	}
	for pc, want := range map[uint64]uint64{9: 0, 10: 0, 15: 15, 34: 15, 35: 0, 39: 0, 50: 50, 59: 50, 60: 0} {
		if got, ok := r.recall(pc); got.Start != want || ok != (want != 0) {
			t.Errorf("code at %d begins at %d, %t, want %d", pc, got.Start, ok, want)
		}
	}
	for i := range uint64(maxKnownCode + 10) {
		r.remember(code(100*i, 100*i+50))
		if len(r.known) > maxKnownCode {
			t.Fatalf("%d pieces of code are cached, more than %d", len(r.known), maxKnownCode)
		}
	}
}

// TestNamesThatCannotBeAreNumbers damages a module's names: functions have their
// numbers then, and those before the damage keep their names.
func TestNamesThatCannotBeAreNumbers(t *testing.T) {
	whole := named(map[int]string{1: "one", 2: "two"})
	section := slices.Index(whole, 'n') - 1 // of the word "name"
	long := strings.Repeat("é", maxName)
	for name, tt := range map[string]struct {
		wire []byte
		want string // of function 1
	}{
		"whole":            {whole, "one"},
		"no module":        {[]byte("\x7fELF\x02\x01\x01\x00 and so on"), "wasm-function[1]"},
		"no names":         {named(nil), "wasm-function[1]"},
		"cut in a name":    {whole[:len(whole)-8], "wasm-function[1]"},
		"cut in a section": {whole[:section-1], "wasm-function[1]"},
		"not UTF-8":        {named(map[int]string{1: "\xff\xfe"}), "wasm-function[1]"},
		"long":             {named(map[int]string{1: long}), long[:maxName] + "…"},
		"cut in a letter":  {named(map[int]string{1: "a" + long}), ("a" + long)[:maxName-1] + "…"},
		"endless number":   {slices.Concat(magic, []byte{1}, slices.Repeat([]byte{0xff}, 20)), "wasm-function[1]"},
		"endless section":  {slices.Concat(magic, []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f}), "wasm-function[1]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, r, _ := program(arrangements[0], tt.wire)
			if _, got, err := r.Lookup(start(1)); got != tt.want || err != nil {
				t.Errorf("name = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}

func TestFirstOfTwoNamesWins(t *testing.T) {
	entries := lebReader{slices.Concat(leb(3), leb(4), []byte("\x01b"), leb(2), []byte("\x01a"), leb(4), []byte("\x01c"))}
	names := entries.nameMap(100)
	if len(names) != 2 || names[0].index != 2 || names[1].index != 4 {
		t.Fatalf("names = %+v, want those of the functions 2 and 4", names)
	}
	if names[1].at != 100-9 {
		t.Errorf("name of function 4 is at %d, want the first of its two, at %d", names[1].at, 100-9)
	}
}

// TestReplacedModuleHasItsOwnNames puts another module's bytes where the first's
// were.
func TestReplacedModuleHasItsOwnNames(t *testing.T) {
	for index, want := range map[int]string{1: "wasm-function[1]", 2: "ONE", 3: "six"} {
		m, r, _ := program(arrangements[1], named(map[int]string{1: "one", 2: "two"}))
		if _, name, _ := r.Lookup(start(1)); name != "one" {
			t.Fatalf("name = %q, want one", name)
		}
		other := named(map[int]string{2: "ONE", 3: "six"}) // as long, but of other functions
		at := slices.Index(m.bytes, magic[3])
		for at > 0 && !strings.HasPrefix(string(m.bytes[at-3:]), string(magic)) {
			at += 1 + slices.Index(m.bytes[at+1:], magic[3])
		}
		copy(m.bytes[at-3:], other)
		if _, name, err := r.Lookup(start(index)); name != want || err != nil {
			t.Errorf("name of function %d = %q, %v, want %q", index, name, err, want)
		}
	}
}

// TestTreeInACircleEnds makes nodes of the maps their own children.
func TestTreeInACircleEnds(t *testing.T) {
	m := &memory{}
	header, node := m.room(treeBytes), m.room(nodeWords*8)
	m.put(header+8, node, node, node, 1)
	m.put(node+8, header, node, node, 5)
	for _, key := range []uint64{4, 5, 6} {
		if _, err := floor(m, header, key); !errors.Is(err, errShape) {
			t.Errorf("floor of %d: error = %v, want %v", key, err, errShape)
		}
	}
	n, err := readNode(m, node)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := successor(m, node, n); !errors.Is(err, errShape) {
		t.Errorf("successor: error = %v, want %v", err, errShape)
	}
}

// TestTreeIsSearchedLikeASlice compares floor and successor with a sorted slice.
func TestTreeIsSearchedLikeASlice(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for size := range 40 {
		m := &memory{}
		header := m.room(treeBytes)
		var pairs []pair
		for range size {
			pairs = append(pairs, pair{key: uint64(random.IntN(1000) + 1)})
		}
		slices.SortFunc(pairs, func(a, b pair) int { return int(int64(a.key - b.key)) })
		pairs = slices.CompactFunc(pairs, func(a, b pair) bool { return a.key == b.key })
		m.tree(header, pairs...)
		for key := range uint64(1002) {
			want := uint64(0)
			for _, p := range pairs {
				if p.key <= key {
					want = p.key
				}
			}
			if got, err := floor(m, header, key); got.key != want || err != nil {
				t.Fatalf("floor of %d in %v = %d, %v, want %d", key, pairs, got.key, err, want)
			}
		}
		var keys []uint64
		words := make([]uint64, treeBytes/8)
		if err := v8.ReadWords(m, header, words); err != nil {
			t.Fatal(err)
		}
		at, ok := isTree(m, words, header)
		if ok != (len(pairs) > 0) || isEmptyTree(words, header) == ok {
			t.Fatalf("tree of %d is a tree: %t, an empty one: %t", len(pairs), ok, isEmptyTree(words, header))
		}
		for ok && at != 0 {
			n, err := readNode(m, at)
			if err != nil {
				t.Fatal(err)
			}
			keys = append(keys, n.key)
			if at, err = successor(m, at, n); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.EqualFunc(keys, pairs, func(k uint64, p pair) bool { return k == p.key }) {
			t.Fatalf("keys in order = %v, want %v", keys, pairs)
		}
	}
}

// FuzzDamagedModule looks code up in memory of which random words are wrong.
func FuzzDamagedModule(f *testing.F) {
	for seed := range uint64(200) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 0))
		m, r, _ := program(arrangements[random.IntN(len(arrangements))], named(map[int]string{1: "one", 30: "thirty"}))
		for range 1 + random.IntN(20) {
			word := []uint64{
				random.Uint64(), 1<<64 - 1, 0, base + uint64(random.IntN(len(m.bytes)))&^7, uint64(random.Uint32()) << 32,
			}[random.IntN(5)]
			m.put(base+uint64(random.IntN(len(m.bytes)/8))*8, word)
		}
		began := time.Now()
		for i := range functions {
			code, name, err := r.Lookup(start(i))
			if err == nil && (code.Start > start(i) || code.End <= start(i)) {
				t.Errorf("code at %#x = %+v, which does not hold it", start(i), code)
			}
			if len(name) > maxName+len("…") {
				t.Errorf("name has %d bytes", len(name))
			}
		}
		if took := time.Since(began); took > 20*time.Second || m.reads > 1<<20 {
			t.Errorf("lookups took %v and %d reads", took, m.reads)
		}
	})
}
