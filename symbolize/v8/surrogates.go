package v8

import (
	"fmt"
	"unicode/utf16"
	"unicode/utf8"
)

// A string of JavaScript may have halves of surrogate pairs on their own, which are no
// characters. Exact text has each as the three bytes by which UTF-8 would encode its number.
const surrogateBytes = 3

// MaxExact is how many characters of a string can be read.
const MaxExact = maxSource

// Exact is Text, except that lone surrogates are kept, as Surrogate reads them.
func (h *Heap) Exact(v Value, limit int) (text string, length int, err error) {
	if limit < 0 || limit > maxSource {
		limit = maxSource
	}
	if length, err = h.textLength(v); err != nil {
		return "", 0, err
	}
	var units []uint16
	err = h.characters(v, 0, min(length, limit), func(u []uint16) { units = append(units, u...) })
	return string(exact(units)), length, err
}

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
		b = append(b, 0xe0|byte(unit>>12), 0x80|byte(unit>>6)&0x3f, 0x80|byte(unit)&0x3f)
	}
	return b
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
