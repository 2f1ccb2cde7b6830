// Package record reads log records, objects in JSON of one line each, as bunyan, pino and winston
// write them, filters them and formats them as bunyan's command does.
package record

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// A Level says how serious a record is, by bunyan's and pino's numbers.
type Level int

// The levels that have names.
const (
	Trace Level = 10 * (iota + 1)
	Debug
	Info
	Warn
	Error
	Fatal
)

// names are the levels' names, lowest first.
var names = []string{"trace", "debug", "info", "warn", "error", "fatal"}

// others are names that winston has for levels: npm's and syslog's.
var others = map[string]Level{
	"silly": Trace, "verbose": Debug, "http": Info, "notice": Info, "warning": Warn,
	"crit": Fatal, "critical": Fatal, "alert": Fatal, "emerg": Fatal,
}

// Names returns the names of levels, lowest first.
func Names() []string { return names }

// ParseLevel reads a level's name, of any library's, or its number.
func ParseLevel(text string) (Level, bool) {
	if n, err := strconv.ParseUint(text, 10, 16); err == nil {
		return Level(n), n > 0
	}
	return named(text)
}

func named(text string) (Level, bool) {
	text = strings.ToLower(text)
	for i, name := range names {
		if name == text {
			return Trace + Level(10*i), true
		}
	}
	l, ok := others[text]
	return l, ok
}

// String returns the level's name, or LVL35 for the number 35.
func (l Level) String() string {
	if i := int(l)/10 - 1; l%10 == 0 && i >= 0 && i < len(names) {
		return strings.ToUpper(names[i])
	}
	return fmt.Sprintf("LVL%d", int(l))
}

// A Record is a log record.
type Record struct {
	Line    string // as it was written
	Level   Level
	Message string
	Bunyan  bool // it has all that bunyan's records have

	fields []field // in their order
}

type field struct {
	key   string
	value gjson.Result
}

// Keys that libraries have for the same thing, bunyan's and pino's first.
var (
	messageKeys = []string{"msg", "message"}
	timeKeys    = []string{"time", "timestamp", "@timestamp"}
)

// Parse makes r, which may be used again, the record of a line. It returns false if that is none: no
// object with a level and a message or a time.
func (r *Record) Parse(line string) (ok bool) {
	*r = Record{fields: r.fields[:0]}
	if !strings.HasPrefix(line, "{") || depth(line) > maxDepth || !gjson.Valid(line) {
		return false
	}
	r.Line = line
	gjson.Parse(line).ForEach(func(key, value gjson.Result) bool {
		r.set(key.String(), value)
		return len(r.fields) <= maxFields
	})
	if len(r.fields) > maxFields {
		return false
	}
	level, _ := r.get("level")
	switch level.Type {
	case gjson.Number:
		if r.Level = Level(level.Num); float64(r.Level) != level.Num {
			return false // a fraction, or too large
		}
	case gjson.String:
		if r.Level, ok = named(level.Str); !ok {
			return false
		}
	default:
		return false
	}
	message, hasMessage := r.first(messageKeys)
	_, hasTime := r.first(timeKeys)
	r.Message = message.String()
	r.Bunyan = true
	for _, key := range []string{"v", "name", "hostname", "pid", "time", "msg"} {
		value, has := r.get(key)
		r.Bunyan = r.Bunyan && has && value.Type != gjson.Null
	}
	return hasMessage || hasTime
}

// Bounds of a record, for the time that it takes to show one.
const (
	maxDepth  = 256 // of objects in one another
	maxFields = 1000
)

// depth returns how deep objects and arrays are in one another.
func depth(line string) (deepest int) {
	now, inText := 0, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case inText:
		case c == '{' || c == '[':
			now++
			deepest = max(deepest, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return deepest
}

// few reports whether an object has no more fields than a record may have.
func few(object gjson.Result) bool {
	n := 0
	object.ForEach(func(_, _ gjson.Result) bool {
		n++
		return n <= maxFields
	})
	return n <= maxFields
}

// set gives a field a value: of several of a name, the last counts.
func (r *Record) set(key string, value gjson.Result) {
	for i := range r.fields {
		if r.fields[i].key == key {
			r.fields[i].value = value
			return
		}
	}
	r.fields = append(r.fields, field{key, value})
}

func (r *Record) get(key string) (value gjson.Result, ok bool) {
	for _, f := range r.fields {
		if f.key == key {
			return f.value, true
		}
	}
	return gjson.Result{}, false
}

// take removes a field, and returns the value that it had.
func (r *Record) take(key string) (value gjson.Result) {
	for i, f := range r.fields {
		if f.key == key {
			r.fields = append(r.fields[:i:i], r.fields[i+1:]...)
			return f.value
		}
	}
	return gjson.Result{}
}

// first returns the first of the keys that the record has.
func (r *Record) first(keys []string) (value gjson.Result, ok bool) {
	for _, key := range keys {
		if value, ok = r.get(key); ok {
			return value, true
		}
	}
	return gjson.Result{}, false
}

// takeFirst is take of the first of the keys that the record has.
func (r *Record) takeFirst(keys []string) (value gjson.Result) {
	for _, key := range keys {
		if _, ok := r.get(key); ok {
			return r.take(key)
		}
	}
	return gjson.Result{}
}

// timeForm is how bunyan writes times.
const timeForm = "2006-01-02T15:04:05.000Z07:00"

// maxTime bounds times in ms: the year 9999.
const maxTime = 253402300799999

// timeText returns a record's time as bunyan has it: pino's is a number of milliseconds.
func timeText(value gjson.Result, seen time.Time) string {
	switch {
	case value.Type == gjson.String:
		return value.Str
	case value.Type == gjson.Number && value.Num >= 0 && value.Num <= maxTime:
		return time.UnixMilli(int64(value.Num)).UTC().Format(timeForm)
	}
	return seen.UTC().Format(timeForm)
}
