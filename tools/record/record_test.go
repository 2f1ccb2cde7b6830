package record

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// samples are lines of several libraries, and some that are no records.
var samples = []string{
	`{"name":"app","hostname":"vm","pid":1,"level":30,"n":7,"msg":"hello","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{"name":"app","component":"db","hostname":"vm","pid":1,"level":20,"msg":"","time":"2026-11-24T12:56:20.394Z","v":0,"src":{"file":"a.js","line":7,"func":"f"}}`,
	`{"name":"app","hostname":"vm","pid":1,"level":60,"msg":"one\ntwo","time":"2026-11-24T12:56:20.394Z","v":0,"empty":"","spaced":"a b","long":"` + strings.Repeat("x", 51) + `","list":[1,2],"nothing":null,"yes":true,"deep":{"a":{"b":{}}}}`,
	`{"name":"app","hostname":"vm","pid":1,"level":50,"err":{"message":"bad","name":"Error","stack":"Error: bad\n    at f (a.js:1:1)","code":"EBAD"},"msg":"bad","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":35,"req_id":"12","req":{"method":"POST","url":"/a?b","headers":{"host":"x","accept":"*/*"},"remoteAddress":"::1","body":{"a":1}},"res":{"statusCode":404,"header":"HTTP/1.1 404 Not Found\r\nX: y\r\n\r\n"},"msg":"handled","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":40,"res":{"statusCode":200,"headers":{"a":"b"},"body":"text","extra":1},"msg":"r","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":10,"client_req":{"method":"GET","url":"/","address":"a"},"msg":"c","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{ "name":"app", "hostname":"v m\\" ","pid":1 ,"level":30,"msg":"spaced","time":"2026-11-24T12:56:20.394Z","v":0 }`,
	`{"name":"app","component":"","hostname":"","pid":1,"level":5,"req_id":"","msg":"falsy","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":100,"req_id":0,"msg":"no fraction","time":"2026-11-24T12:56:20Z","v":0}   `,
	`{"name":"app","hostname":"vm","pid":1,"level":30,"msg":"a tenth","time":"2026-11-24T12:56:20.6Z","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":30,"msg":"elsewhere","time":"2026-11-24T01:56:20.39456+02:00","v":0}`,
	`{"name":"app","hostname":"vm","pid":1,"level":30,"req":{"method":null,"url":"/","headers":{"cookie":["a",null,["b",1]],"none":null}},"res":{"statusCode":200,"headers":{"set-cookie":["a=1","b=2"]}},"msg":"lists","time":"2026-11-24T12:56:20.394Z","v":0}`,
	`not JSON`,
	`{"half":`,
	`{"not":"a record"}`,
	``,
}

// parse reads a line into a record of its own.
func parse(line string) (r Record, ok bool) {
	ok = r.Parse(line)
	return r, ok
}

// TestFormatsAreThoseOfBunyan compares with what npm's bunyan prints.
func TestFormatsAreThoseOfBunyan(t *testing.T) {
	node := nodetest.Node(t, nodetest.Versions[2])
	command := filepath.Join(nodetest.Loggers(t, node), "node_modules", "bunyan", "bin", "bunyan")
	for _, name := range []string{"long", "short", "simple", "json", "json-4", "json-0", "bunyan", "inspect"} {
		for _, color := range []bool{false, true} {
			flag := "--no-color"
			if color {
				flag = "--color"
			}
			if name == "inspect" && !color {
				continue // bunyan's has colors always
			}
			lines := slices.Clone(samples)
			if color { // bunyan's color goes over the lines of a message, ours is of none of them
				lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(line, `one\ntwo`) })
			}
			cmd := exec.CommandContext(t.Context(), node, command, flag, "-o", name)
			cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
			want, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			format, err := NewFormat(name, color)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, line := range lines {
				if r, ok := parse(line); ok {
					got.WriteString(format.Text(r, time.Time{}))
				} else {
					got.WriteString(line + "\n")
				}
			}
			compare(t, fmt.Sprintf("%s, color %v", name, color), got.String(), strings.TrimSuffix(string(want), "\x1b[0m"))
		}
	}
}

