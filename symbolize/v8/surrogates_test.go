package v8

import (
	"strconv"
	"testing"
	"unicode/utf16"
)

func TestLoneSurrogatesAreKept(t *testing.T) {
	for _, tt := range []struct {
		units []uint16
		want  string
	}{
		{utf16.Encode([]rune("plain, é, 日本, 😀")), `"plain, é, 日本, 😀"`},
		{[]uint16{0xd800, 'x'}, `"\ud800x"`},
		{[]uint16{'a', 0xdfff, 0xd83d, 0xde00, 0xd83d}, `"a\udfff😀\ud83d"`},
		{[]uint16{0xdc00, 0xd800}, `"\udc00\ud800"`},
		{[]uint16{'\\', 'u', '"', 0xdbff}, `"\\u\"\udbff"`},
		{nil, `""`},
	} {
		got := `"` + EscapeSurrogates(string(exact(tt.units)), func(text string) string {
			quoted := strconv.Quote(text)
			return quoted[1 : len(quoted)-1]
		}) + `"`
		if got != tt.want {
			t.Errorf("%x is %s, want %s", tt.units, got, tt.want)
		}
	}
}

func FuzzEscapeSurrogates(f *testing.F) {
	f.Add("a\xed\xa0\x80b")
	f.Add("\xed\xa0")
	f.Add("\xed\x9f\xbf")
	f.Fuzz(func(t *testing.T, text string) {
		escaped := EscapeSurrogates(text, func(text string) string { return text })
		for i := range escaped {
			if unit, ok := Surrogate(escaped[i:]); ok {
				t.Errorf("%q escaped still has %x", text, unit)
			}
		}
	})
}
