package v8

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"ustack/symbolize/v8/release"
)

// A space is memory that starts at fuzzBase; nothing else can be read.
type space []byte

const fuzzBase = 0x10000

func (s space) ReadAt(p []byte, addr uint64) (int, error) {
	if addr < fuzzBase || addr-fuzzBase >= uint64(len(s)) {
		return 0, errors.New("not mapped")
	}
	n := copy(p, s[addr-fuzzBase:])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

// layoutFor returns the layout of a release, with the metadata of V8 14.
func layoutFor(r *release.Release) Layout {
	l := measured(r)
	l.FirstJSFunction, l.LastJSFunction, l.SharedFunctionInfo, l.ScopeInfo, l.Script = 40, 41, 42, 43, 44
	l.FirstNonstring, l.PropertyArray, l.FirstUncompiled, l.LastUncompiled, l.DebugInfo = 32, 45, 46, 47, 48
	l.MapInstanceType, l.MapInstanceSize, l.MapInobject, l.MapBitField3 = 12, 8, 9, 16
	l.MapDescriptors, l.DescriptorsHeader = 40, 24
	l.DictionaryBit, l.DescriptorShift, l.DetailsLocation, l.DetailsIndex = 21, 10, 5, 19
	l.FunctionProperties, l.FunctionShared, l.SharedName, l.SharedScript = 8, 24, 16, 32
	l.UncompiledName, l.UncompiledStart, l.UncompiledEnd = 8, 16, 20
	l.ScriptSource, l.ScriptName, l.ScopeLocals = 8, 16, 2
	if l.ScopeFirst = 3; l.ScopePositions != 0 {
		l.ScopeFirst = 5
	}
	return l
}

// madeUp returns a binary with the layout of a release and made-up metadata.
func madeUp(r *release.Release) *Binary {
	b := &Binary{Release: r, Layout: layoutFor(r), metadata: metadata{
		"class_JSObject__elements__Object": 16, "class_JSReceiver__raw_properties_or_hash__Object": 8,
		"class_Map__prototype__HeapObject": 24, "class_Map__constructor_or_back_pointer__Object": 32,
		"class_Map__bit_field__char": 14, "class_Map__bit_field2__char": 15,
		"class_Oddball__kind__SMI": 40, "class_HeapNumber__value__double": 8,
		"elements_dictionary_elements": 12, "prop_attributes_shift": 3, "prop_representation_shift": 6,
		"type_Map__MAP_TYPE": metaType,
	}}
	b.kinds = map[uint16]string{metaType: "Map"}
	return b
}

// metaType is the instance type of maps in a made-up heap.
const metaType = 200

// seed is a heap with one object of each type that is read; they refer to one
// another.
func seed(l Layout) []byte {
	types := []uint16{40, 42, 43, 44, 45, 46, 48, 8, 1, 3, 5, 10, 26}
	const step = 256
	s := make([]byte, 2*step*(len(types)+1))
	put := func(at int, v uint64) { binary.LittleEndian.PutUint64(s[at:], v) }
	ref := func(i int) uint64 { return fuzzBase + uint64(i*2*step) + heapTag }
	meta := ref(len(types))
	put(len(types)*2*step, meta)
	binary.LittleEndian.PutUint16(s[len(types)*2*step+int(l.MapInstanceType):], metaType)
	for i, typ := range types {
		object, description := i*2*step, i*2*step+step
		put(object, fuzzBase+uint64(description)+heapTag)
		put(description, meta)
		binary.LittleEndian.PutUint16(s[description+int(l.MapInstanceType):], typ)
		binary.LittleEndian.PutUint32(s[description+int(l.MapBitField3):], 2<<l.DescriptorShift)
		put(description+int(l.MapDescriptors), ref((i+1)%len(types)))
		for w := 1; w < step/8; w++ {
			put(object+8*w, ref((i+w)%len(types)))
		}
		if typ < l.FirstNonstring {
			binary.LittleEndian.PutUint32(s[object+stringLength:], 20)
		}
	}
	return s
}

func FuzzHeapIsReadWithinBounds(f *testing.F) {
	all := release.All()
	for i, r := range all {
		s := seed(layoutFor(r))
		for at := uint64(1); at < uint64(len(s)); at += 512 {
			f.Add(s, uint8(i), at)
		}
	}
	f.Fuzz(func(t *testing.T, memory []byte, which uint8, at uint64) {
		h := heapAt(t, space(memory), madeUp(all[int(which)%len(all)]))
		fn, err := functionAt(h, fuzzBase+at)
		if err == nil && len(fn.Name) > 3*maxName {
			t.Errorf("name has %d bytes", len(fn.Name))
		}
		script, err := h.Object(Ref(fuzzBase + at))
		if err != nil {
			return
		}
		source, _ := h.Field(script, int(h.layout.ScriptSource))
		read := 0
		h.Characters(source, func(units []uint16) { read += len(units) })
		if read > maxSource {
			t.Errorf("source has %d characters", read)
		}
	})
}

// stringsHeap returns a heap that knows only strings and maps, a function that
// writes words to s, and the first word of a map: a reference to the meta map,
// which is at the end of s.
func stringsHeap(s space) (h *Heap, put func(at int, words ...uint64), meta uint64) {
	b := &Binary{Layout: Layout{MapInstanceType: 12, FirstNonstring: 128}, kinds: map[uint16]string{metaType: "Map"}}
	h = &Heap{mem: s, binary: b, layout: &b.Layout, kinds: b.kinds, maps: map[uint64]*Map{}}
	put = func(at int, words ...uint64) {
		for i, w := range words {
			binary.LittleEndian.PutUint64(s[at+8*i:], w)
		}
	}
	at := len(s) - 16
	meta = fuzzBase + uint64(at) + heapTag
	put(at, meta, metaType<<32)
	return h, put, meta
}

func TestMovedObjectsAreFollowedOnce(t *testing.T) {
	s := make(space, 1024)
	h, put, meta := stringsHeap(s)
	const typ = (sequential | oneByte) << 32 // in the map's second word
	put(0, meta, typ)
	put(64, fuzzBase+128, 4<<32) // a forwarding address
	copy(s[80:], "name")
	put(128, fuzzBase+heapTag) // the copy has only its map so far
	put(256, fuzzBase+64)      // forwards to an object that is itself forwarded
	if got, _, err := h.Text(Value(fuzzBase+64+heapTag), maxName); got != "name" || err != nil {
		t.Errorf("moved string = %q, %v, want %q", got, err, "name")
	}
	if got, _, err := h.Text(Value(fuzzBase+256+heapTag), maxName); err == nil {
		t.Errorf("string moved twice = %q, want an error", got)
	}
}

func TestStringsMadeOfThemselvesEnd(t *testing.T) {
	const (
		object = fuzzBase + 64 + heapTag
		length = 100 << 32
	)
	for name, tt := range map[string]struct {
		kind  uint64
		words []uint64
		want  string
	}{
		"thin":     {thin, []uint64{fuzzBase + heapTag, length, object, object}, errTooManyParts.Error()},
		"cons":     {cons, []uint64{fuzzBase + heapTag, length, object, object}, errTooManyParts.Error()},
		"sliced":   {sliced, []uint64{fuzzBase + heapTag, length, object, 1 << 32}, "characters 1 to 101 of 100"},
		"negative": {sliced, []uint64{fuzzBase + heapTag, length, object, 1<<64 - 1<<32}, "characters -1 to 99 of 100"},
		"uncached": {external | uncached, []uint64{fuzzBase + heapTag, length, object, 0}, "C++ object alone"},
		"unknown":  {7, []uint64{fuzzBase + heapTag, length, object, 0}, "type 7"},
	} {
		s := make(space, 256)
		h, put, meta := stringsHeap(s)
		put(0, meta, tt.kind<<32)
		put(64, tt.words...)
		if got, _, err := h.Text(Value(object), maxName); !contains(err, tt.want) {
			t.Errorf("%s = %q, %v, want an error with %q", name, got, err, tt.want)
		}
	}
}

func TestThinStringIsReadThroughTheActualOne(t *testing.T) {
	s := make(space, 512)
	h, put, meta := stringsHeap(s)
	put(0, meta, thin<<32)
	put(64, meta, sequential<<32)
	put(128, fuzzBase+heapTag, 2<<32, fuzzBase+192+heapTag)
	put(192, fuzzBase+64+heapTag, 2<<32)
	copy(s[208:], "\x40\x04\x2f\x04")
	if got, _, err := h.Text(Value(fuzzBase+128+heapTag), maxName); got != "рЯ" || err != nil {
		t.Errorf("thin string = %q, %v, want %q", got, err, "рЯ")
	}
}
