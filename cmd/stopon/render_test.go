package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"ustack/cmd/internal/cli"
	"ustack/symbolize"
	"ustack/tools/core"
	"ustack/tools/event"
	"ustack/tools/printable"
	"ustack/tools/stopon"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is when all events of these tests happened.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 123456789, time.UTC)

// sample is a hit by hand, of a system call that failed.
func sample() *stopon.Hit {
	return &stopon.Hit{
		Number: 3, Time: noon, PID: 4242, TID: 4242, Comm: "node", Thread: "node",
		Command: []string{"node", "app.js", strings.Repeat("x", 100)}, Directory: "/app",
		Trigger: "syscall", Event: "close(fd=21) = -1 EBADF (bad file descriptor)", Syscall: "close",
		Arguments: []event.Argument{{Name: "fd", Value: 21, Text: "21"}}, Result: -9, Errno: unix.EBADF,
		Frames: []symbolize.Frame{
			{Name: "syscall", Module: "/lib/libc.so.6", Offset: 25},
			{Name: "node::fs::Close", Module: "/usr/bin/node"},
			{Kind: symbolize.Typed, Name: "<< api callback exit >>", Module: "/usr/bin/node"},
			{Kind: symbolize.JS, Tier: symbolize.Maglev, Name: "guilty", File: "/app/pool.js", Line: 12, Column: 3},
			{Kind: symbolize.JS, File: "node:events", Line: 466, Column: 44},
			{Module: "/lib/libc.so.6", Offset: 0x2724a},
			{Name: symbolize.Truncated},
		},
	}
}

// acted is a hit on a thread of its own, with all that is seldom.
func acted() *stopon.Hit {
	h := sample()
	h.TID, h.Thread, h.Raised, h.Duration = 4250, "libuv-worker", unix.SIGSTOP, 1500*time.Microsecond
	h.Syscall, h.Event = "write", "write(fd=21</app/log>, buf=0x1000, count=200) = 200"
	h.Result, h.Errno = 200, 0
	h.Written = strings.Repeat("before ", 10) + "out of memory" + strings.Repeat(" after", 10)
	h.Core = &core.Result{Path: "/var/cores/core.1", Disk: 7 << 20, Resident: 6 << 20, Threads: 7, Stopped: 16 * time.Millisecond}
	h.Errors = []error{errors.New("run \"false\": exit status 1")}
	return h
}

// hostile is a hit of a process that wants to rule the terminal.
func hostile() *stopon.Hit {
	const escape = "\x1b]0;mine\x07\x9b31m\u009b31m\u202e\U000e0001\r\n"
	h := sample()
	h.TID, h.Comm, h.Thread, h.Written = 4250, escape, escape, escape
	h.Command, h.Directory, h.Class, h.Message = []string{"node", escape}, "/tmp/"+escape, escape, escape
	h.Address, h.Socket = escape, &event.Socket{Local: escape, Peer: escape}
	h.Event = fmt.Sprintf("openat(filename=%q</tmp/%s>) = 3", escape, escape)
	h.Frames = []symbolize.Frame{
		{Name: escape, Module: "/tmp/" + escape},
		{Module: "/tmp/" + escape, Offset: 1},
		{Kind: symbolize.JS, Name: escape, File: "/tmp/" + escape, Line: 1, Column: 1},
	}
	return h
}

