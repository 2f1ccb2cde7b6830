package jsprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// hotProgram has a function that runs in one of its lines, one that calls it in one of its
// own, and one that has native code work for it.
const hotProgram = `'use strict';
const words = Array.from({ length: 20000 }, (_, i) => 'w' + i);
function leaf(rounds) {
  let sum = rounds;
  for (let i = 0; i < rounds; i++) sum = (sum * 31 + i) | 0; // LEAF
  return sum;
}
function caller(rounds) {
  let sum = 0;
  sum += leaf(rounds); // CALLER
  return sum;
}
function native() {
  const indent = 0;
  const text = JSON.stringify(words, null, indent); // NATIVE
  return text.length;
}
function turn() {
  caller(300000);
  native();
  setImmediate(turn);
}
turn();
require('fs').writeSync(1, 'ready\n');
`

// hotLines are the lines in which each function is, and the column of the listing that
// says so.
var hotLines = map[string]struct{ mark, column string }{
	"leaf": {"// LEAF", "self_native"}, "caller": {"// CALLER", "total"}, "native": {"// NATIVE", "self_native"},
}

// TestHotLinesAreAnnotated profiles a program whose hot lines are known, and inlined
// into others where V8 does so: nearly all samples are in those lines, with their text.
func TestHotLinesAreAnnotated(t *testing.T) {
	nodetest.Root(t)
	script := filepath.Join(t.TempDir(), "hot.js")
	if err := os.WriteFile(script, []byte(hotProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: script})
			p := profileUntil(t, Options{
				Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 1997, Duration: time.Minute,
				Sources: func(f symbolize.Frame) bool { return f.File == script },
			}, 1000)
			for name, hot := range hotLines {
				checkHotLine(t, p, name, hot.mark, hot.column)
			}
		})
	}
}

// checkHotLine checks that most samples of a function are in the line with a mark.
func checkHotLine(t *testing.T, p *profile.Profile, name, mark, column string) {
	t.Helper()
	pattern, err := profile.ParsePattern("hot.js:" + name + "$")
	if err != nil {
		t.Fatal(err)
	}
	format, err := profile.Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	if format, err = format.Annotated(pattern); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := format.Write(&out, p, profile.Options{Context: -1}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Functions []struct {
			Lines    []map[string]any
			LastLine int `json:"last_line"`
		}
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Functions) != 1 {
		t.Fatalf("JSON = %s, error %v, want one function", &out, err)
	}
	var all, hot float64
	var text []string
	for _, line := range got.Functions[0].Lines {
		value, _ := line[column].(float64)
		words, _ := line["text"].(string)
		if line["line"] != 0.0 {
			text = append(text, words)
		}
		all += value
		if strings.Contains(words, mark) {
			hot += value
		}
	}
	const most = 95 // percent
	if all < 100 || 100*hot < most*all {
		t.Errorf("%s: %v of %v samples are in its hot line: %s", name, hot, all, &out)
	}
	if source := strings.Join(text, "\n"); !strings.HasPrefix(source, "function "+name) || !strings.HasSuffix(source, "\n}") || !strings.Contains(hotProgram, source) {
		t.Errorf("%s: source = %q, last line %d", name, source, got.Functions[0].LastLine)
	}
}
