// Package printable makes text from a process safe to print: a name or a path
// may contain anything, control characters of a terminal included.
package printable

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// String returns text as valid UTF-8 on one line. Characters that control a
// terminal, reorder a line or are not visible, and bytes that are not UTF-8,
// become escape sequences, such as \x1b and \u202e, halves of surrogate pairs such as \ud800; a
// tab stays.
func String(text string) string {
	if isPlain(text) {
		return text
	}
	if strings.IndexFunc(text, isUnfit) < 0 && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		if unit, ok := surrogate(text[i:]); ok {
			fmt.Fprintf(&b, `\u%04x`, unit)
			i += surrogateBytes
			continue
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case !isUnfit(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			writeUnits(&b, r)
		}
		i += size
	}
	return b.String()
}

// Bytes is String of bytes, which it may return.
func Bytes(text []byte) []byte {
	if isPlain(text) {
		return text
	}
	return []byte(String(string(text)))
}

const surrogateBytes = 3

// surrogate returns the half of a surrogate pair that text begins with, as strings of JavaScript
// may have it on its own: encoded like a character, which UTF-8 does not allow.
func surrogate(text string) (unit uint16, ok bool) {
	if len(text) < surrogateBytes || text[0] != 0xed || text[1] < 0xa0 || text[1] > 0xbf || text[2]&0xc0 != 0x80 {
		return 0, false
	}
	return 0xd000 | uint16(text[1]&0x3f)<<6 | uint16(text[2]&0x3f), true
}

// isPlain reports whether text is of printable ASCII characters, as most is.
func isPlain[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// JSON escapes what is not printable in JSON, which may go to a terminal.
func JSON(text []byte) []byte {
	if isPlain(text) || bytes.IndexFunc(text, isUnfit) < 0 {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		if isUnfit(r) {
			writeUnits(&b, r)
			continue
		}
		b.WriteRune(r)
	}
	return b.Bytes()
}

// isUnfit reports whether r may not be printed. U+200C and U+200D are parts of
// identifiers in several scripts, and of emoji.
func isUnfit(r rune) bool {
	return r != '\t' && r != '\u200c' && r != '\u200d' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// writeUnits writes r as an escape sequence of JavaScript and JSON.
func writeUnits(w io.Writer, r rune) {
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(w, `\u%04x`, unit)
	}
}