// compare compares line by line.
func compare(t *testing.T, name, got, want string) {
	t.Helper()
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		var g, w string
		if i < len(gotLines) {
			g = gotLines[i]
		}
		if i < len(wantLines) {
			w = wantLines[i]
		}
		if g != w {
			t.Errorf("%s: line %d = %q, bunyan's is %q", name, i+1, g, w)
		}
	}
}

func TestRecordsOfOtherLibraries(t *testing.T) {
	format, err := NewFormat("long", false)
	if err != nil {
		t.Fatal(err)
	}
	seen := time.Date(2026, 11, 24, 13, 0, 0, 5e6, time.UTC)
	for line, want := range map[string]string{
		`{"level":30,"time":1795526880803,"pid":7,"hostname":"vm","name":"api","n":8,"msg":"of pino"}`: "[2026-11-24T13:28:00.803Z]  INFO: api/7 on vm: of pino (n=8)\n",
		`{"level":30,"time":1795526880803,"pid":7,"hostname":"vm","msg":"of pino"}`:                    "[2026-11-24T13:28:00.803Z]  INFO: 7 on vm: of pino\n",
		`{"level":"error","message":"of winston","n":8}`:                                               "[2026-11-24T13:00:00.005Z] ERROR: of winston (n=8)\n",
		`{"level":"warning","message":"of syslog","timestamp":"2026-11-24"}`:                           "[2026-11-24]  WARN: of syslog\n",
		`{"level":30,"time":1e300,"msg":"\u001b[2J\u202e"}`:                                            "[2026-11-24T13:00:00.005Z]  INFO: \\x1b[2J\\u202e\n",
		`{"level":30,"level":50,"msg":"the last counts"}`:                                              "[2026-11-24T13:00:00.005Z] ERROR: the last counts\n",
		`{"level":30,"msg":"a\nb\u0007","c\u0007":"d\ne"}`:                                             "[2026-11-24T13:00:00.005Z]  INFO:\n    a\n    b\\x07\n    --\n    c\\x07: d\n    e\n",
	} {
		r, ok := parse(line)
		if got := format.Text(r, seen); !ok || got != want {
			t.Errorf("%s = %q, %v, want %q", line, got, ok, want)
		}
	}
	many := strings.Builder{}
	for i := range maxFields {
		fmt.Fprintf(&many, `"f%d":1,`, i)
	}
	if r, ok := parse(`{"level":30,"msg":"x","req":{` + strings.TrimSuffix(many.String(), ",") + `,"one":"more"}}`); !ok || !strings.Contains(format.Text(r, seen), `"one": "more"`) {
		t.Errorf("a request of many fields is not shown")
	}
	deep := func(n int) string {
		return `{"level":30,"msg":"x \" {[","deep":` + strings.Repeat("[", n) + strings.Repeat("]", n) + "}"
	}
	if _, ok := parse(deep(maxDepth - 1)); !ok {
		t.Errorf("%d levels are no record", maxDepth)
	}
	for _, line := range []string{"{" + many.String() + `"level":30,"msg":"x"}`, deep(maxDepth), deep(1 << 19), strings.Repeat(`{"level":`, 1<<17), `{"level":30}`, `{"level":"loud","msg":"x"}`, `{"level":null,"msg":"x"}`, `{"level":30.5,"msg":"x"}`, `{"level":1e300,"msg":"x"}`, `[{"level":30,"msg":"x"}]`, `{"msg":"x"}`} {
		if r, ok := parse(line); ok {
			t.Errorf("%s = %+v, want no record", line, r)
		}
	}
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]Level{"trace": Trace, "INFO": Info, "fatal": Fatal, "35": 35, "silly": Trace, "crit": Fatal} {
		if got, ok := ParseLevel(text); !ok || got != want {
			t.Errorf("ParseLevel(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "0", "-1", "loud", "70000"} {
		if got, ok := ParseLevel(text); ok {
			t.Errorf("ParseLevel(%q) = %v, want none", text, got)
		}
	}
	if Level(35).String() != "LVL35" || Warn.String() != "WARN" || Level(0).String() != "LVL0" {
		t.Errorf("names = %v, %v, %v", Level(35), Warn, Level(0))
	}
}

func TestFormatsThatAreNone(t *testing.T) {
	for _, name := range []string{"", "yaml", "json-", "json-11", "json--1", "4"} {
		if _, err := NewFormat(name, false); err == nil {
			t.Errorf("NewFormat(%q) is a format", name)
		}
	}
}

func TestConditions(t *testing.T) {
	record := func(line string) Record {
		r, ok := parse(line)
		if !ok {
			t.Fatalf("%s is no record", line)
		}
		return r
	}
	r := record(`{"level":40,"msg":"hello","req":{"method":"POST"},"list":[1,2]}`)
	for text, want := range map[string]bool{
		`this.level > INFO`: true, `this.level === FATAL`: false, `this.req && this.req.method == "POST"`: true,
		`/^hel/.test(this.msg)`: true, `this.list.indexOf(2) !== -1`: true, `this.nothing`: false,
		`var l = this.level; return l == WARN`: true, `this.level; // all`: false,
	} {
		c, err := NewCondition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := c.Holds(r); got != want || c.Failed != 0 {
			t.Errorf("%s = %v, %v, want %v", text, got, c.First, want)
		}
	}
	for text, want := range map[string]string{
		"this.level >": "Line 1:13 Unexpected end of input", "return this.level >": "Unexpected", "1\n+)": "Line 2:2 Unexpected token )",
	} {
		if _, err := NewCondition(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// TestConditionsAreBounded gives conditions that fail, take too long or call themselves.
func TestConditionsAreBounded(t *testing.T) {
	good, _ := parse(`{"level":30,"msg":"x"}`)
	for _, text := range []string{
		`this.nothing.length`, `throw new Error("no")`, `while (true) {}`, `(function f() { return f(); })()`, `require("fs")`, `process.exit()`,
	} {
		c, err := NewCondition(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		first := c.Holds(good)
		if second := c.Holds(good); first || second || c.Failed != 2 || c.First == nil {
			t.Errorf("%s: failed %d times, %v, want twice", text, c.Failed, c.First)
		}
	}
	c, err := NewCondition(`this.stop ? (function () { for (;;); })() : true`)
	if err != nil {
		t.Fatal(err)
	}
	slow, _ := parse(`{"level":30,"msg":"x","stop":1}`)
	if c.Holds(slow) || !c.Holds(good) || c.Failed != 1 {
		t.Errorf("a condition that took too long once: failed %d times, %v, want once", c.Failed, c.First)
	}
}

// FuzzParse reads damaged records in all formats.
func FuzzParse(f *testing.F) {
	for _, line := range samples {
		f.Add(line)
	}
	f.Add(`{"level":30,"msg":{"deep":[[[[]]]]},"err":{"stack":7},"req":{"headers":"x"},"src":[],"time":-1}`)
	f.Add("{\"level\":30,\"msg\":\"\x1b\xff\\ud800\"}")
	f.Fuzz(func(t *testing.T, line string) {
		r, ok := parse(line)
		if !ok {
			return
		}
		for _, name := range []string{"long", "short", "simple", "json", "bunyan", "inspect"} {
			format, err := NewFormat(name, false)
			if err != nil {
				t.Fatal(err)
			}
			text := format.Text(r, time.Time{})
			if !strings.HasSuffix(text, "\n") || strings.ContainsAny(text, "\x1b\x00\x07\r") {
				t.Errorf("%s of %q = %q", name, line, text)
			}
		}
	})
}
