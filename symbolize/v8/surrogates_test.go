package v8

import (
	"encoding/json"
	"strconv"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
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

func TestSurrogatesAreUnescaped(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "plain é": "plain é", `x\ud800y`: "x\xed\xa0\x80y", `\uDFFF`: "\xed\xbf\xbf", `\ud83d\ude00`: "😀", `\ude00\ud83d`: "\xed\xb8\x80\xed\xa0\xbd",
		`\u0041`: `\u0041`, `\ud80`: `\ud80`, `\ud80g`: `\ud80g`, `\\ud800`: "\\\xed\xa0\x80", "\xff\xed\xa0\x80": "\xff\xed\xa0\x80",
	} {
		if got := UnescapeSurrogates(text); got != want {
			t.Errorf("UnescapeSurrogates(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestExactTextIsCutBetweenCharacters(t *testing.T) {
	const text = "a\xed\xa0\x80é😀\xff"
	for n, want := range []string{"", "a", "a\xed\xa0\x80", "a\xed\xa0\x80é", "a\xed\xa0\x80é😀", text, text} {
		if got := CutExact(text, n); got != want {
			t.Errorf("CutExact(%q, %d) = %q, want %q", text, n, got, want)
		}
	}
	if got, want := ExactUnits(text), 6; got != want {
		t.Errorf("ExactUnits(%q) = %d, want %d", text, got, want)
	}
}

func FuzzExactText(f *testing.F) {
	f.Add("a\xed\xa0\x80é😀\xff" + `\ud800\udc00`)
	f.Fuzz(func(t *testing.T, text string) {
		if got := CutExact(text, len(text)); got != text {
			t.Errorf("CutExact(%q) = %q, want all", text, got)
		}
		if !json.Valid(MarshalExact(text)) || !utf8.ValidString(QuoteExact(text)) {
			t.Errorf("%q: %s, %s", text, MarshalExact(text), QuoteExact(text))
		}
		once := UnescapeSurrogates(text)
		if len(once) > len(text) || ExactUnits(once) > ExactUnits(text) {
			t.Errorf("UnescapeSurrogates(%q) = %q, which is longer", text, once)
		}
	})
}
