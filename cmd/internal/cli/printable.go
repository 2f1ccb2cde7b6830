package cli

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Printable returns line with terminal control characters made visible: a name
// or a path that was read from a process may contain anything.
func Printable(line string) string {
	if strings.IndexFunc(line, isUnfit) < 0 && utf8.ValidString(line) {
		return line
	}
	var b strings.Builder
	for i, r := range line {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(line[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, line[i])
		case !isUnfit(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			writeUnits(&b, r)
		}
	}
	return b.String()
}

func isUnfit(r rune) bool {
	return r != '\t' && !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r)
}

// PrintableJSON escapes what is not printable in JSON, which may go to a terminal.
func PrintableJSON(text []byte) []byte {
	if bytes.IndexFunc(text, isUnfit) < 0 {
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

// writeUnits writes r as an escape sequence of JavaScript and JSON.
func writeUnits(w io.Writer, r rune) {
	for _, unit := range utf16.Encode([]rune{r}) {
		fmt.Fprintf(w, `\u%04x`, unit)
	}
}
