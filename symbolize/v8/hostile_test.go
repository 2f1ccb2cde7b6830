package v8_test

import (
	"encoding/binary"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
)

// A captured memory holds what was read from a process, and can be damaged.
type captured struct {
	live  v8.Memory         // source of bytes not captured yet; nil: no longer available
	bytes map[uint64][]byte // by page address
	reads []uint64          // addresses that were read
}

// Offsets in bytes.
const (
	pageSize        = 4096
	arrayLength     = 8
	arrayFirst      = 16
	contextPrevious = 1 // slot
	descriptorSize  = 3 * wordSize
)

var errNotCaptured = errors.New("not captured")

func (c *captured) ReadAt(p []byte, addr uint64) (int, error) {
	for n := 0; n < len(p); {
		at := addr + uint64(n)
		page, err := c.page(at &^ (pageSize - 1))
		if err != nil {
			return n, err
		}
		n += copy(p[n:], page[at%pageSize:])
	}
	if c.live != nil {
		c.reads = append(c.reads, addr+uint64(len(p))/2)
	}
	return len(p), nil
}

func (c *captured) page(address uint64) ([]byte, error) {
	if page, ok := c.bytes[address]; ok {
		return page, nil
	}
	if c.live == nil {
		return nil, errNotCaptured
	}
	page := make([]byte, pageSize)
	if _, err := c.live.ReadAt(page, address); err != nil {
		return nil, err
	}
	c.bytes[address] = page
	return page, nil
}

// put writes a word and returns a function that restores the old one.
func (c *captured) put(address, word uint64) (undo func()) {
	page, at := c.bytes[address&^(pageSize-1)], address%pageSize
	old := binary.LittleEndian.Uint64(page[at:])
	binary.LittleEndian.PutUint64(page[at:], word)
	return func() { binary.LittleEndian.PutUint64(page[at:], old) }
}

// capture captures all memory needed to read the values of values.js.
func capture(t *testing.T) (c *captured, b *v8.Binary, held map[string]v8.Value) {
	t.Helper()
	path := nodetest.Node(t, "24.21.0")
	h, held, _ := values(t, path)
	b = v8.InspectFile(t, path)
	c = &captured{live: h, bytes: map[uint64][]byte{}}
	fresh, err := v8.NewHeap(c, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range held {
		readAll(fresh, v)
	}
	c.live = nil
	return c, b, held
}

// readAll reads v as everything it could be.
func readAll(h *v8.Heap, v v8.Value) {
	h.Number(v)
	h.Oddball(v)
	h.Text(v, v8.MaxMessage)
	o, err := h.Object(v)
	if err != nil {
		return
	}
	h.Class(o)
	h.Properties(o)
	h.Elements(o, func(v8.Element) bool { return true })
	h.Entries(o, func(v8.Entry) bool { return true })
	h.BigInt(o)
	h.Symbol(o)
	h.Date(o)
	h.RegExp(o)
	h.Wrapped(o)
	h.Target(o)
	h.Proxy(o)
	h.Bound(o)
	h.Callable(o)
	h.SourceText(o, v8.MaxMessage)
	h.Closure(o)
	readGenerator(h, o)
	h.Buffer(o)
	h.View(o)
	h.Exports(o)
	value.ReadError(h, o)
	if p, err := h.Promise(o); err == nil {
		for _, r := range p.Reactions {
			if g, err := h.Object(r.Generator); err == nil {
				readGenerator(h, g)
			}
		}
	}
}

// readGenerator reads a generator with its position.
func readGenerator(h *v8.Heap, o v8.Object) {
	if g, err := h.Generator(o); err == nil {
		code.Suspended(h, g)
	}
}

// limit bounds the time for reading a few hundred damaged values. Counts bound
// the work, but a busy machine takes its time over it.
const limit = 20 * time.Second

func FuzzDamagedHeapIsReadWithinBounds(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(seed)
	}
	var c *captured
	var b *v8.Binary
	var held map[string]v8.Value
	f.Fuzz(func(t *testing.T, seed uint64) {
		if c == nil {
			c, b, held = capture(t)
		}
		defer c.damage(seed)()
		h, err := v8.NewHeap(c, b)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for _, name := range slices.Sorted(maps.Keys(held)) {
			readAll(h, held[name])
		}
		if took := time.Since(began); took > limit {
			t.Errorf("reading took %v, want less than %v", took, limit)
		}
	})
}

