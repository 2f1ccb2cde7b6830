package printable

import (
	"testing"
	"unicode/utf8"
)

func TestString(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		`plain "text" \ too`:            `plain "text" \ too`,
		"plain\ttext, é … 日本":           "plain\ttext, é … 日本",
		"no-break\u00a0space":           "no-break\u00a0space",
		"a\x1b[31mb\x00\r\n":            `a\x1b[31mb\x00\x0d\x0a`,
		"c1 \u009b2J":                   `c1 \x9b2J`,
		"bad \xff utf-8":                `bad \xff utf-8`,
		"\xff\u202e\u009b":              `\xff\u202e\x9b`,
		"half \xed\xa0\x80\xed\xbf\xbf": `half \ud800\udfff`,
		"no half \xed\x9f\xc0\xed\xa0":  `no half \xed\x9f\xc0\xed\xa0`,
		"bidi \u202e\u2066":             `bidi \u202e\u2066`,
		"line\u2028paragraph":           `line\u2028paragraph`,
		"far \U000e0001 private":        `far \udb40\udc01 private`,
		"می\u200cخواهم 👩\u200d💻":        "می\u200cخواهم 👩\u200d💻",
		"�":                             "�",
	} {
		if got := String(text); got != want {
			t.Errorf("String(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	const text, want = `{"a":"é` + "\u009b\u202e\x7f" + `"}`, `{"a":"é\u009b\u202e\u007f"}`
	if got := string(JSON([]byte(text))); got != want {
		t.Errorf("JSON(%q) = %s, want %s", text, got, want)
	}
}

func FuzzString(f *testing.F) {
	f.Add("a\x1b[31m\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := String(text)
		if !utf8.ValidString(got) || String(got) != got {
			t.Errorf("String(%q) = %q, which is not printable", text, got)
		}
	})
}
