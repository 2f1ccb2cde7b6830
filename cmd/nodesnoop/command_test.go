package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/tools/check"
	"ustack/tools/nodesnoop"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "nodesnoop.1")
}

func TestPathsMatchGlobs(t *testing.T) {
	for _, test := range []struct {
		glob, path string
		want       bool
	}{
		{"/users/*", "/users/1", true},
		{"/users/*", "/users/1/x", false},
		{"/users/**", "/users/1/x", true},
		{"/users/**", "/users", false},
		{"/users/**", "/others/1", false},
		{"/*/x/**", "/a/x/y/z", true},
		{"/**", "/", true},
		{"/", "/", true},
		{"/[ab]?", "/ax", true},
	} {
		if got := matches(test.glob, test.path); got != test.want {
			t.Errorf("%s matches %s = %t, want %t", test.glob, test.path, got, test.want)
		}
	}
}

func TestStatusesAreParsed(t *testing.T) {
	for list, want := range map[string][]nodesnoop.StatusRange{
		"": nil, "404": {{Low: 404, High: 404}}, "5xx, 400-403": {{Low: 500, High: 599}, {Low: 400, High: 403}}, "1XX": {{Low: 100, High: 199}},
	} {
		if got, err := parseStatuses(list); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v, want %v", list, got, err, want)
		}
	}
	for _, list := range []string{"0xx", "10xx", "-1", "99", "1000", "403-400", "4x", ",", "200,200,200,200,200,200,200,200,200"} {
		if got, err := parseStatuses(list); err == nil {
			t.Errorf("%q: %v, want an error", list, got)
		}
	}
}

// TestColumnsOfEachKind has an event of each kind in columns that not all of them have.
func TestColumnsOfEachKind(t *testing.T) {
	chosen, err := parseColumns("probe, METHOD,STATUS,TTFB,WAIT,PATH,ROUTE,RPORT,WHICH", true)
	if err != nil {
		t.Fatal(err)
	}
	peer := nodesnoop.Peer{Addr: netip.MustParseAddr("::1"), Port: 80}
	for _, test := range []struct {
		event nodesnoop.Event
		want  string
	}{
		{
			nodesnoop.Event{Kind: nodesnoop.Server, Method: "GET", URL: "/a/1?b", URLBytes: 6, Status: 200, TTFB: time.Millisecond, Peer: peer},
			"server GET 200 1.000ms - /a/1 /a/:num 80 done",
		},
		{
			nodesnoop.Event{Kind: nodesnoop.Client, Method: "PUT", URL: "/a", URLBytes: 3000, Outcome: nodesnoop.Aborted, EndLost: true},
			"client PUT - - - /a... /a... - aborted?",
		},
		{nodesnoop.Event{Kind: nodesnoop.GC, Collection: "scavenge"}, "gc - - - - - - - scavenge"},
		{nodesnoop.Event{Kind: nodesnoop.LoopRun}, "loop - - - - - - - -"},
		{
			nodesnoop.Event{Kind: nodesnoop.IO, Method: "fs.open", URL: "/a?b/1", URLBytes: 6, Wait: time.Microsecond, Run: 1, Failure: "ENOENT"},
			"io fs.open - - 0.001ms /a?b/1 - - ENOENT",
		},
		{nodesnoop.Event{Kind: nodesnoop.IO, Method: "connect", URL: "[::1]:80", URLBytes: 8, Peer: peer}, "io connect - - - [::1]:80 - 80 done"},
	} {
		var got []string
		for _, c := range chosen {
			got = append(got, string(c.append(nil, new(rows), &test.event)))
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%v: %q, want %q", test.event.Kind, got, test.want)
		}
	}
}

