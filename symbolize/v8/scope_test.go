package v8

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8/release"
)

// A writer makes objects in memory, with the layout of a release.
type writer struct {
	bytes  space
	heap   *Heap
	maps   map[uint16]uint64 // by instance type
	layout *Layout
}

// Instance types as layoutFor has them.
const (
	typeString    = sequential | oneByte
	typeScopeInfo = 43
	typeScript    = 44
)

func newWriter(t *testing.T, r *release.Release) *writer {
	t.Helper()
	b := madeUp(r)
	b.kinds[typeScopeInfo] = "ScopeInfo"
	w := &writer{maps: map[uint16]uint64{}, layout: &b.Layout}
	w.heap = heapAt(t, w, b)
	w.maps[metaType] = fuzzBase
	w.mapOf(metaType)
	return w
}

func (w *writer) ReadAt(p []byte, addr uint64) (int, error) { return w.bytes.ReadAt(p, addr) }

// room returns the address of size bytes that nothing else uses.
func (w *writer) room(size int) uint64 {
	at := fuzzBase + uint64(len(w.bytes))
	w.bytes = append(w.bytes, make([]byte, (size+15)&^15)...)
	return at
}

func (w *writer) put(at uint64, words ...uint64) {
	for i, word := range words {
		binary.LittleEndian.PutUint64(w.bytes[at-fuzzBase+uint64(8*i):], word)
	}
}

// mapOf makes a map of an instance type.
func (w *writer) mapOf(typ uint16) {
	w.maps[typ] = w.room(mapWords * wordSize)
	w.put(w.maps[typ], w.maps[metaType]|heapTag)
	binary.LittleEndian.PutUint16(w.bytes[w.maps[typ]-fuzzBase+uint64(w.layout.MapInstanceType):], typ)
}

// object makes an object of an instance type and returns a reference to it.
func (w *writer) object(typ uint16, words ...uint64) uint64 {
	if w.maps[typ] == 0 {
		w.mapOf(typ)
	}
	at := w.room(8 + 8*len(words))
	w.put(at, w.maps[typ]|heapTag)
	w.put(at+8, words...)
	return at | heapTag
}

// text makes a string.
func (w *writer) text(s string) uint64 {
	words := make([]uint64, 1+(len(s)+7)/8)
	words[0] = uint64(len(s)) << 32
	ref := w.object(typeString, words...)
	copy(w.bytes[ref-heapTag+stringFirst-fuzzBase:], s)
	return ref
}

func smallInt(n int) uint64 { return uint64(n) << 32 }

// scope makes a ScopeInfo of s, whose type is a number, with other flags too.
func (w *writer) scope(typ uint32, s Scope, flags uint32) uint64 {
	l := w.layout
	flags |= typ
	if s.Function.Name != "" {
		flags |= 1 << 12
	}
	if s.Function.Inferred != "" {
		flags |= scopeInferredName
	}
	words := make([]uint64, l.ScopeFirst)
	words[0] = uint64(flags)
	if l.ScopeFlagsSmi != 0 {
		words[0] <<= 32
	}
	words[l.ScopeLocals] = smallInt(len(s.Locals))
	if l.ScopePositions != 0 {
		words[l.ScopePositions], words[l.ScopePositions+1] = smallInt(s.Function.Start), smallInt(s.Function.End)
	}
	if l.ScopeModule != 0 && typ == uint32(l.ScopeModule)-1 {
		words = append(words, smallInt(0))
	}
	words = append(words, w.names(s.Locals)...)
	words = append(words, make([]uint64, len(s.Locals))...)
	if flags&scopeClassWord != 0 {
		words = append(words, 0)
	}
	if receiver := flags >> scopeReceiver & 3; l.ScopeReceiver != 0 && (receiver == 1 || receiver == 2) {
		words = append(words, 0)
	}
	if s.Function.Name != "" {
		words = append(words, w.text(s.Function.Name), smallInt(2))
	}
	if s.Function.Inferred != "" {
		words = append(words, w.text(s.Function.Inferred))
	}
	if l.ScopePositions == 0 && l.ScopePositionsOf>>typ&1 != 0 {
		words = append(words, smallInt(s.Function.Start), smallInt(s.Function.End))
	}
	ref := w.object(typeScopeInfo, words...)
	w.room(8) // memory does not end there
	return ref
}

// names makes the names of a scope's variables: that many words, or a hash table
// in which the last comes first.
func (w *writer) names(names []string) []uint64 {
	var words []uint64
	for _, name := range names {
		words = append(words, w.text(name))
	}
	if len(names) < int(w.layout.ScopeMaxInlined) {
		return words
	}
	entries := make([]uint64, 1+hashTablePrefix)
	for i, word := range slices.Backward(words) {
		entries = append(entries, word, smallInt(i))
	}
	entries[0] = smallInt(len(entries) - 1)
	entries[1+hashTableCapacity] = smallInt(len(words))
	return []uint64{w.object(60, entries...)}
}

