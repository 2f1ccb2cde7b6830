package value

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"ustack/symbolize/v8"
)

// specials add to an object's contents what its kind stores outside of properties, by
// V8's class name.
var specials = map[string]func(h *v8.Heap, o v8.Object, c *contents){
	"JSMap":                addEntries,
	"JSSet":                addEntries,
	"JSWeakMap":            addEntries,
	"JSWeakSet":            addEntries,
	"JSDate":               addDate,
	"JSRegExp":             addRegExp,
	"JSPrimitiveWrapper":   addWrapped,
	"JSWeakRef":            addTarget,
	"JSPromise":            addPromise,
	"JSArrayBuffer":        addBuffer,
	"JSTypedArray":         addView,
	"JSDetachedTypedArray": addView,
	"JSDataView":           addView,
	"JSRabGsabDataView":    addView,

	"JSProxy":                addProxy,
	"JSBoundFunction":        addBound,
	"JSModuleNamespace":      addExports,
	"JSGeneratorObject":      addGenerator,
	"JSAsyncFunctionObject":  addGenerator,
	"JSAsyncGeneratorObject": addGenerator,
}

func (c *contents) addSlot(name string, value v8.Value) {
	if value != 0 {
		c.add("slot", name, value)
	}
}

func (c *contents) addNumber(name string, number float64) {
	c.addMember(member{name: name, kind: "slot", slot: Slot{Number: number, IsNumber: true}})
}

func addEntries(h *v8.Heap, o v8.Object, c *contents) {
	c.sized = true
	keyed := o.Map.Kind == "JSMap" || o.Map.Kind == "JSWeakMap"
	err := h.Entries(o, func(e v8.Entry) bool {
		m := member{kind: "entry", slot: Slot{Value: e.Key}}
		if keyed {
			m.slot.Value, m.key = e.Value, &Slot{Value: e.Key}
		}
		c.addMember(m)
		c.length++
		return true
	})
	if err != nil {
		c.fail(err)
	}
}

// addDate formats a Date as its toISOString does.
func addDate(h *v8.Heap, o v8.Object, c *contents) {
	ms, err := h.Date(o)
	switch {
	case err != nil:
		c.fail(err)
	case math.IsNaN(ms):
		c.text = "Invalid Date"
	default:
		c.text = time.UnixMilli(int64(ms)).UTC().Format("2006-01-02T15:04:05.000Z")
	}
}

func addRegExp(h *v8.Heap, o v8.Object, c *contents) {
	r, err := h.RegExp(o)
	if err != nil {
		c.fail(err)
		return
	}
	c.text = "/" + r.Source + "/" + r.Flags
}

func addWrapped(h *v8.Heap, o v8.Object, c *contents) {
	value, err := h.Wrapped(o)
	if err != nil {
		c.fail(err)
	}
	c.addSlot("value", value)
}

func addTarget(h *v8.Heap, o v8.Object, c *contents) {
	target, err := h.Target(o)
	if err != nil {
		c.fail(err)
	}
	c.addSlot("target", target)
}

func addPromise(h *v8.Heap, o v8.Object, c *contents) {
	p, err := h.Promise(o)
	if err != nil {
		c.fail(err)
	}
	c.text = "<" + p.State.String() + ">"
	if p.State == v8.Rejected {
		c.addSlot("reason", p.Value)
	} else {
		c.addSlot("value", p.Value)
	}
	for _, r := range p.Reactions {
		if r.Generator != 0 {
			c.addSlot("awaited by", r.Generator)
			continue
		}
		for _, part := range []struct {
			name  string
			value v8.Value
		}{{"then", r.Fulfill}, {"catch", r.Reject}, {"resolves", r.Promise}} {
			if h.Oddball(part.value) != "undefined" {
				c.addSlot(part.name, part.value)
			}
		}
	}
}

func addProxy(h *v8.Heap, o v8.Object, c *contents) {
	p, err := h.Proxy(o)
	switch {
	case err != nil:
		c.fail(err)
	case p.Revoked:
		c.text = "<revoked>"
	default:
		c.addSlot("target", p.Target)
		c.addSlot("handler", p.Handler)
	}
}

func addBound(h *v8.Heap, o v8.Object, c *contents) {
	b, err := h.Bound(o)
	if err != nil {
		c.fail(err)
		return
	}
	c.addSlot("target", b.Target)
	c.addSlot("this", b.This)
	for i, arg := range b.Args {
		c.addSlot("arg"+strconv.Itoa(i+1), arg)
	}
}

func addExports(h *v8.Heap, o v8.Object, c *contents) {
	exports, err := h.Exports(o)
	if err != nil {
		c.fail(err)
	}
	for _, e := range exports {
		c.add("", e.Name, e.Value)
	}
}