// damage changes random words that were read and returns a function that restores
// them.
func (c *captured) damage(seed uint64) (undo func()) {
	random := rand.New(rand.NewPCG(seed, 0))
	var undos []func()
	for range 30 {
		at := c.reads[random.IntN(len(c.reads))]
		word := random.Uint64()
		switch random.IntN(4) {
		case 0:
			word = uint64(random.Uint32()) << 32 // a small integer
		case 1:
			word = c.reads[random.IntN(len(c.reads))] | tag
		case 2:
			word = 1<<64 - 1
		}
		undos = append(undos, c.put(at&^(wordSize-1), word))
	}
	return func() {
		for _, f := range slices.Backward(undos) {
			f()
		}
	}
}

// fieldAt returns the address of a field of a value.
func fieldAt(t *testing.T, h *v8.Heap, v v8.Value, class, field string) uint64 {
	t.Helper()
	offset, ok := h.Offset(class, field)
	if !ok {
		t.Fatalf("no %s.%s", class, field)
	}
	return v.Address() + uint64(offset)
}

// field returns the content of a field of a value.
func field(t *testing.T, h *v8.Heap, v v8.Value, class, name string) v8.Value {
	t.Helper()
	word, err := h.Word(fieldAt(t, h, v, class, name))
	if err != nil {
		t.Fatal(err)
	}
	return v8.Value(word)
}

func TestWhatIsNoValueOfItsKindIsRefused(t *testing.T) {
	c, b, held := capture(t)
	h, err := v8.NewHeap(c, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("lies", func(t *testing.T) { refusesLies(t, c, h, held) })
	t.Run("others", func(t *testing.T) { refusesOthers(t, h, held["key"]) })
}

// refusesLies changes one word in each of several values.
func refusesLies(t *testing.T, c *captured, h *v8.Heap, held map[string]v8.Value) {
	huge := uint64(1<<30) << 32
	reaction := field(t, h, held["awaited"], "JSPromise", "reactions_or_result")
	table := field(t, h, held["map"], "JSMap", "table")
	context := field(t, h, held["closure"], "JSFunction", "context")
	args := field(t, h, held["bound"], "JSBoundFunction", "bound_arguments")
	for name, tt := range map[string]struct {
		at, word uint64
		read     func(o v8.Object) error
		value    string
		want     string
	}{
		"reactions in a circle": {
			fieldAt(t, h, reaction, "PromiseReaction", "next"), uint64(reaction),
			func(o v8.Object) error { _, err := h.Promise(o); return err }, "awaited", "circle",
		},
		"entries without end": {
			table.Address() + arrayFirst, huge,
			func(o v8.Object) error { return h.Entries(o, func(v8.Entry) bool { return true }) }, "map", "entries in",
		},
		"fewer than no entries": {
			table.Address() + arrayFirst, 1<<64 - 1<<32,
			func(o v8.Object) error { return h.Entries(o, func(v8.Entry) bool { return true }) }, "map", "entries in",
		},
		"digits without end": {
			fieldAt(t, h, held["bigint7"], "BigInt", "bitfield"), 1<<31 - 2,
			func(o v8.Object) error { _, err := h.BigInt(o); return err }, "bigint7", "digits of 64 bits",
		},
		"arguments without end": {
			args.Address() + arrayLength, huge,
			func(o v8.Object) error { _, err := h.Bound(o); return err }, "bound", "a FixedArray of",
		},
		"a scope in itself": {
			context.Address() + arrayFirst + contextPrevious*wordSize, uint64(context),
			func(o v8.Object) error { _, err := h.Closure(o); return err }, "closure", "more than",
		},
		"a buffer larger than memory": {
			fieldAt(t, h, held["buffer"], "JSArrayBuffer", "byte_length"), 1 << 60,
			func(o v8.Object) error { _, err := h.Buffer(o); return err }, "buffer", "bytes of",
		},
		"an invalid state": {
			fieldAt(t, h, held["awaited"], "JSPromise", "flags"), 3 << 32,
			func(o v8.Object) error { _, err := h.Promise(o); return err }, "awaited", "flags",
		},
	} {
		o, err := h.Object(held[tt.value])
		if err != nil {
			t.Fatal(err)
		}
		undo := c.put(tt.at, tt.word)
		if err := tt.read(o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error = %v, want one with %q", name, err, tt.want)
		}
		undo()
	}
}

// refusesOthers reads a plain object as types that it does not have.
func refusesOthers(t *testing.T, h *v8.Heap, plain v8.Value) {
	o, err := h.Object(plain)
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"Entries":   func() error { return h.Entries(o, nil) },
		"Promise":   func() error { _, err := h.Promise(o); return err },
		"Proxy":     func() error { _, err := h.Proxy(o); return err },
		"Bound":     func() error { _, err := h.Bound(o); return err },
		"BigInt":    func() error { _, err := h.BigInt(o); return err },
		"Symbol":    func() error { _, err := h.Symbol(o); return err },
		"Date":      func() error { _, err := h.Date(o); return err },
		"RegExp":    func() error { _, err := h.RegExp(o); return err },
		"Wrapped":   func() error { _, err := h.Wrapped(o); return err },
		"Target":    func() error { _, err := h.Target(o); return err },
		"Buffer":    func() error { _, err := h.Buffer(o); return err },
		"View":      func() error { _, err := h.View(o); return err },
		"Generator": func() error { _, err := h.Generator(o); return err },
		"Exports":   func() error { _, err := h.Exports(o); return err },
		"Closure":   func() error { _, err := h.Closure(o); return err },
		"Callable":  func() error { _, err := h.Callable(o); return err },
	} {
		if err := read(); err == nil {
			t.Errorf("%s of a plain object has no error, want one", name)
		}
	}
	e, err := value.ReadError(h, o)
	if err != nil || e.Stack != "" || e.HasCause {
		t.Errorf("Error of a plain object = %+v, %v, want no stack and no cause", e, err)
	}
}