func render(t *testing.T, v view, h *stopon.Hit) string {
	t.Helper()
	var out bytes.Buffer
	if err := v.write(&out, h); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func renderJSON(t *testing.T, h *stopon.Hit) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeJSON(&out, h); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestReportsAreAsInTheGoldenFiles(t *testing.T) {
	for _, tt := range []struct{ file, got string }{
		{"report", render(t, view{}, sample())},
		{"internal", render(t, view{internal: true}, sample())},
		{"tiers", render(t, view{tiers: true}, sample())},
		{"color", render(t, view{color: true}, sample())},
		{"written", render(t, view{written: "out of memory"}, acted())},
		{"hostile", render(t, view{}, hostile())},
		{"json", renderJSON(t, sample())},
		{"acted.json", renderJSON(t, acted())},
		{"hostile.json", renderJSON(t, hostile())},
	} {
		t.Run(tt.file, func(t *testing.T) {
			file := filepath.Join("testdata", "golden", tt.file)
			if *update {
				if err := os.WriteFile(file, []byte(tt.got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), tt.got); diff != "" {
				t.Errorf("%s (-want +got, -update rewrites it):\n%s", file, diff)
			}
		})
	}
}

// obeyed are the characters in text that a terminal would obey.
func obeyed(text string) (found []rune) {
	for _, r := range text {
		if r < ' ' && r != '\n' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e {
			found = append(found, r)
		}
	}
	return found
}

func TestNothingOfAProcessReachesTheTerminalUnescaped(t *testing.T) {
	h := hostile()
	for _, text := range []string{
		render(t, view{internal: true}, h), printable.String(h.Comm), around(h.Written, "mine"),
		renderJSON(t, h),
	} {
		if got := obeyed(text); len(got) > 0 {
			t.Errorf("characters that a terminal obeys = %q in %q, want none", got, text)
		}
	}
}

func TestJSONHasHostileTextWhole(t *testing.T) {
	h := hostile()
	var got hit
	if err := json.Unmarshal([]byte(renderJSON(t, h)), &got); err != nil {
		t.Fatal(err)
	}
	if want := strings.ToValidUTF8(h.Thread, "\ufffd"); got.Thread != want {
		t.Errorf("thread = %q, want %q", got.Thread, want)
	}
}

func TestAround(t *testing.T) {
	for _, tt := range []struct{ text, sought, want string }{
		{"needle", "needle", `"needle"`},
		{strings.Repeat("a", 24) + "needle" + strings.Repeat("b", 24), "needle", `"aaaaaaaaaaaaaaaaaaaaaaaaneedlebbbbbbbbbbbbbbbbbbbbbbbb"`},
		{strings.Repeat("a", 25) + "needle" + strings.Repeat("b", 25), "needle", `…"aaaaaaaaaaaaaaaaaaaaaaaaneedlebbbbbbbbbbbbbbbbbbbbbbbb"…`},
		{"it is not there", "needle", `"it is not there"`},
		{"\x1b", "", `"\x1b"`},
	} {
		if got := around(tt.text, tt.sought); got != tt.want {
			t.Errorf("around(%q, %q) = %s, want %s", tt.text, tt.sought, got, tt.want)
		}
	}
}

func TestClassMayBeAWordOfItsOwn(t *testing.T) {
	for _, tt := range [][2]string{
		{"--throw TypeError -p 1", "--throw=TypeError -p 1"},
		{"--throw -p 1", "--throw -p 1"},
		{"-p 1 --throw", "-p 1 --throw"},
		{"--throw=A --uncaught", "--throw=A --uncaught"},
		{"--uncaught -- node --throw x", "--uncaught -- node --throw x"},
	} {
		if got := strings.Join(joinClass(strings.Fields(tt[0])), " "); got != tt[1] {
			t.Errorf("joinClass(%s) = %s, want %s", tt[0], got, tt[1])
		}
	}
}

func TestParseSignal(t *testing.T) {
	for text, want := range map[string]unix.Signal{
		"SIGTERM": unix.SIGTERM, "term": unix.SIGTERM, "sigTerm": unix.SIGTERM, "15": unix.SIGTERM, "1": unix.SIGHUP, "64": 64,
	} {
		if got, ok := parseSignal(text); !ok || got != want {
			t.Errorf("parseSignal(%q) = %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "SIG", "SIGNONE", "0", "65", "-9"} {
		if got, ok := parseSignal(text); ok {
			t.Errorf("parseSignal(%q) = %v, want none", text, got)
		}
	}
	for _, name := range signalNames() {
		if s, ok := parseSignal(name); !ok || signalName(s) != name {
			t.Errorf("parseSignal(%q) = %v, %v, want itself", name, s, ok)
		}
	}
	if got, want := signalName(36), "signal 36"; got != want {
		t.Errorf("name = %q, want %q", got, want)
	}
}

func TestCompressedPattern(t *testing.T) {
	dir := t.TempDir()
	for pattern, want := range map[string]string{
		"":          core.DefaultPattern + ".zst",
		"app.{pid}": "app.{pid}.zst",
		dir:         dir + "/" + core.DefaultPattern + ".zst",
		"none/":     "none/" + core.DefaultPattern + ".zst",
	} {
		if got := compressed(pattern); got != want {
			t.Errorf("compressed(%q) = %q, want %q", pattern, got, want)
		}
	}
}

func TestWhatWasNotActedOnIsSaid(t *testing.T) {
	for _, tt := range []struct {
		result stopon.Result
		want   string
	}{
		{stopon.Result{}, "stopon: nothing matched\n"},
		{stopon.Result{Matches: 2}, "stopon: matches: 2, fewer than --nth 5\n"},
		{stopon.Result{Matches: 7}, "stopon: matches: 7, none acted on\n"},
		{stopon.Result{Matches: 7, Acted: 3}, ""},
		{stopon.Result{Matches: 7, Acted: 1, Limited: 6}, "stopon: matches that came too soon after others: 6\n"},
		{
			stopon.Result{Matches: 1, Acted: 1, Lost: 2, Unreported: 5, Unnamed: 6, Missed: 3, Unsearched: 4, Unclassed: 7, Untallied: 8, Unnumbered: 9, Unended: 10},
			"stopon: matches lost, so nothing was done: they came faster than they were read: 2\n" +
				"stopon: matches not reported before the end: 5\n" +
				"stopon: functions or scripts whose names were lost: 6\n" +
				"stopon: stalls that ended before their stack was taken: 3\n" +
				"stopon: writes that were not searched to their end: 4\n" +
				"stopon: system calls whose end was not seen: threads were preempted in all the programs that see them: 10\n" +
				"stopon: exceptions whose class could not be read: 7\n" +
				"stopon: matches counted without their trigger: 8\n" +
				"stopon: static probes whose arguments are not known: there are too many kinds of them: 9\n",
		},
	} {
		var said bytes.Buffer
		cmd := &cobra.Command{Use: "stopon"}
		cmd.SetErr(&said)
		f := flags{stopon: stopon.Options{Nth: 5}}
		f.reportResult(cli.NewMessages(cmd), &tt.result)
		if got := said.String(); got != tt.want {
			t.Errorf("of %+v is said %q, want %q", tt.result, got, tt.want)
		}
	}
}
