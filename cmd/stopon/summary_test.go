package main

import (
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/tools/stopon"
)

func TestSummaryIsSafeForATerminal(t *testing.T) {
	f := flags{summary: true}
	f.seen.Add(&stopon.Hit{
		Trigger: "throw", Class: "Evil\x1b[2JError",
		Frames: []symbolize.Frame{{Kind: symbolize.JS, Name: "a\x1b[2J", File: "/a\nb.js"}, {Kind: symbolize.Typed, Name: "<< entry >>"}},
	})
	result := stopon.Result{Acted: 1, Triggers: []stopon.Tally{{Trigger: "throw", Matches: 3, Limited: 2}}}
	for _, f.json = range []bool{false, true} {
		var out strings.Builder
		if err := f.summarize(&out, &result); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.ContainsRune(text, 0x1b) || !strings.Contains(text, "Evil") {
			t.Errorf("summary = %q, want the class in it and no escape sequence", text)
		}
		if !f.json && (strings.Contains(text, "entry") || !strings.Contains(text, "         3          2          0  throw\n")) {
			t.Errorf("summary = %q, want the trigger's counts and no typed frame", text)
		}
	}
}

func TestRounded(t *testing.T) {
	for d, want := range map[time.Duration]string{
		7: "7ns", 12_345: "12.345µs", 123_456_789: "123.46ms", 3_723_456_789_000: "1h2m3.5s",
	} {
		if got := rounded(d).String(); got != want {
			t.Errorf("rounded(%d) = %s, want %s", d, got, want)
		}
	}
}