// TestDamagedDescriptorsAreReadOnce damages a map's description of its second
// property: the first must still be there, however often the properties are read.
func TestDamagedDescriptorsAreReadOnce(t *testing.T) {
	c, b, held := capture(t)
	h, err := v8.NewHeap(c, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		o, err := h.Object(held[name])
		if err != nil || !h.IsReceiver(o) || o.Map.Dictionary || o.Map.Own < 2 {
			continue
		}
		array, err := h.Object(o.Map.Descriptors)
		if err != nil {
			t.Fatal(err)
		}
		undo := c.put(array.Address+uint64(h.Binary().Layout.DescriptorsHeader)+descriptorSize+wordSize, uint64(array.Ref()))
		defer undo()
		for range 3 {
			properties, err := h.Properties(o)
			if err == nil || len(properties) != 1 {
				t.Errorf("properties of %s = %d, %v, want one and an error", name, len(properties), err)
			}
		}
		return
	}
	t.Error("no object with two properties")
}

// An ending memory ends at an address within a read.
type ending struct {
	v8.Memory
	end uint64
}

func (m ending) ReadAt(p []byte, address uint64) (int, error) {
	if address >= m.end || address+uint64(len(p)) <= m.end {
		return m.Memory.ReadAt(p, address)
	}
	n, err := m.Memory.ReadAt(p[:m.end-address], address)
	return n, errors.Join(err, errNotCaptured)
}

// TestLastMapOfAPageIsRead reads maps at the very end of memory.
func TestLastMapOfAPageIsRead(t *testing.T) {
	c, b, held := capture(t)
	h, err := v8.NewHeap(c, b)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range held {
		o, err := h.Object(v)
		if err != nil {
			continue // a small integer
		}
		self, err := h.Object(v8.Ref(o.Map.Address))
		if err != nil {
			t.Fatal(err)
		}
		last, err := v8.NewHeap(ending{c, o.Map.Address + uint64(self.Map.Size)}, b)
		if err != nil {
			t.Fatal(err)
		}
		if m, err := last.MapAt(o.Map.Address); err != nil || m.Kind != o.Map.Kind || m.Constructor != o.Map.Constructor {
			t.Errorf("map of %s = %+v, %v, want %+v", name, m, err, o.Map)
		}
	}
}
