package v8

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// A string of JavaScript may have halves of surrogate pairs on their own, which are no
// characters. Exact text has each as the three bytes by which UTF-8 would encode its number.
const surrogateBytes = 3

// MaxExact is how many characters of a string can be read.
const MaxExact = maxSource

// Exact is Text, except that lone surrogates are kept, as Surrogate reads them. It ends before
// a pair of which limit leaves only a half.
func (h *Heap) Exact(v Value, limit int) (text string, length int, err error) {
	o, err := h.stringAt(v)
	if err != nil {
		return "", 0, err
	}
	return h.exactOf(o, limit)
}

func (h *Heap) exactOf(o Object, limit int) (text string, length int, err error) {
	if limit < 0 || limit > maxSource {
		limit = maxSource
	}
	if length, err = h.length(o); err != nil {
		return "", 0, err
	}
	end := min(length, limit)
	if text, ok := h.asciiText(o, end); ok {
		return text, length, nil
	}
	var b strings.Builder
	rest, err := h.unitsAfterASCII(o.Ref(), 0, end, &b)
	if last := len(rest) - 1; last >= 0 && length > limit && rest[last]>>10 == highSurrogates {
		rest = rest[:last]
	}
	b.Write(exact(rest))
	return b.String(), length, err
}

// The bits that all first and all second halves of pairs begin with.
const (
	highSurrogates = 0xd800 >> 10
	lowSurrogates  = 0xdc00 >> 10
)

// exact encodes UTF-16 as exact text.
func exact(units []uint16) []byte {
	b := make([]byte, 0, len(units))
	for i := 0; i < len(units); i++ {
		unit := rune(units[i])
		if !utf16.IsSurrogate(unit) {
			b = utf8.AppendRune(b, unit)
			continue
		}
		if i+1 < len(units) {
			if pair := utf16.DecodeRune(unit, rune(units[i+1])); pair != utf8.RuneError {
				b = utf8.AppendRune(b, pair)
				i++
				continue
			}
		}
		b = appendSurrogate(b, uint16(unit))
	}
	return b
}

func appendSurrogate(b []byte, unit uint16) []byte {
	return append(b, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
}

// Surrogate returns the lone surrogate with which exact text begins; false if it begins with
// another character.
func Surrogate(text string) (unit uint16, ok bool) {
	if len(text) < surrogateBytes || text[0] != 0xed || text[1] < 0xa0 || text[1] > 0xbf || text[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | uint16(text[1]&0x3f)<<6 | uint16(text[2]&0x3f), true
}

// EscapeSurrogates returns exact text with each lone surrogate as an escape sequence of
// JavaScript and JSON, and escape applied to what is between them.
func EscapeSurrogates(text string, escape func(string) string) string {
	var b []byte
	from := 0
	for i := 0; i < len(text); i++ {
		if unit, ok := Surrogate(text[i:]); ok {
			b = fmt.Appendf(append(b, escape(text[from:i])...), `\u%04x`, unit)
			from, i = i+surrogateBytes, i+surrogateBytes-1
		}
	}
	return string(b) + escape(text[from:])
}

// An ExactText is exact text, which keeps its lone surrogates in JSON.
type ExactText string

// MarshalJSON writes the text as a string.
func (t ExactText) MarshalJSON() ([]byte, error) { return MarshalExact(string(t)), nil }

// MarshalExact returns exact text as a string of JSON.
func MarshalExact(text string) []byte {
	inside := func(text string) string {
		b, _ := json.Marshal(text) // a string has a form
		return string(b[1 : len(b)-1])
	}
	return []byte(`"` + EscapeSurrogates(text, inside) + `"`)
}

// QuoteExact quotes exact text as JavaScript does.
func QuoteExact(text string) string {
	return `"` + EscapeSurrogates(text, func(text string) string {
		quoted := strconv.Quote(text)
		return quoted[1 : len(quoted)-1]
	}) + `"`
}

// nextExact returns how many bytes the first character of exact text has, and how many of
// UTF-16's units it is.
func nextExact(text string) (bytes, units int) {
	if _, ok := Surrogate(text); ok {
		return surrogateBytes, 1
	}
	r, size := utf8.DecodeRuneInString(text)
	return size, max(1, utf16.RuneLen(r))
}

// CutExact returns the first characters of exact text.
func CutExact(text string, characters int) string {
	at := 0
	for ; characters > 0 && at < len(text); characters-- {
		size, _ := nextExact(text[at:])
		at += size
	}
	return text[:at]
}

// ExactUnits returns the length of exact text in UTF-16 code units.
func ExactUnits(text string) int {
	n := 0
	for text != "" {
		size, units := nextExact(text)
		text = text[size:]
		n += units
	}
	return n
}

// UnescapeSurrogates returns text with escape sequences such as \ud800 replaced by what they stand
// for: a lone surrogate or, two together, a character. No other sequence is one.
func UnescapeSurrogates(text string) string {
	var b []byte
	for text != "" {
		high, ok := escapedSurrogate(text)
		if !ok {
			size, _ := nextExact(text)
			b, text = append(b, text[:size]...), text[size:]
			continue
		}
		text = text[escapeBytes:]
		low, ok := escapedSurrogate(text)
		if ok && high>>10 == highSurrogates && low>>10 == lowSurrogates {
			b, text = utf8.AppendRune(b, utf16.DecodeRune(rune(high), rune(low))), text[escapeBytes:]
			continue
		}
		b = appendSurrogate(b, high)
	}
	return string(b)
}

// escapeBytes is the length of an escape sequence such as \ud800.
const escapeBytes = 6

// escapedSurrogate returns the surrogate whose escape sequence text begins with.
func escapedSurrogate(text string) (unit uint16, ok bool) {
	if len(text) < escapeBytes || !strings.HasPrefix(text, `\u`) {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:escapeBytes], 16, 16)
	return uint16(n), err == nil && utf16.IsSurrogate(rune(n))
}
