package code

import (
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

func inspect(t testing.TB, path string) *v8.Binary {
	t.Helper()
	b, err := v8.Inspect(nodetest.OpenELF(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func heapAt(t testing.TB, mem v8.Memory, b *v8.Binary) *v8.Heap {
	t.Helper()
	h, err := v8.NewHeap(mem, b)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// functionAt reads the JSFunction at an address, tagged or not.
func functionAt(h *v8.Heap, addr uint64) (v8.Function, error) {
	o, err := h.Object(v8.Ref(addr))
	if err != nil {
		return v8.Function{}, err
	}
	return h.Function(o)
}

// An image is made-up memory with the objects of a real V8.
type image struct {
	*v8.Binary
	layout  codeLayout
	bytes   []byte
	types   map[string]uint16 // instance types by kind
	maps    map[string]uint64 // maps made so far, by kind
	entries uint64            // of dispatch entries, if it is the process's
}

const (
	imageBase = 0x100000
	imageSize = 1 << 16
	mapSize   = 80
)

func newImage(of *image) *image {
	m := &image{Binary: of.Binary, layout: of.layout, bytes: make([]byte, 0, imageSize), types: map[string]uint16{}, maps: map[string]uint64{}}
	for _, typ := range m.InstanceTypes() {
		if m.types[typ.Class] == 0 {
			m.types[typ.Class] = typ.Number
		}
	}
	m.maps["Map"] = m.room(mapSize)
	m.describe("Map")
	return m
}

func (m *image) ReadAt(p []byte, addr uint64) (int, error) {
	if addr < imageBase || addr-imageBase >= uint64(len(m.bytes)) {
		return 0, errors.New("not mapped")
	}
	if n := copy(p, m.bytes[addr-imageBase:]); n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

// room returns the address of size bytes that nothing else uses.
func (m *image) room(size int) uint64 {
	at := imageBase + uint64(len(m.bytes))
	m.bytes = append(m.bytes, make([]byte, (size+15)&^15)...)
	return at
}

func (m *image) put(addr uint64, words ...uint64) {
	for i, w := range words {
		binary.LittleEndian.PutUint64(m.bytes[addr-imageBase+uint64(8*i):], w)
	}
}

func (m *image) put32(addr uint64, n uint32) {
	binary.LittleEndian.PutUint32(m.bytes[addr-imageBase:], n)
}

// describe fills in the map of a kind.
func (m *image) describe(kind string) {
	m.put(m.maps[kind], m.maps["Map"]|tag)
	binary.LittleEndian.PutUint16(m.bytes[m.maps[kind]-imageBase+uint64(m.Layout.MapInstanceType):], m.types[kind])
}

// object makes an object of a kind, with its words after the map, and returns its
// address.
func (m *image) object(kind string, size int, words ...uint64) uint64 {
	if m.maps[kind] == 0 {
		m.maps[kind] = m.room(mapSize)
		m.describe(kind)
	}
	at := m.room(max(size, 8+8*len(words)))
	m.put(at, m.maps[kind]|tag)
	m.put(at+8, words...)
	return at
}

func small(n int) uint64 { return uint64(n) << 32 }

// array makes a FixedArray and returns a reference to it.
func (m *image) array(words ...uint64) uint64 {
	return m.object("FixedArray", 0, append([]uint64{small(len(words))}, words...)...) | tag
}

// table makes a byte array and returns a reference to it.
func (m *image) table(data []byte) uint64 {
	at := m.object("ByteArray", arrayFirst+len(data), small(len(data)))
	copy(m.bytes[at+arrayFirst-imageBase:], data)
	return at | tag
}

// code makes a Code object with its instructions, and returns the address of the
// object and of the instructions.
func (m *image) code(kind uint8, size int, deopt, positions uint64) (at, start uint64) {
	l, c := &m.Layout, &m.Release.Code
	at = m.object("Code", int(l.CodeStart)+size+64)
	start = at + uint64(l.CodeStart)
	if l.CodeStartPointer != 0 {
		stream := m.object("InstructionStream", 64+size, at|tag) // the Code is its first field
		start = stream + 64
		m.put(at+uint64(l.CodeStart), start)
	}
	m.put32(at+uint64(l.CodeSize), uint32(size))
	m.put32(at+uint64(l.CodeFlags), uint32(kind))
	m.put(at+uint64(c.Deopt), deopt)
	m.put(at+uint64(c.Positions), positions)
	return at, start
}

// function makes a JSFunction that runs a Code, and returns the address of the
// function and of the isolate that it belongs to.
func (m *image) function(code uint64) (fn, isolate uint64) {
	l := &m.Layout
	fn = m.object("JSFunction", 64)
	isolate = m.room(int(l.DispatchTable) + 8)
	if l.DispatchHandle == 0 {
		m.put(fn+uint64(l.FunctionCode), code|tag)
		return fn, isolate
	}
	const entry = 3
	m.put32(fn+uint64(l.FunctionCode), entry<<handleShift)
	entries := m.room((entry + 1) * entrySize)
	m.put(entries+entry*entrySize+8, code<<entryShift)
	if l.DispatchTable == 0 {
		m.entries = entries
	} else {
		m.put(isolate+uint64(l.DispatchTable), entries)
	}
	return fn, isolate
}

// finder returns a Finder of the image as it is now.
func (m *image) finder(t testing.TB) *Finder {
	t.Helper()
	return &Finder{heap: heapAt(t, m, m.Binary), layout: &m.Layout, code: m.layout, dispatch: m.entries}
}

// eachImage runs test with an image of each major version's V8.
func eachImage(t *testing.T, test func(t *testing.T, m *image)) {
	nodetest.EachNode(t, func(t *testing.T, path string) { test(t, imageOf(t, path)) })
}

// inspected caches what is read from files, which takes a second for each.
var inspected = map[string]*image{}

// imageOf returns an image without objects of the V8 in a file.
func imageOf(t testing.TB, path string) *image {
	t.Helper()
	if inspected[path] == nil {
		b := inspect(t, path)
		inspected[path] = &image{Binary: b, layout: codeLayoutOf(b)}
	}
	return newImage(inspected[path])
}

// tiers are the kinds of code of functions.
func (m *image) tiers() map[symbolize.Tier]uint8 {
	l := &m.Layout
	tiers := map[symbolize.Tier]uint8{symbolize.Baseline: l.KindBaseline, symbolize.Turbofan: l.KindTurbofan}
	if l.KindMaglev != 0 {
		tiers[symbolize.Maglev] = l.KindMaglev
	}
	return tiers
}
