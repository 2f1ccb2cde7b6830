package record

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"ustack/tools/printable"
)

// Node.js's util.inspect: an object of up to so many levels is on one line if it is not longer.
const (
	breakLength   = 80
	compactLevels = 3
)

var identifier = regexp.MustCompile(`^[A-Za-z_$][\w$]*$`)

// inspect returns a record as util.inspect does; long arrays of short values, which that arranges in
// columns, are a line for each.
func (f *Format) inspect(r Record, _ time.Time) string {
	shown, _ := f.inspected(gjson.Parse(r.Line), 0)
	return shown + "\n"
}

// inspected returns a value, and how many levels of objects are in it.
func (f *Format) inspected(value gjson.Result, indentation int) (shown string, levels int) {
	switch {
	case value.Type == gjson.String:
		return f.paint(quoted(value.Str), green, plain), 0
	case value.Type == gjson.Null:
		return f.paint("null", "\x1b[1m", "\x1b[22m"), 0
	case !value.IsObject() && !value.IsArray():
		return f.paint(value.Raw, "\x1b[33m", plain), 0
	}
	open, end := "{", "}"
	if value.IsArray() {
		open, end = "[", "]"
	}
	var all []string
	length := 0
	value.ForEach(func(key, value gjson.Result) bool {
		text, below := f.inspected(value, indentation+2)
		levels = max(levels, below)
		if open == "{" {
			text = f.property(key.String()) + ": " + text
		}
		length += utf8.RuneCountInString(unpainted(text)) + 1
		all = append(all, text)
		return true
	})
	if len(all) == 0 {
		return open + end, levels + 1
	}
	const slack = 10
	oneLine := !strings.Contains(strings.Join(all, ""), "\n") && levels < compactLevels &&
		length+len(all)+indentation+len(open)+slack <= breakLength
	if oneLine {
		return open + " " + strings.Join(all, ", ") + " " + end, levels + 1
	}
	at := "\n" + strings.Repeat(" ", indentation)
	return open + at + "  " + strings.Join(all, ","+at+"  ") + at + end, levels + 1
}

var painting = regexp.MustCompile("\x1b\\[\\d+m")

func unpainted(text string) string { return painting.ReplaceAllString(text, "") }

func (f *Format) property(key string) string {
	if identifier.MatchString(key) {
		return key
	}
	return f.paint(quoted(key), green, plain)
}

// quoted returns a string in the quotes that it does not contain.
func quoted(text string) string {
	quote := "'"
	for _, q := range []string{"'", `"`, "`"} {
		if !strings.Contains(text, q) {
			quote = q
			break
		}
	}
	text = strings.NewReplacer(`\`, `\\`, "\n", `\n`, "\t", `\t`, "\r", `\r`, "\b", `\b`, "\f", `\f`, "\v", `\v`).Replace(text)
	if strings.Contains(text, quote) {
		text = strings.ReplaceAll(text, quote, `\`+quote)
	}
	return quote + printable.String(text) + quote
}
