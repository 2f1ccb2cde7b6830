package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"ustack/tools/printable"
)

// A Format returns a record as text that ends in a new line and is safe for a terminal. seen is the
// time for a record that has none.
type Format struct {
	color bool
	write func(f *Format, r Record, seen time.Time) string
	// indent is of JSON, in columns.
	indent int
}

// Formats are the names of formats, bunyan's usual one first.
func Formats() []string {
	return []string{"long", "short", "simple", "json", "json-N", "bunyan", "inspect"}
}

// maxIndent is JSON.stringify's.
const maxIndent = 10

// NewFormat returns the format of that name, for a terminal if color is set.
func NewFormat(name string, color bool) (*Format, error) {
	f := &Format{color: color, indent: 2}
	switch name {
	case "long":
		f.write = (*Format).long
	case "short":
		f.write = (*Format).short
	case "simple":
		f.write = (*Format).simple
	case "json":
		f.write = (*Format).json
	case "bunyan":
		f.write = (*Format).raw
	case "inspect":
		f.write = (*Format).inspect
	default:
		indent, err := strconv.ParseUint(strings.TrimPrefix(name, "json-"), 10, 8)
		if err != nil || !strings.HasPrefix(name, "json-") || indent > maxIndent {
			return nil, fmt.Errorf("no format %q (there are %s)", name, strings.Join(Formats(), ", "))
		}
		f.write, f.indent = (*Format).json, int(indent)
		if indent == 0 {
			f.write = (*Format).raw
		}
	}
	return f, nil
}

// Text returns the record.
func (f *Format) Text(r Record, seen time.Time) string {
	return f.write(f, r, seen)
}

// Sequences of a terminal that bunyan has for levels and messages.
const (
	cyan  = "\x1b[36m"
	green = "\x1b[32m"
	plain = "\x1b[39m"
)

var levelColors = map[Level][2]string{
	Trace: {"\x1b[37m", plain}, Debug: {"\x1b[33m", plain}, Info: {cyan, plain},
	Warn: {"\x1b[35m", plain}, Error: {"\x1b[31m", plain}, Fatal: {"\x1b[7m", "\x1b[27m"},
}

func (f *Format) paint(text, begin, end string) string {
	if !f.color || text == "" {
		return text
	}
	return begin + text + end
}

func (f *Format) simple(r Record, _ time.Time) string {
	return fmt.Sprintf("%v - %s\n", r.Level, lines(r.Message, ""))
}

func (f *Format) raw(r Record, _ time.Time) string {
	return string(printable.JSON(compact(r.Line))) + "\n"
}

func (f *Format) json(r Record, _ time.Time) string {
	return lines(string(indented(strings.TrimSpace(r.Line), strings.Repeat(" ", f.indent))), "") + "\n"
}

func compact(text string) []byte {
	if isCompact(text) {
		return []byte(text)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(text)); err != nil {
		return []byte(strconv.Quote(text)) // deeper than Go reads
	}
	return b.Bytes()
}

// isCompact reports whether JSON has no space between its parts.
func isCompact(text string) bool {
	inText := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case !inText && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			return false
		}
	}
	return true
}

func indented(text, indent string) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(text), "", indent); err != nil {
		return []byte(strconv.Quote(text))
	}
	return b.Bytes()
}

func (f *Format) long(r Record, seen time.Time) string { return f.people(r, seen, false) }

func (f *Format) short(r Record, seen time.Time) string { return f.people(r, seen, true) }

