// Package value describes JavaScript values as trees: numbers, texts, objects with their
// properties, elements and what their kinds store elsewhere.
package value

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"ustack/symbolize/v8"
)

// Bounds of a description.
const (
	maxText  = 1 << 10 // characters of a string that is a member
	MaxText  = 1 << 20 // of a string that is described itself
	maxNodes = 1 << 20 // of one description
)

// Options say how much of a value to describe.
type Options struct {
	Depth   int // levels of members; 0: none
	Members int // of one object; 0: all
	Text    int // characters of each string; 0: MaxText of the value itself, fewer of members; below 0: all
}

// An Address is a word of the program's memory in readable form, tagged if it is one of
// V8's: hexadecimal without 0x, in JSON too, where a number would be rounded.
type Address uint64

func (a Address) String() string { return strconv.FormatUint(uint64(a), 16) }

// MarshalText returns String's text.
func (a Address) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(a), 16), nil }

// A Node describes a JavaScript value.
type Node struct {
	Address Address  `json:"address,omitempty"` // tagged; 0 for a number that is not an object
	Type    string   `json:"type"`              // "number", "string", "boolean", "undefined", "null", "hole", "symbol", "bigint", "function", "array", "object", "internal" or "bad"
	Class   string   `json:"class,omitempty"`   // of an object: its constructor; of a V8-internal object: its kind
	Text    string   `json:"text,omitempty"`    // of a primitive, a function, and an object that has its own text
	Length  int      `json:"length,omitempty"`  // of a string, an array or a collection
	Members []Member `json:"members,omitempty"`
	More    int      `json:"more,omitempty"` // members, or characters of a string, that are not shown
	Hidden  bool     `json:"deeper,omitempty"`
	Trouble string   `json:"trouble,omitempty"` // what could not be read
	Storage []string `json:"storage,omitempty"` // where V8 keeps an object's properties, in mdb_v8's words; only where it is asked for

	sized  bool // it has a length, even if that is 0
	listed bool // Members are all that was asked for, even if there are none
}

// A Member is a property, an element, an entry or an internal slot of an object.
type Member struct {
	Name  string `json:"name"`
	Kind  string `json:"kind,omitempty"` // "element", "symbol", "private", "entry" or "slot"; empty for a property with a name
	Key   *Node  `json:"key,omitempty"`  // of an entry of a Map
	Value *Node  `json:"value"`
}

// A Slot is a place in an object: a value, or something for which V8 has no object yet,
// such as a number, or a text that it creates when a program reads it.
type Slot struct {
	Value    v8.Value
	Number   float64
	IsNumber bool
	BigInt   string // in decimal; empty if it is not one
	Text     string
	IsText   bool
	Oddball  string // "true", "false" or "undefined"; empty for other values
}

// HasValue reports whether the slot has an object of its own, or a small integer.
func (s Slot) HasValue() bool { return !s.IsNumber && !s.IsText && s.BigInt == "" && s.Oddball == "" }

// Describe describes a value.
func Describe(h *v8.Heap, s Slot, o Options) *Node {
	d := &describer{heap: h, options: o, left: maxNodes}
	if o.Text == 0 {
		d.options.Text = maxText
	}
	if o.Members <= 0 {
		d.options.Members = math.MaxInt
	}
	text := d.options.Text
	if o.Text == 0 {
		text = MaxText
	}
	return d.slot(s, o.Depth, text)
}

type describer struct {
	heap    *v8.Heap
	options Options
	left    int      // nodes
	above   []uint64 // addresses of the objects that are being described
}

func (d *describer) slot(s Slot, depth, text int) *Node {
	d.left--
	switch s.Oddball {
	case "true", "false":
		return &Node{Type: "boolean", Text: s.Oddball}
	case "undefined":
		return &Node{Type: s.Oddball, Text: s.Oddball}
	}
	if s.BigInt != "" {
		return &Node{Type: "bigint", Text: s.BigInt + "n"}
	}
	if s.IsText {
		return &Node{Type: "string", Text: s.Text, Length: len(utf16.Encode([]rune(s.Text)))}
	}
	if s.IsNumber {
		return &Node{Type: "number", Text: FormatNumber(s.Number)}
	}
	if n, ok := s.Value.Smi(); ok {
		return &Node{Type: "number", Text: strconv.Itoa(n)}
	}
	o, err := d.heap.Object(s.Value.Strong())
	if err != nil {
		return bad(uint64(s.Value), err)
	}
	n := d.object(o, depth, text)
	n.Address = Address(s.Value.Strong())
	return n
}

