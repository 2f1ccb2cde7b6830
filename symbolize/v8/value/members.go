package value

import (
	"errors"
	"strconv"

	"ustack/symbolize/v8"
)

// maxMembers bounds the members of one object that are read.
const maxMembers = 1 << 20

// A member is a Member before it is described.
type member struct {
	name, kind string
	slot       Slot
	key        *Slot  // of an entry of a Map
	getter     bool   // it is an accessor
	accessor   string // "getter", "setter", or "accessor" for both and those of V8
}

// contents is what an object contains.
type contents struct {
	members []member
	text    string // of an object best shown as text: a Date, a RegExp
	kind    string // a Node's Type, if it is not "object"
	length  int
	sized   bool // it has a length, even if that is 0
	more    int  // members that were not read
	err     error
}

func (c *contents) fail(err error) { c.err = errors.Join(c.err, err) }

// add adds a member with a value; beyond the bound it only counts the member.
func (c *contents) add(kind, name string, value v8.Value) {
	c.addMember(member{name: name, kind: kind, slot: Slot{Value: value}})
}

func (c *contents) addMember(m member) {
	if len(c.members) >= maxMembers {
		c.more++
		return
	}
	c.members = append(c.members, m)
}

// members returns o's contents: its named properties, its elements, and what its kind
// stores elsewhere.
func members(h *v8.Heap, o v8.Object) contents {
	var c contents
	if o.Map.Kind != "JSProxy" { // which has none itself
		properties, err := h.Properties(o)
		if err != nil {
			c.fail(err)
		}
		_, isArray := h.Length(o)
		for _, p := range properties {
			if p.Hidden && isBuiltinProperty(h, o, p, isArray) {
				continue
			}
			m, ok := propertyMember(h, p)
			if !ok {
				continue
			}
			if m.getter && p.Name == "stack" && !p.Symbol {
				m = stackMember(h, o, m)
			}
			c.addMember(m)
		}
		err = h.Elements(o, func(e v8.Element) bool {
			c.addMember(member{
				name: strconv.Itoa(e.Index), kind: "element",
				slot: Slot{Value: e.Value, Number: e.Number, IsNumber: e.IsNumber},
			})
			return true
		})
		if err != nil {
			c.fail(err)
		}
	}
	if add, ok := specials[o.Map.Kind]; ok {
		add(h, o, &c)
	}
	return c
}

// propertyMember returns p as a member, unless it is internal to V8.
func propertyMember(h *v8.Heap, p v8.Property) (member, bool) {
	m := member{name: p.Name, slot: Slot{Value: p.Value}, getter: p.Accessor, accessor: accessorOf(h, p)}
	if !p.Symbol {
		return m, true
	}
	m.kind = "symbol"
	if o, err := h.Object(p.Key); err == nil {
		s, err := h.Symbol(o)
		switch {
		case err == nil && s.PrivateName:
			m.kind = "private"
		case err == nil && s.Private:
			return m, false
		}
	}
	return m, true
}

// accessorOf returns what a property has: a getter, a setter, or both.
func accessorOf(h *v8.Heap, p v8.Property) string {
	callable := func(v v8.Value) bool {
		return v != 0 && h.Oddball(v) == ""
	}
	switch get, set := callable(p.Getter), callable(p.Setter); {
	case get && !set:
		return "getter"
	case set && !get:
		return "setter"
	}
	return "accessor"
}

// PropertyName returns the name of a property; ok is false if it is internal to V8.
func PropertyName(h *v8.Heap, p v8.Property) (name string, ok bool) {
	m, ok := propertyMember(h, p)
	return m.name, ok
}

// stackMember returns the accessor m of an error's stack as the text that a program would
// get, if o has one: V8 keeps the calls, and formats them when a program reads the
// property.
func stackMember(h *v8.Heap, o v8.Object, m member) member {
	if e, err := ReadError(h, o); err == nil && e.Stack != "" {
		m.slot, m.getter = Slot{Text: e.Stack, IsText: true}, false
	}
	return m
}

// isBuiltinProperty reports whether every object of o's kind has a property like p, so
// that it says nothing about o.
func isBuiltinProperty(h *v8.Heap, o v8.Object, p v8.Property, isArray bool) bool {
	switch {
	case h.IsFunction(o):
		return p.Name == "length" || p.Name == "name" || p.Name == "prototype" || p.Name == "arguments" || p.Name == "caller"
	case isArray, o.Map.Kind == "JSPrimitiveWrapper":
		return p.Name == "length"
	case o.Map.Kind == "JSRegExp":
		return p.Name == "lastIndex"
	}
	return false
}