// people returns a record as
//
//	[time] LEVEL: name[/component]/pid on hostname (src): msg (extras...)
//	    details
//
// without brackets, the date, the pid and the host if it is short.
func (f *Format) people(r Record, seen time.Time, short bool) string {
	r.fields = append([]field(nil), r.fields...) // what is shown is taken from it
	r.take("v")
	r.take("level")
	when := timeText(r.takeFirst(timeKeys), seen)
	who := name(&r, short)
	src := f.source(r.take("src"))
	host := r.take("hostname")
	message := r.takeFirst(messageKeys).String()
	var extras, details []string
	if id := r.take("req_id"); isTrue(id) {
		extras = append(extras, "req_id="+text(id))
	}
	long := strings.Contains(message, "\n")
	if long {
		details = append(details, indent(message))
		message = ""
	}
	details = append(details, r.takeHTTP()...)
	details = append(details, r.takeError()...)
	extras, details = r.rest(extras, details)

	var b strings.Builder
	level := f.level(r.Level)
	switch {
	case short:
		when = timeOfDay(when)
		fmt.Fprintf(&b, "%s %s %s:", printable.String(when), level, printable.String(who))
	case host.Exists():
		fmt.Fprintf(&b, "[%s] %s: %s on %s%s:", printable.String(when), level, printable.String(who), printable.String(cmp.Or(text(host), "<no-hostname>")), src)
	case who+src == "":
		fmt.Fprintf(&b, "[%s] %s:", printable.String(when), level)
	default:
		fmt.Fprintf(&b, "[%s] %s: %s%s:", printable.String(when), level, printable.String(who), src)
	}
	if message != "" || !long {
		b.WriteString(" " + f.paint(printable.String(message), cyan, plain))
	}
	if len(extras) > 0 {
		fmt.Fprintf(&b, " (%s)", printable.String(strings.Join(extras, ", ")))
	}
	b.WriteByte('\n')
	if len(details) > 0 {
		b.WriteString(lines(strings.Join(details, "\n    --\n"), "") + "\n")
	}
	return b.String()
}

// level returns a level's name, in its color; those with one of bunyan's names are as wide as each
// other.
func (f *Format) level(l Level) string {
	colors, known := levelColors[l]
	if !known {
		return l.String()
	}
	return f.paint(fmt.Sprintf("%5s", l), colors[0], colors[1])
}

// timeOfDay returns the time of day, in UTC, of a time that is ISO 8601's, or else what follows its
// first 11 bytes.
func timeOfDay(when string) string {
	const date = "2006-01-02T"
	if t, err := time.Parse(time.RFC3339, when); err == nil {
		return t.UTC().Format("15:04:05.000Z")
	}
	return when[min(len(date), len(when)):]
}

// name returns who has written the record.
func name(r *Record, short bool) string {
	var parts []string
	for _, key := range []string{"name", "component", "pid"} {
		value := r.take(key)
		isShown := value.Exists() && value.Type != gjson.Null
		switch key {
		case "component":
			isShown = isTrue(value)
		case "pid":
			isShown = isShown && !short
		}
		if isShown {
			parts = append(parts, text(value))
		}
	}
	return strings.Join(parts, "/")
}

// source returns where in the program it was written.
func (f *Format) source(src gjson.Result) string {
	file := src.Get("file")
	if !file.Exists() {
		return ""
	}
	at := fmt.Sprintf(" (%s:%s", file.String(), src.Get("line").String())
	if function := src.Get("func").String(); function != "" {
		at += " in " + function
	}
	return f.paint(printable.String(at+")"), green, plain)
}

// text returns a value as JavaScript makes a string of it, objects as JSON.
func text(value gjson.Result) string {
	switch {
	case value.Type == gjson.String:
		return value.Str
	case value.IsArray():
		var all []string
		for _, v := range value.Array() {
			if v.Type == gjson.Null {
				v = gjson.Result{} // which has no text there
			}
			all = append(all, text(v))
		}
		return strings.Join(all, ",")
	}
	return value.Raw
}

// isTrue reports whether JavaScript takes a value for true.
func isTrue(value gjson.Result) bool {
	switch value.Type {
	case gjson.String:
		return value.Str != ""
	case gjson.Number:
		return value.Num != 0
	}
	return value.Type == gjson.True || value.Type == gjson.JSON
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\n    ")
}

// lines returns text of several lines safe for a terminal.
func lines(text, prefix string) string {
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = prefix + printable.String(line)
	}
	return strings.Join(all, "\n")
}

