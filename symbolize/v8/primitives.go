package v8

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// maxBigInt bounds the 64-bit digits of a BigInt to be formatted, which takes
// quadratic time. V8's own limit is 2^24.
const maxBigInt = 1 << 12

// BigInt formats a BigInt in decimal digits.
func (h *Heap) BigInt(o Object) (string, error) {
	if o.Map.Kind != "BigInt" {
		return "", fmt.Errorf("read BigInt at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	bits, ok1 := h.Offset("BigInt", "bitfield")
	digits, ok2 := h.Offset("BigInt", "digits")
	if !ok1 || !ok2 {
		return "", errors.New("read BigInt: where V8 keeps it is not known")
	}
	field, err := h.Uint32(o, bits)
	if err != nil {
		return "", fmt.Errorf("read BigInt at %#x: %w", o.Address, err)
	}
	const signBit = 1
	length := int(field &^ (1 << 31) >> 1)
	if length > maxBigInt {
		return "", fmt.Errorf("read BigInt at %#x: it has %d digits of 64 bits", o.Address, length)
	}
	b, err := h.Bytes(o.Address+uint64(digits), uint64(length*wordSize), maxBigInt*wordSize)
	if err != nil {
		return "", fmt.Errorf("read BigInt at %#x: %w", o.Address, err)
	}
	slices.Reverse(b)
	n := new(big.Int).SetBytes(b)
	if field&signBit != 0 {
		n.Neg(n)
	}
	return n.String(), nil
}

// A Symbol describes a symbol.
type Symbol struct {
	Description string // V8's own private symbols have none
	Described   bool   // false: made by Symbol()
	Registered  bool   // made by Symbol.for
	WellKnown   bool   // one of the language's own, judging by its description
	Private     bool   // V8's own, or the key of a field like #name
	PrivateName bool   // the latter
	Brand       bool   // V8 marks objects with it if their class has private methods
}

// A symbol's flags: with one bit for each kind; or with two bits for its owner.
const (
	symbolPrivate    = 1 << 0
	symbolRegistered = 1 << 2
	symbolName       = 1 << 4
	symbolBrand      = 1 << 5

	symbolOwner        = 3
	symbolOwnerName    = 2
	symbolOwnerBrand   = 3
	symbolRegisteredIn = 1 << 3
)

// flagged decodes a symbol's flags.
func (h *Heap) flagged(flags uint32) Symbol {
	if h.release.Objects.SymbolOwners {
		owner := flags & symbolOwner
		return Symbol{
			Registered: flags&symbolRegisteredIn != 0, Private: owner != 0,
			PrivateName: owner == symbolOwnerName, Brand: owner == symbolOwnerBrand,
		}
	}
	return Symbol{
		Registered: flags&symbolRegistered != 0, Private: flags&symbolPrivate != 0,
		PrivateName: flags&(symbolName|symbolBrand) == symbolName, Brand: flags&symbolBrand != 0,
	}
}

// wellKnown lists the language's own symbols.
var wellKnown = strings.Fields(`Symbol.asyncDispose Symbol.asyncIterator Symbol.dispose Symbol.hasInstance
	Symbol.isConcatSpreadable Symbol.iterator Symbol.match Symbol.matchAll Symbol.replace Symbol.search
	Symbol.species Symbol.split Symbol.toPrimitive Symbol.toStringTag Symbol.unscopables`)

// Symbol reads a symbol.
func (h *Heap) Symbol(o Object) (Symbol, error) {
	if o.Map.Kind != "Symbol" {
		return Symbol{}, fmt.Errorf("read symbol at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	at, ok := h.Offset("Symbol", "flags")
	if !ok {
		return Symbol{}, errors.New("read symbol: where V8 keeps it is not known")
	}
	flags, err := h.Uint32(o, at)
	if err != nil {
		return Symbol{}, fmt.Errorf("read symbol at %#x: %w", o.Address, err)
	}
	s := h.flagged(flags)
	description, err := h.FieldOf(o, "Symbol", "description")
	if err != nil || h.Oddball(description) != "" {
		return s, err
	}
	s.Described = true
	s.Description, _, err = h.Exact(description, maxName)
	s.WellKnown = !s.Private && !s.Registered && slices.Contains(wellKnown, s.Description)
	return s, err
}

// Date returns the milliseconds since 1970 of a JSDate; NaN if it is invalid.
func (h *Heap) Date(o Object) (float64, error) {
	if o.Map.Kind != "JSDate" {
		return 0, fmt.Errorf("read date at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	v, err := h.FieldOf(o, "JSDate", "value")
	if err != nil {
		return 0, err
	}
	if h.release.Objects.DatesUnboxed {
		return math.Float64frombits(uint64(v)), nil
	}
	ms, ok := h.Number(v)
	if !ok {
		return 0, fmt.Errorf("read date at %#x: %#x is no number", o.Address, uint64(v))
	}
	return ms, nil
}

// A RegExp is the source of a regular expression.
type RegExp struct{ Source, Flags string }

// String returns e as the language writes it.
func (e RegExp) String() string { return "/" + e.Source + "/" + e.Flags }

// regexpFlags has a regular expression's flags by bit, from the lowest.
const regexpFlags = "gimyusldv"

// RegExpFlags formats the flags of a regular expression as the language writes
// them.
func RegExpFlags(bits int) string {
	var flags []byte
	for i := range len(regexpFlags) {
		if bits>>i&1 != 0 {
			flags = append(flags, regexpFlags[i])
		}
	}
	slices.Sort(flags)
	return string(flags)
}

// RegExp reads a JSRegExp.
func (h *Heap) RegExp(o Object) (RegExp, error) {
	if o.Map.Kind != "JSRegExp" {
		return RegExp{}, fmt.Errorf("read regular expression at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	source, err := h.FieldOf(o, "JSRegExp", "source")
	if err != nil {
		return RegExp{}, err
	}
	bits, err := h.FieldOf(o, "JSRegExp", "flags")
	if err != nil {
		return RegExp{}, err
	}
	n, ok := bits.Smi()
	if !ok {
		return RegExp{}, fmt.Errorf("read regular expression at %#x: flags %#x", o.Address, uint64(bits))
	}
	text, _, err := h.Text(source, maxPattern)
	return RegExp{text, RegExpFlags(n)}, err
}

// maxPattern bounds the characters of a regular expression.
const maxPattern = 1 << 16

// Wrapped returns the primitive value in a JSPrimitiveWrapper: of new Number(1), 1.
func (h *Heap) Wrapped(o Object) (Value, error) {
	if o.Map.Kind != "JSPrimitiveWrapper" {
		return 0, fmt.Errorf("read wrapper at %#x: it is a %s", o.Address, o.Map.Kind)
	}
	return h.FieldOf(o, "JSPrimitiveWrapper", "value")
}

// Target returns what a JSWeakRef or a WeakCell refers to; undefined once that
// was collected.
func (h *Heap) Target(o Object) (Value, error) {
	switch o.Map.Kind {
	case "JSWeakRef", "WeakCell":
		return h.FieldOf(o, o.Map.Kind, "target")
	}
	return 0, fmt.Errorf("read weak reference at %#x: it is a %s", o.Address, o.Map.Kind)
}