// bad describes a value that cannot be read.
func bad(word uint64, err error) *Node {
	return &Node{Address: Address(word), Type: "bad", Text: fmt.Sprintf("<bad %x>", word), Trouble: err.Error()}
}

func (d *describer) object(o v8.Object, depth, text int) *Node {
	h := d.heap
	switch {
	case h.IsString(o):
		return d.text(o, text)
	case h.IsFunction(o):
		return d.function(o, depth)
	case h.IsReceiver(o):
		return d.receiver(o, depth)
	}
	if number, ok := h.Number(o.Ref()); ok {
		return &Node{Type: "number", Text: FormatNumber(number)}
	}
	switch word := h.Oddball(o.Ref()); word {
	case "":
	case "true", "false":
		return &Node{Type: "boolean", Text: word}
	default:
		return &Node{Type: word, Text: word}
	}
	if n := primitive(h, o); n != nil {
		return n
	}
	kind := cmp.Or(o.Map.Kind, fmt.Sprintf("type %d", o.Map.Type))
	return &Node{Type: "internal", Class: kind, Text: "<" + kind + ">"}
}

func (d *describer) text(o v8.Object, limit int) *Node {
	text, length, err := d.heap.Exact(o.Ref(), limit)
	if err != nil {
		return bad(uint64(o.Ref()), err)
	}
	n := &Node{Type: "string", Text: text, Length: length, sized: true}
	if limit >= 0 && length > limit {
		n.More = length - v8.ExactUnits(text)
	}
	return n
}

func (d *describer) function(o v8.Object, depth int) *Node {
	f, err := d.heap.Function(o)
	if err != nil {
		return bad(uint64(o.Ref()), err)
	}
	n := &Node{Type: "function", Text: functionText(f)}
	if len(d.above) == 0 { // the value that Describe was called for
		d.addMembers(n, o, depth)
	}
	return n
}

// functionText shows a function as mdb_v8 does.
func functionText(f v8.Function) string {
	switch {
	case f.Name != "":
		return "function " + f.Name
	case f.Inferred != "":
		return "function <anonymous> (as " + f.Inferred + ")"
	}
	return "function <anonymous>"
}

func (d *describer) receiver(o v8.Object, depth int) *Node {
	class, err := d.heap.Class(o)
	n := &Node{Type: "object", Class: class}
	if err != nil {
		n.Trouble = err.Error()
	}
	if length, ok := d.heap.Length(o); ok {
		n.Type, n.Length, n.sized = "array", length, true
	}
	d.addMembers(n, o, depth)
	return n
}

// addMembers describes o's members, as far as depth and bounds allow.
func (d *describer) addMembers(n *Node, o v8.Object, depth int) {
	if slices.Contains(d.above, o.Address) {
		n.Text = "[circular]"
		return
	}
	all := members(d.heap, o)
	n.Text = cmp.Or(n.Text, all.text)
	n.Type, n.Length, n.sized = cmp.Or(all.kind, n.Type), max(n.Length, all.length), n.sized || all.sized
	if all.err != nil {
		n.Trouble = all.err.Error()
	}
	if depth <= 0 {
		n.Hidden = len(all.members) > 0
		n.listed = !n.Hidden
		return
	}
	n.listed = true
	d.above = append(d.above, o.Address)
	defer func() { d.above = d.above[:len(d.above)-1] }()
	for i, m := range all.members {
		if i >= d.options.Members || d.left <= 0 {
			n.More = len(all.members) - i
			return
		}
		described := Member{Name: m.name, Kind: m.kind}
		if m.key != nil {
			described.Key = d.slot(*m.key, depth-1, d.options.Text)
		}
		described.Value = d.slot(m.slot, depth-1, d.options.Text)
		if m.getter {
			described.Value = &Node{Type: "accessor", Text: "<" + m.accessor + ">"}
		}
		n.Members = append(n.Members, described)
	}
	n.More = max(n.More, all.more)
}

// FormatNumber formats a number as JavaScript does.
func FormatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0 && math.Signbit(f):
		return "-0"
	}
	if a := math.Abs(f); a >= 1e21 || a != 0 && a < 1e-6 {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(text, "e")
		sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
		return mantissa + "e" + sign + digits
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}
