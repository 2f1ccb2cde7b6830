package v8

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Scope is a ScopeInfo: what V8 knows about a function, block, class or module
// before it runs.
type Scope struct {
	Type     string   // "function", "block", "class", "module", "script" …
	Function Function // name and position; for a block, only the position
	Locals   []string // the variables in its Contexts, in the order of their slots
	Strict   bool
	Own      bool // a register holds the function: it is an expression that uses its own name

	first int // first slot of Locals
}

// A Context holds the variables that closures share, for one execution of a
// scope.
type Context struct {
	Scope     Scope
	Previous  Value // Context of the enclosing scope
	Variables []Variable

	slots int // in all
}

// A Variable is a variable that closures share, with its value.
type Variable struct {
	Name     string
	Slot     int // in its Context
	Value    Value
	Number   float64 // if V8 keeps the value unboxed
	IsNumber bool
}

// Slots of a Context.
const (
	contextScope    = 0
	contextPrevious = 1
	contextSlots    = 2 // fixed slots, before variables and what eval declared
	contextExtended = 1 << 26
	maxContextSlots = 1 << 20 // of a Context, and those that enclose it
)

// moduleScope is the type of a module's scope.
const moduleScope = "module"

// Scope reads a ScopeInfo.
func (h *Heap) Scope(o Object) (Scope, error) {
	s := Scope{Function: Function{Start: -1, End: -1}, first: contextSlots}
	if o.Map.Kind != "ScopeInfo" {
		return s, fmt.Errorf("read scope at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	r := &scopeReader{Heap: h, scope: o}
	flags, err := r.flags()
	if err != nil {
		return s, err
	}
	s.Type = h.scopeType(flags)
	s.Strict, s.Own = flags&scopeStrict != 0, flags&scopeFunctionName == functionInRegister
	if flags&contextExtended != 0 {
		s.first++
	}
	if err := h.scope(o, &s.Function); err != nil {
		return s, err
	}
	s.Locals, err = h.locals(r, flags)
	return s, err
}

// ScopeOf reads the scope of a function that V8 has compiled.
func (h *Heap) ScopeOf(shared Object) (Scope, error) {
	v, err := h.Field(shared, int(h.layout.SharedName))
	if err != nil {
		return Scope{}, err
	}
	o, err := h.Object(v)
	if err != nil {
		return Scope{}, err
	}
	return h.Scope(o)
}

func (h *Heap) scopeType(flags uint32) string {
	names := h.release.Scopes.Types
	if n := int(flags & scopeTypeMask); n < len(names) {
		return names[n]
	}
	return fmt.Sprintf("type %d", flags&scopeTypeMask)
}

// locals reads the names of a scope's variables: consecutive words or, if there
// are many, a hash table of their indices.
func (h *Heap) locals(r *scopeReader, flags uint32) ([]string, error) {
	l := h.layout
	w, err := r.word(int(l.ScopeLocals))
	if err != nil {
		return nil, err
	}
	count, ok := w.Smi()
	if !ok || count < 0 || count > maxLocals {
		return nil, fmt.Errorf("read scope at %#x: %#x variables", r.scope.Address, uint64(w))
	}
	r.next = int(l.ScopeFirst)
	if l.ScopeModule != 0 && h.scopeType(flags) == moduleScope {
		r.next++ // the number of the module's cells
	}
	if count >= int(l.ScopeMaxInlined) {
		return h.hashedLocals(r, count)
	}
	words, err := h.words(r.scope.Address+scopeWords+uint64(r.next)*wordSize, count)
	names := make([]string, len(words))
	for i, word := range words {
		names[i], _ = h.keyName(word)
	}
	return names, err
}

func (h *Heap) hashedLocals(r *scopeReader, count int) ([]string, error) {
	word, err := r.take()
	if err != nil {
		return nil, err
	}
	table, err := h.Object(word)
	if err != nil {
		return nil, err
	}
	names := make([]string, count)
	err = h.tableEntries(table, 2, func(entry []Value) bool {
		if at, ok := entry[1].Smi(); ok && at >= 0 && at < count {
			names[at], _ = h.keyName(entry[0])
		}
		return true
	})
	return names, err
}

// Context reads a Context, of any type.
func (h *Heap) Context(o Object) (Context, error) {
	var c Context
	length, err := h.SmiField(o, arrayLength)
	if err != nil {
		return c, err
	}
	if length < contextSlots || length > maxContextSlots {
		return c, fmt.Errorf("read context at %#x: %d slots", o.Address, length)
	}
	words, err := h.words(o.Address+arrayFirst, length)
	if err != nil {
		return c, fmt.Errorf("read context at %#x: %w", o.Address, err)
	}
	c.slots, c.Previous = length, words[contextPrevious]
	scope, err := h.Object(words[contextScope])
	if err != nil {
		return c, fmt.Errorf("read scope of context at %#x: %w", o.Address, err)
	}
	if c.Scope, err = h.Scope(scope); err != nil {
		return c, err
	}
	for i, name := range c.Scope.Locals {
		slot := c.Scope.first + i
		if slot >= length {
			break // a native context keeps scripts' variables elsewhere
		}
		c.Variables = append(c.Variables, h.variable(name, slot, words[slot]))
	}
	return c, nil
}

// variable returns a Context's variable.
func (h *Heap) variable(name string, slot int, word Value) Variable {
	v := Variable{Name: name, Slot: slot, Value: word}
	h.OpenCell(&v)
	return v
}

// OpenCell takes the value of a Context's variable out of the cell in which V8 13 and later
// track whether it changes, if it is in one.
func (h *Heap) OpenCell(v *Variable) {
	o, err := h.Object(v.Value)
	if err != nil || o.Map.Kind != "ContextCell" {
		return
	}
	state, err := h.Uint32(o, contextCellState)
	if err != nil {
		return
	}
	switch state {
	case cellConst, cellSmi:
		if value, err := h.Field(o, contextCellValue); err == nil {
			v.Value = value
		}
	case cellInt32:
		if bits, err := h.Uint32(o, contextCellNumber); err == nil {
			v.Value, v.Number, v.IsNumber = 0, float64(int32(bits)), true
		}
	case cellFloat64:
		if bits, err := h.Field(o, contextCellNumber); err == nil {
			v.Value, v.Number, v.IsNumber = 0, math.Float64frombits(uint64(bits)), true
		}
	}
}

// Offsets in a ContextCell, and its states: V8 14.6 keeps numbers that are no small integers
// in the cell itself.
const (
	contextCellValue  = 8
	contextCellState  = 24
	contextCellNumber = 32

	cellConst   = 0
	cellSmi     = 1
	cellInt32   = 2
	cellFloat64 = 3
)

// FirstSlot returns the slot of the first of Locals in the scope's Contexts.
func (s *Scope) FirstSlot() int { return s.first }

// Contexts visits a context and its enclosing contexts, innermost first, until
// visit returns false. It does not visit the native context, which holds V8's
// internals. What visit adds to the variables counts against the limit on all of them.
func (h *Heap) Contexts(context Value, visit func(Object, *Context) bool) error {
	start, left := context, maxContextSlots
	for range maxScopes {
		o, err := h.Object(context)
		if err != nil {
			return err
		}
		if slices.Contains([]string{"NativeContext", "Oddball"}, o.Map.Kind) {
			return nil
		}
		c, err := h.Context(o)
		if err != nil {
			return err
		}
		if !visit(o, &c) || !c.Previous.IsObject() {
			return nil
		}
		left -= max(c.slots, len(c.Scope.Locals), len(c.Variables))
		if left < 0 {
			return fmt.Errorf("read contexts from %#x on: more than %d slots", uint64(start), maxContextSlots)
		}
		context = c.Previous
	}
	return fmt.Errorf("read contexts from %#x on: more than %d", uint64(start), maxScopes)
}

// Enclosing returns the variables of a context and of its enclosing contexts, innermost
// first, from those that visit returns true for to the first for which it does not.
func (h *Heap) Enclosing(context Value, visit func(Value) bool) ([]Variable, error) {
	var variables []Variable
	err := h.Contexts(context, func(o Object, c *Context) bool {
		if !visit(o.Ref()) {
			return false
		}
		more, _ := h.unlisted(o) // what cannot be read has no names
		c.Variables = append(c.Variables, more...)
		variables = append(variables, c.Variables...)
		return true
	})
	return variables, err
}

// maxScopes bounds the nesting of scopes; V8's parser stops earlier.
const maxScopes = 1 << 12

// arrayKinds are V8's internal arrays that consist of a length and that many
// values, besides those whose kind ends in "Dictionary" or "Table".
var arrayKinds = []string{
	"FixedArray", "TrustedFixedArray", "ProtectedFixedArray", "WeakFixedArray", "TrustedWeakFixedArray",
	"OrderedHashMap", "OrderedHashSet",
}

// Array returns at most limit elements of one of V8's internal arrays.
func (h *Heap) Array(o Object, limit int) ([]Value, error) {
	kind := o.Map.Kind
	isArray := slices.Contains(arrayKinds, kind)
	for _, suffix := range []string{"Dictionary", "Table", "Context"} {
		isArray = isArray || strings.HasSuffix(kind, suffix)
	}
	if !isArray {
		return nil, fmt.Errorf("read array at %#x: it is a %s", o.Address, kind)
	}
	length, err := h.SmiField(o, arrayLength)
	if err != nil {
		return nil, err
	}
	if length < 0 || length > maxElements {
		return nil, fmt.Errorf("read array at %#x: %d elements", o.Address, length)
	}
	return h.words(o.Address+arrayFirst, min(length, limit))
}