// TestLinesAreSafe has an event of which everything that others choose is hostile.
func TestLinesAreSafe(t *testing.T) {
	const bad = "\x1b]0;x\a\u202e\n\xff"
	e := nodesnoop.Event{
		Method: bad, URL: "/" + bad, URLBytes: 5000, Host: bad, Status: 200,
		Peer: nodesnoop.Peer{Path: bad, Addr: netip.Addr{}},
	}
	all, err := parseColumns(strings.Join(names(), ","), false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r := rows{columns: all, start: time.Now()}
	if err := r.print(&out, &e); err != nil {
		t.Fatal(err)
	}
	if err := printJSON(&out, &e); err != nil {
		t.Fatal(err)
	}
	o := nodesnoop.Event{Kind: nodesnoop.IO, Method: bad, URL: bad, URLBytes: 300, Failure: bad, Peer: e.Peer, Run: 1}
	if err := errors.Join(r.print(&out, &o), printJSON(&out, &o)); err != nil {
		t.Fatal(err)
	}
	s := summary{}
	s.Add(&e)
	s.Add(&o)
	screen := top{rows: rows{columns: all}}
	for _, err := range []error{screen.event(nil, &e), screen.report(&out, nil, time.Now()), s.end(&out)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range out.String() {
		if c < ' ' && c != '\n' || c == 0x202e || c == 0xfffd {
			t.Errorf("output has %q", c)
		}
	}
	if !strings.Contains(out.String(), "...") {
		t.Error("a URL that is cut is not marked")
	}
}

// TestScreensFitTheirTerminal has more groups and requests than there is room for.
func TestScreensFitTheirTerminal(t *testing.T) {
	columns, err := parseColumns(usual, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range [][2]int{{24, 80}, {50, 200}, {10, 111}, {5, 20}, {2, 200}, {1, 1}} {
		screen := top{rows: rows{columns: columns}, size: func() (int, int) { return size[0], size[1] }}
		screen.begin()
		for i := range 30 {
			e := nodesnoop.Event{Method: "GET", URL: strings.Repeat("/long", i), Status: 200, Latency: time.Duration(i) * time.Millisecond}
			if err := screen.event(nil, &e); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := screen.report(&out, []nodesnoop.Loop{{PID: 1}}, time.Now()); err != nil {
			t.Fatal(err)
		}
		text := strings.TrimPrefix(out.String(), clearScreen)
		if n := strings.Count(text, "\n"); n >= size[0] && n > 1 {
			t.Errorf("%v: %d lines:\n%s", size, n, text)
		}
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > size[1] {
				t.Errorf("%v: line of %d columns: %s", size, n, line)
			}
		}
		if hasSlow := strings.Contains(text, "Slowest:"); hasSlow != (size[0] > 20) {
			t.Errorf("%v: has the slowest requests: %v", size, hasSlow)
		}
		shown := out.Len()
		if err := screen.event(nil, &nodesnoop.Event{}); err != nil {
			t.Fatal(err)
		}
		if err := screen.end(&out); err != nil || out.Len() != shown {
			t.Errorf("%v: the end = %v, and clears the last screen", size, err)
		}
	}
}

// TestLastIntervalIsShown has a run end before its first screen.
func TestLastIntervalIsShown(t *testing.T) {
	columns, err := parseColumns(usual, false)
	if err != nil {
		t.Fatal(err)
	}
	screen := top{rows: rows{columns: columns}}
	var out bytes.Buffer
	for _, err := range []error{screen.end(&out), screen.event(nil, &nodesnoop.Event{URL: "/none"})} {
		if err != nil || out.Len() > 0 {
			t.Fatalf("before it begins: %v, %q", err, out.String())
		}
	}
	screen.begin()
	if err := errors.Join(screen.event(nil, &nodesnoop.Event{URL: "/one"}), screen.end(&out)); err != nil || !strings.Contains(out.String(), "/one") || strings.Contains(out.String(), "GC") {
		t.Errorf("the last screen = %v, %q, want /one, and no garbage collections, which are not watched", err, out.String())
	}
}

// serving starts a server that answers to whoever asks, and asks itself all the time.
func serving(t *testing.T) *nodetest.Target {
	t.Helper()
	return nodetest.Start(t, clitest.Node(t, programs...), nodetest.Options{Script: "echoes.js"})
}

// echoed returns when the server has answered fifty more requests.
func echoed(target *nodetest.Target) {
	target.Signal(syscall.SIGUSR2)
	target.Line()
}

func TestInterruptEndsWhatWasSeen(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		target := serving(t)
		p := clitest.Start(t, "nodesnoop", "-p", strconv.Itoa(target.PID), "--summary", "--table")
		p.Line("^Watching ")
		echoed(target)
		if got := p.End(sig); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", sig, got.ExitStatus())
		}
		if want := "server GET /echo "; !strings.Contains(p.Stdout(), want) {
			t.Errorf("%v: stdout = %q, want %q in it", sig, p.Stdout(), want)
		}
	}
}

func TestKillLeavesKernelAndTargetAsTheyWere(t *testing.T) {
	target := serving(t)
	p := clitest.Start(t, "nodesnoop", "-p", strconv.Itoa(target.PID))
	p.Line("^Watching ")
	if got := p.End(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
		t.Errorf("end = %v, want SIGKILL", got)
	}
	echoed(target)
	out, err := exec.Command("nodesnoop", "-p", strconv.Itoa(target.PID), "-n", "5").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("/echo")) {
		t.Errorf("nodesnoop again: %v\n%s", err, out)
	}
}