// rest returns what fields are left: short ones as extras, others as details.
func (r *Record) rest(extras, details []string) (moreExtras, moreDetails []string) {
	const longest = 50 // characters of an extra
	for _, f := range r.fields {
		isText := f.value.Type == gjson.String
		value := f.value.Str
		if !isText {
			value = string(indented(f.value.Raw, "  "))
		}
		switch {
		case strings.Contains(value, "\n") || utf8.RuneCountInString(value) > longest:
			details = append(details, indent(f.key+": "+value))
		case isText && (value == "" || strings.Contains(value, " ")):
			extras = append(extras, f.key+"="+f.value.Raw)
		default:
			extras = append(extras, f.key+"="+value)
		}
	}
	return extras, details
}

// takeError takes an error whose stack is known.
func (r *Record) takeError() []string {
	err, _ := r.get("err")
	stack := err.Get("stack")
	if !stack.Exists() || !few(err) {
		return nil
	}
	r.take("err")
	r.addAll("err", err, "message", "name", "stack")
	return []string{indent(text(stack))}
}

// addAll adds the fields of an object as fields of the record, but for some.
func (r *Record) addAll(prefix string, object gjson.Result, except ...string) {
	object.ForEach(func(key, value gjson.Result) bool {
		for _, e := range except {
			if e == key.String() {
				return true
			}
		}
		r.set(prefix+"."+key.String(), value)
		return true
	})
}

// takeHTTP takes requests and responses, as bunyan's serializers make them.
func (r *Record) takeHTTP() (details []string) {
	for _, key := range []string{"req", "client_req"} {
		if req, _ := r.get(key); req.IsObject() && few(req) {
			r.take(key)
			details = append(details, indent(request(req)))
			r.addAll(key, req, "url", "method", "httpVersion", "headers", "body", "trailers")
		}
	}
	for _, key := range []string{"res", "client_res"} {
		if res, _ := r.get(key); res.IsObject() && few(res) {
			r.take(key)
			if shown := response(res); shown != "" {
				details = append(details, indent(shown))
			}
			r.addAll("res", res, "header", "headers", "statusCode", "body", "trailer")
		}
	}
	return details
}

func request(req gjson.Result) string {
	version := "1.1"
	if v := req.Get("httpVersion").String(); v != "" {
		version = v
	}
	s := fmt.Sprintf("%s %s HTTP/%s", undefined(req.Get("method")), undefined(req.Get("url")), version)
	if headers := headers(req.Get("headers")); headers != "" {
		s += "\n" + headers
	}
	return s + body(req.Get("body"))
}

// undefined returns a value as a template of JavaScript has it.
func undefined(value gjson.Result) string {
	if !value.Exists() {
		return "undefined"
	}
	return text(value)
}

func headers(value gjson.Result) string {
	if !value.IsObject() {
		return value.String()
	}
	var all []string
	value.ForEach(func(key, value gjson.Result) bool {
		all = append(all, key.String()+": "+text(value))
		return true
	})
	return strings.Join(all, "\n")
}

func body(value gjson.Result) string {
	switch {
	case value.IsObject() || value.IsArray():
		return "\n\n" + string(indented(value.Raw, "  "))
	case value.String() == "":
		return ""
	}
	return "\n\n" + text(value)
}

func response(res gjson.Result) string {
	head := res.Get("header")
	if !head.Exists() {
		head = res.Get("headers")
	}
	shown := strings.TrimRight(headers(head), " \r\n")
	if status := res.Get("statusCode"); status.Exists() && !strings.HasPrefix(shown, "HTTP/") {
		reason := http.StatusText(int(status.Int()))
		if reason == "" {
			reason = "undefined"
		}
		shown = fmt.Sprintf("HTTP/1.1 %s %s\n%s", text(status), reason, shown)
	}
	shown = strings.TrimRight(shown, " \r\n") + body(res.Get("body"))
	if trailer := res.Get("trailer"); trailer.String() != "" {
		shown += "\n" + text(trailer)
	}
	return shown
}