func addGenerator(h *v8.Heap, o v8.Object, c *contents) {
	g, err := h.Generator(o)
	if err != nil {
		c.fail(err)
		return
	}
	c.text = "<" + g.State.String() + ">"
	c.addSlot("function", g.Function)
	c.addSlot("this", g.Receiver)
	c.addSlot("promise", g.Promise)
}

func addBuffer(h *v8.Heap, o v8.Object, c *contents) {
	b, err := h.Buffer(o)
	if err != nil {
		c.fail(err)
		return
	}
	switch {
	case b.Detached:
		c.text = "<detached>"
	case b.Shared:
		c.text = "<shared>"
	}
	c.addNumber("byteLength", float64(b.Length))
	if b.Resizable {
		c.addNumber("maxByteLength", float64(b.Max))
	}
}

// addView shows a typed array's elements as members; a DataView has none.
func addView(h *v8.Heap, o v8.Object, c *contents) {
	v, err := h.View(o)
	if err != nil {
		c.fail(err)
		return
	}
	c.addSlot("buffer", v.Buffer)
	c.addNumber("byteOffset", float64(v.Offset))
	c.addNumber("byteLength", float64(v.Bytes))
	read, ok := elementReaders[v.Type]
	if !ok || v.Size == 0 {
		return
	}
	c.kind, c.length = "array", v.Length
	bytes, err := h.Bytes(v.Address, v.Bytes, maxMembers*v.Size)
	if err != nil {
		c.fail(err)
	}
	for i := 0; (i+1)*v.Size <= len(bytes); i++ {
		m := read(bytes[i*v.Size:])
		m.name, m.kind = strconv.Itoa(i), "element"
		c.addMember(m)
	}
	c.more += v.Length - len(bytes)/v.Size
}

// elementReaders read the first element of a typed array's bytes, by the array's type.
var elementReaders = map[string]func(b []byte) member{
	"Int8":         func(b []byte) member { return numberElement(float64(int8(b[0]))) },
	"Uint8":        func(b []byte) member { return numberElement(float64(b[0])) },
	"Uint8Clamped": func(b []byte) member { return numberElement(float64(b[0])) },
	"Int16":        func(b []byte) member { return numberElement(float64(int16(binary.LittleEndian.Uint16(b)))) },
	"Uint16":       func(b []byte) member { return numberElement(float64(binary.LittleEndian.Uint16(b))) },
	"Int32":        func(b []byte) member { return numberElement(float64(int32(binary.LittleEndian.Uint32(b)))) },
	"Uint32":       func(b []byte) member { return numberElement(float64(binary.LittleEndian.Uint32(b))) },
	"Float16":      func(b []byte) member { return numberElement(half(binary.LittleEndian.Uint16(b))) },
	"Float32": func(b []byte) member {
		return numberElement(float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	},
	"Float64": func(b []byte) member { return numberElement(math.Float64frombits(binary.LittleEndian.Uint64(b))) },
	"BigInt64": func(b []byte) member {
		return bigElement(strconv.FormatInt(int64(binary.LittleEndian.Uint64(b)), 10))
	},
	"BigUint64": func(b []byte) member { return bigElement(strconv.FormatUint(binary.LittleEndian.Uint64(b), 10)) },
}

// half converts an IEEE 754 binary16 number.
func half(bits uint16) float64 {
	const exponentBits, fractionBits, bias = 5, 10, 15
	exponent := int(bits >> fractionBits & (1<<exponentBits - 1))
	fraction := float64(bits&(1<<fractionBits-1)) / (1 << fractionBits)
	f := math.Ldexp(1+fraction, exponent-bias)
	switch {
	case exponent == 0:
		f = math.Ldexp(fraction, 1-bias)
	case exponent == 1<<exponentBits-1 && fraction == 0:
		f = math.Inf(1)
	case exponent == 1<<exponentBits-1:
		return math.NaN()
	}
	if bits>>15 != 0 {
		return -f
	}
	return f
}

func numberElement(f float64) member { return member{slot: Slot{Number: f, IsNumber: true}} }

func bigElement(decimal string) member { return member{slot: Slot{BigInt: decimal}} }

// primitive describes a symbol or a BigInt; nil if o is neither.
func primitive(h *v8.Heap, o v8.Object) *Node {
	switch o.Map.Kind {
	case "Symbol":
		s, err := h.Symbol(o)
		if err != nil {
			return bad(uint64(o.Ref()), err)
		}
		text := "Symbol(" + s.Description + ")"
		if s.WellKnown {
			text = s.Description
		}
		return &Node{Type: "symbol", Text: text}
	case "BigInt", "FreshlyAllocatedBigInt":
		decimal, err := h.BigInt(o)
		if err != nil {
			return bad(uint64(o.Ref()), err)
		}
		return &Node{Type: "bigint", Text: decimal + "n"}
	}
	return nil
}