// TestProcessesAreSelected by their control group, their container, and the V8 in them. A
// process that is not selected is not shown.
func TestProcessesAreSelected(t *testing.T) {
	target, other := serving(t), serving(t)
	selections := [][]string{
		{"--cgroup", nodetest.Cgroup(t, target.PID)},
		{"--container", nodetest.Contain(t, target.PID)},
		{"--all"},
	}
	var all []*clitest.Process
	for _, selection := range selections {
		all = append(all, clitest.Start(t, "nodesnoop", append(selection, "-s", "-o", "PID,PATH")...))
	}
	for _, p := range all {
		p.Line("^Watching ")
	}
	echoed(target)
	echoed(other)
	for i, p := range all {
		selection := selections[i]
		if got := p.End(syscall.SIGINT); got.ExitStatus() != 0 {
			t.Errorf("%v: exit status = %d, want 0", selection, got.ExitStatus())
		}
		seen := func(target *nodetest.Target) int {
			return strings.Count(p.Stdout(), fmt.Sprintf("%7d /echo\n", target.PID))
		}
		if seen(target) < 50 {
			t.Errorf("%v: %d requests of %d, want 50 or more\n%s", selection, seen(target), target.PID, p.Stdout())
		}
		if isAll := selection[0] == "--all"; isAll != (seen(other) > 0) {
			t.Errorf("%v: %d requests of %d, which is selected: %t", selection, seen(other), other.PID, isAll)
		}
	}
}

func TestWithoutPrivilegesTheRemedyIsSaid(t *testing.T) {
	clitest.CheckUnprivileged(t, serving(t).PID, "nodesnoop", "-d", "1s")
}

func TestKernelThatLacksSomethingIsRefused(t *testing.T) {
	clitest.CheckKernels(t, serving(t).PID, "nodesnoop", "-d", "1s")
}

// capabilities are those of the manual.
var capabilities = []check.Capability{check.BPF, check.Perfmon, check.Ptrace}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	clitest.CheckCapabilities(t, capabilities, "nodesnoop", "-p", "{pid}", "-d", "0.5", "-scg", "--loop", "--io")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "nodesnoop", "uprobes") }

func TestDurationsHaveAllDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.000ms", 499: "0.000ms", 500: "0.001ms", 1_000_000: "1.000ms", -2_034_567: "-2.035ms", 3_000_000_123_456: "3000000.123ms",
	} {
		if got := ms(d); got != want {
			t.Errorf("%d ns = %s, want %s", d, got, want)
		}
	}
	r := rows{start: time.Unix(100, 0)}
	for d, want := range map[time.Duration]string{
		0: "[   0.000000]", 12_345_678_901: "[  12.345679]", 2_000_000_000_001_000: "[2000000.000001]",
	} {
		if got := r.time(r.start.Add(d)); got != want {
			t.Errorf("%d ns = %s, want %s", d, got, want)
		}
	}
}