// TestScopesAreReadAsTheyAreWritten writes scopes of each type and of many numbers of
// variables in the layout of each release.
func TestScopesAreReadAsTheyAreWritten(t *testing.T) {
	for _, r := range release.All() {
		w := newWriter(t, r)
		for typ, name := range r.Scopes.Types {
			for _, count := range []int{0, 1, 7, 74, 75, 200} {
				for _, flags := range []uint32{0, scopeClassWord, 1 << scopeReceiver, 3 << scopeReceiver, contextExtended} {
					want := Scope{Type: name, Function: Function{Name: "own", Inferred: "Foo.bar", Start: 10, End: 20}, Own: true, first: contextSlots}
					if flags == contextExtended {
						want.first++
						want.Own = false
						want.Function.Name, want.Function.Inferred = "", ""
					}
					for i := range count {
						want.Locals = append(want.Locals, fmt.Sprintf("variable%d", i))
					}
					ref := w.scope(uint32(typ), want, flags)
					if w.layout.ScopePositions == 0 && w.layout.ScopePositionsOf>>typ&1 == 0 {
						want.Function.Start, want.Function.End = -1, -1
					}
					o, err := w.heap.Object(Value(ref))
					if err != nil {
						t.Fatal(err)
					}
					got, err := w.heap.Scope(o)
					if len(got.Locals) == 0 {
						got.Locals = nil
					}
					if diff := cmp.Diff(want, got, cmp.AllowUnexported(Scope{})); diff != "" || err != nil {
						t.Fatalf("V8 %v, %s with %d variables and flags %#x, %v (-want +got):\n%s", r.Version, name, count, flags, err, diff)
					}
				}
			}
		}
	}
}

func TestScopeWithoutEndIsRefused(t *testing.T) {
	for _, r := range release.All() {
		w := newWriter(t, r)
		for _, count := range []uint64{smallInt(maxLocals + 1), 1<<64 - 1<<32, 5} {
			ref := w.scope(0, Scope{}, 0)
			w.put(ref-heapTag+scopeWords+8*uint64(w.layout.ScopeLocals), count)
			o, err := w.heap.Object(Value(ref))
			if err != nil {
				t.Fatal(err)
			}
			if s, err := w.heap.Scope(o); !contains(err, "variables") || len(s.Locals) > 0 {
				t.Errorf("V8 %v: scope of %#x variables = %+v, %v, want an error", r.Version, count, s, err)
			}
		}
	}
}

// TestContextsTogetherAreBounded has a large Context that encloses itself.
func TestContextsTogetherAreBounded(t *testing.T) {
	const typeContext = 61
	w := newWriter(t, release.All()[0])
	words := make([]uint64, 1+maxContextSlots/4)
	words[0] = smallInt(len(words) - 1)
	words[1+contextScope] = w.scope(0, Scope{Locals: []string{"one", "two"}}, 0)
	context := w.object(typeContext, words...)
	visited := 0
	visit := func(Value) bool {
		visited++
		return true
	}
	if variables, err := w.heap.Enclosing(Value(context), visit); len(variables) != 2 || err != nil {
		t.Errorf("variables = %v, %v, want two", variables, err)
	}
	w.put(context-heapTag+arrayFirst+contextPrevious*wordSize, context)
	visited = 0
	if _, err := w.heap.Enclosing(Value(context), visit); !contains(err, "slots") || visited != 5 {
		t.Errorf("a circle: %d Contexts visited, %v, want 5 and an error", visited, err)
	}
}

// TestOnlyObjectsAreLoaded: what has no valid map is no object.
func TestOnlyObjectsAreLoaded(t *testing.T) {
	w := newWriter(t, release.All()[0])
	whole := w.object(typeScript, 0)
	noMap := w.object(typeScript, 0)
	w.put(noMap-heapTag, whole) // an object that is not a map
	number := w.object(typeScript, 0)
	w.put(number-heapTag, 0x1_0000_0003)
	for name, v := range map[string]uint64{
		"a small integer": smallInt(5), "a collected one": uint64(cleared), "nowhere": fuzzBase/2 | heapTag,
		"without a map": noMap, "with a number for a map": number,
	} {
		if o, err := w.heap.Object(Value(v)); err == nil {
			t.Errorf("object %s = %+v, want an error", name, o)
		}
	}
	for _, v := range []uint64{whole, whole | heapTagMask} { // strong and weak
		if o, err := w.heap.Object(Value(v)); err != nil || o.Ref() != Value(whole) || o.Map.Type != typeScript {
			t.Errorf("object %#x = %+v, %v", v, o, err)
		}
	}
	w.heap.UseMaps(map[uint64]uint64{noMap - heapTag: w.maps[typeScript] | heapTag})
	if o, err := w.heap.Object(Value(noMap)); err != nil || o.Map.Type != typeScript {
		t.Errorf("object whose map is kept elsewhere = %+v, %v", o, err)
	}
}
