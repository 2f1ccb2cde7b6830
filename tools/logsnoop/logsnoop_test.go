package logsnoop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/trace"
)

func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

var programs = []string{bpf.LogsnoopProgOnSystemCallEnd, bpf.LogsnoopProgOnUsdt, bpf.LogsnoopProgOnExec}

// someVersions are the Node.js versions of default tests; all under USTACK_MATRIX=1.
func someVersions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{nodetest.Versions[1], nodetest.Versions[len(nodetest.Versions)-1]}
}

// A watch is a run of the tool on a target.
type watch struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan error
	result *Result

	mutex  sync.Mutex
	events []Event
}

// start watches a target.
func start(t *testing.T, target *nodetest.Target, o Options) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, cancel: cancel, ended: make(chan error, 1)}
	t.Cleanup(cancel)
	started := make(chan struct{})
	o.Selection = trace.Selection{PIDs: []int{target.PID}}
	o.Started = func() { close(started) }
	o.Warn = func(err error) { t.Error(err) }
	o.Report = func(e *Event) error {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.events = append(w.events, *e)
		return nil
	}
	go func() {
		var err error
		w.result, err = Run(ctx, o)
		w.ended <- err
	}()
	select {
	case <-started:
	case err := <-w.ended:
		t.Fatal(err)
	}
	return w
}

// end ends the run, and returns all events.
func (w *watch) end() []Event {
	w.t.Helper()
	w.cancel()
	if err := <-w.ended; err != nil {
		w.t.Fatal(err)
	}
	return w.events
}

// work has the target do what it does, and returns what it says then.
func work(target *nodetest.Target) string {
	target.Signal(syscall.SIGUSR2)
	for {
		if said, ok := strings.CutPrefix(target.Line(), "done"); ok {
			return said
		}
	}
}

// bunyans are the probes of bunyan.
var bunyans = []event.USDT{{Provider: "bunyan", Name: "log-*"}}

// TestRecordsBelowTheLevelAreSeenWhileWatched has a program with bunyan log a known number of records:
// each arrives once, and no record is made for a probe before and after.
func TestRecordsBelowTheLevelAreSeenWhileWatched(t *testing.T) {
	nodetest.Root(t)
	const count = 2000
	type facts struct{ Made, Written int }
	for _, version := range someVersions() {
		t.Run(version, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			node := nodetest.Node(t, version)
			target := nodetest.Start(t, node, nodetest.Options{Script: "records.js", Args: []string{nodetest.Loggers(t, node), fmt.Sprint(count)}})
			logs := func() (f facts) {
				t.Helper()
				if err := json.Unmarshal([]byte(work(target)), &f); err != nil {
					t.Fatal(err)
				}
				return f
			}
			unwatched := facts{0, count / 10}
			if got := logs(); got != unwatched {
				t.Errorf("before, %+v, want %+v", got, unwatched)
			}
			w := start(t, target, Options{Probes: bunyans})
			watched := facts{count, count / 10}
			if got := logs(); got != watched {
				t.Errorf("while watched, %+v, want %+v", got, watched)
			}
			seen := make(map[string]int)
			for _, e := range w.end() {
				seen[e.Probe.String()]++
				if !strings.HasPrefix(e.Text, `{"name":"service",`) || !strings.HasSuffix(e.Text, "}\n") || e.Cut {
					t.Fatalf("event %+v, want a whole record", e)
				}
			}
			if seen["bunyan:log-debug"] != count || seen["bunyan:log-info"] != count/10 || w.result.Lost > 0 {
				t.Errorf("seen %v, %+v, want %d debug and %d info", seen, w.result, count, count/10)
			}
			if got := logs(); got != unwatched {
				t.Errorf("after, %+v, want %+v", got, unwatched)
			}
		})
	}
}

// TestNoRecordIsLostUncounted logs faster than is read.
func TestNoRecordIsLostUncounted(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	const count = 100_000
	node := nodetest.Node(t, nodetest.Versions[4])
	target := nodetest.Start(t, node, nodetest.Options{Script: "records.js", Args: []string{nodetest.Loggers(t, node), fmt.Sprint(count)}})
	w := start(t, target, Options{Probes: []event.USDT{{Provider: "bunyan", Name: "log-debug"}}})
	work(target)
	events := w.end()
	if got := uint64(len(events)) + w.result.Lost; got != count || w.result.Events != uint64(len(events)) {
		t.Errorf("%d records and %d lost, %+v, want %d in all", len(events), w.result.Lost, w.result, count)
	}
	t.Logf("%d records, %d lost", len(events), w.result.Lost)
	var last, r struct{ N int }
	last.N = -1
	for _, e := range events {
		if err := json.Unmarshal([]byte(e.Text), &r); err != nil || r.N <= last.N {
			t.Fatalf("after record %d: %q, %v, want a later one", last.N, e.Text, err)
		}
		last = r
	}
}

// TestLinesAreThoseOfTheFiles compares what is seen with what was written.
func TestLinesAreThoseOfTheFiles(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(version, func(t *testing.T) { testLines(t, version, Options{Writes: true, Stacks: true}) })
	}
}

// TestCopiesOfProgramsSeeNoLineTwice runs the programs as where threads are preempted in them.
func TestCopiesOfProgramsSeeNoLineTwice(t *testing.T) {
	nodetest.Root(t)
	testLines(t, nodetest.Versions[len(nodetest.Versions)-1], Options{Writes: true, Stacks: true, preempted: true})
}

func testLines(t *testing.T, version string, o Options) {
	nodetest.NothingLeft(t, programs...)
	node, dir := nodetest.Node(t, version), t.TempDir()
	target := nodetest.Start(t, node, nodetest.Options{Script: "logs.js", Args: []string{nodetest.Loggers(t, node), dir}})
	w := start(t, target, o)
	work(target)
	got := make(map[string][]string)
	for _, e := range w.end() {
		got[e.File] = append(got[e.File], e.Text)
		if e.Cut || e.Probe != nil || (e.FD == 1) != (e.File == "stdout") {
			t.Fatalf("event %+v, want a whole line", e)
		}
		if e.File == filepath.Join(dir, "parts.log") && !hasFunction(e.Frames, "logAll") {
			t.Errorf("stack of %q has no logAll: %v", e.Text, e.Frames)
		}
	}
	for _, name := range []string{"bunyan.log", "pino.log", "winston.log", "parts.log", "worker.log"} {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if !slices.Equal(got[path], want) {
			t.Errorf("%s: %d lines seen, %d written, want the same; %s", name, len(got[path]), len(want), firstDifference(got[path], want))
		}
	}
	lines := got["stdout"]
	if n := len(lines); n > 0 && lines[n-1] == "done" { // which may not have returned when it was read
		lines = lines[:n-1]
	}
	if len(lines) != 50 || lines[49] != "line 49 \x1b[31m" {
		t.Errorf("stdout has %d lines, want 50: %q", len(lines), lines)
	}
	if lines, ok := got[filepath.Join(dir, "data")]; ok {
		t.Errorf("lines of a file that is no log: %q", lines)
	}
	if r := *w.result; r.Lost+r.Broken+r.Unread+r.Cut+r.Closed+r.Unended > 0 {
		t.Errorf("result %+v, want nothing missing", r)
	}
}

// firstDifference says where two lists of lines begin to differ.
func firstDifference(got, want []string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	shown := func(lines []string) string {
		if i >= len(lines) {
			return "the end"
		}
		return fmt.Sprintf("%d bytes, %.90q", len(lines[i]), lines[i])
	}
	return fmt.Sprintf("line %d is %s, want %s", i+1, shown(got), shown(want))
}

func hasFunction(frames []symbolize.Frame, name string) bool {
	return slices.ContainsFunc(frames, func(f symbolize.Frame) bool { return f.Name == name })
}

// TestFilesAreChosen watches one file by name, and one by descriptor.
func TestFilesAreChosen(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node, dir := nodetest.Node(t, nodetest.Versions[3]), t.TempDir()
	target := nodetest.Start(t, node, nodetest.Options{Script: "logs.js", Args: []string{nodetest.Loggers(t, node), dir}})
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Writes: true, Path: "data"}, filepath.Join(dir, "data")},
		{Options{Writes: true, Path: dir + "/pino*"}, filepath.Join(dir, "pino.log")},
		{Options{Writes: true, FDs: []int{1}}, "stdout"},
	} {
		w := start(t, target, tt.o)
		work(target)
		events := w.end()
		if len(events) < 50 {
			t.Errorf("%q %v: %d lines, want 50 or more", tt.o.Path, tt.o.FDs, len(events))
		}
		for _, e := range events {
			if e.File != tt.want {
				t.Fatalf("%q %v: line of %s, want %s", tt.o.Path, tt.o.FDs, e.File, tt.want)
			}
		}
	}
}

// TestFilesAreDistinguished has a file deleted whose inode becomes another one's, and two renamed.
func TestFilesAreDistinguished(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, nodetest.Versions[3])
	for _, o := range []Options{{Writes: true}, {Writes: true, Path: "*.log"}} {
		target := nodetest.Start(t, node, nodetest.Options{Script: "renames.js", Args: []string{t.TempDir()}})
		w := start(t, target, o)
		work(target)
		var got []string
		for _, e := range w.end() {
			if name := filepath.Base(e.File); name == "b.log" && !e.Cut || name == "b.old" || name == "c.log" {
				got = append(got, name+" "+e.Text)
			}
		}
		if want := []string{"b.log whole", "b.old rotated", "c.log after"}; !slices.Equal(got, want) {
			t.Errorf("path %q: lines %q, want %q", o.Path, got, want)
		}
	}
}

// TestProbesOfOnesOwn reads texts, integers and JSON, of a provider that is enabled late.
func TestProbesOfOnesOwn(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, nodetest.Versions[3])
	target := nodetest.Start(t, node, nodetest.Options{Script: "provider.js", Args: []string{nodetest.Loggers(t, node)}})
	listed, unread, err := List(target.PID, []event.USDT{{Provider: "shop", Name: "*"}})
	if err != nil || unread != nil || len(listed) != 3 || listed[2].Name != "sold" || listed[2].Arguments != "8@(%rdi) -8@8(%rdi) 8@16(%rdi)" {
		t.Errorf("listed %+v, %v, %v, want the probes of shop", listed, unread, err)
	}
	w := start(t, target, Options{Probes: []event.USDT{{Provider: "shop", Name: "*"}}})
	var f struct{ Calls, Counters []int }
	if err := json.Unmarshal([]byte(work(target)), &f); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Calls, []int{1, 1, 1}) || !slices.Equal(f.Counters, []int{1, 1, 1}) {
		t.Errorf("the program saw %+v, want that each is watched", f)
	}
	events := w.end()
	if len(events) != 3 {
		t.Fatalf("%d events, want 3", len(events))
	}
	sold, many, none := events[0], events[1], events[2]
	if a := sold.Arguments; len(a) != 3 || a[0].Text != "Äpfel" || sold.Text != "Äpfel" || int64(a[1].Value) != -7 || !a[1].Signed || a[2].Text != `{"price":9007199254740991}` {
		t.Errorf("arguments of sold = %+v", a)
	}
	if a := many.Arguments; len(a) != 6 || a[0].Value != 0 || a[5].Value != 5 {
		t.Errorf("arguments of many = %+v, want 0 to 5", a)
	}
	if len(none.Arguments) != 0 {
		t.Errorf("arguments of none = %+v", none.Arguments)
	}
	if err := json.Unmarshal([]byte(work(target)), &f); err != nil || !slices.Equal(f.Counters, []int{0, 0, 0}) {
		t.Errorf("after, the counters are %v, %v, want 0", f.Counters, err)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{}, "nothing to watch"},
		{Options{Writes: true, FDs: make([]int, MaxFDs+1)}, "more than 16"},
		{Options{Writes: true, FDs: []int{1}, Path: "x"}, "only one of"},
		{Options{Writes: true, Path: "["}, "syntax error"},
	} {
		if err := tt.o.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Check of %+v = %v, want %q", tt.o, err, tt.want)
		}
	}
}

// TestLines puts writes together.
func TestLines(t *testing.T) {
	type line struct {
		text string
		cut  bool
	}
	long := strings.Repeat("x", maxLine)
	for name, tt := range map[string]struct {
		writes []written
		want   []line
		broken uint64
	}{
		"whole":               {[]written{{text: []byte("a\nb\n")}}, []line{{"a", false}, {"b", false}}, 0},
		"in parts":            {[]written{{text: []byte("a")}, {text: []byte("b")}, {text: []byte("c\nd")}}, []line{{"abc", false}, {"d", true}}, 0},
		"empty":               {[]written{{text: []byte("\n\n")}}, []line{{"", false}, {"", false}}, 0},
		"a gap":               {[]written{{text: []byte("a")}, {text: []byte("b\nc\n"), gap: true}}, []line{{"c", false}}, 1},
		"two gaps":            {[]written{{text: []byte("a"), gap: true}, {text: []byte("b\nc\n"), gap: true}}, []line{{"c", false}}, 1},
		"its end is missing":  {[]written{{text: []byte("a\nb"), cut: true}, {text: []byte("c\nd\n")}}, []line{{"a", false}, {"d", false}}, 1},
		"too long":            {[]written{{text: []byte(long)}, {text: []byte("yz")}, {text: []byte("!\nb\n")}}, []line{{long, true}, {"b", false}}, 0},
		"too long, in a part": {[]written{{text: []byte("a" + long + "\nb\n")}}, []line{{"a" + long, false}, {"b", false}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var got []line
			l := newLines(func(_ *file, _ written, text []byte, cut bool) { got = append(got, line{string(text), cut}) })
			f := l.file(fileKey{pid: 1})
			for _, w := range tt.writes {
				l.add(f, w)
			}
			l.flush()
			if !slices.Equal(got, tt.want) || l.broken != tt.broken || l.kept != 0 {
				t.Errorf("%d lines, %d broken, %d bytes kept, want %d, %d, 0", len(got), l.broken, l.kept, len(tt.want), tt.broken)
			}
		})
	}
}

// TestLinesKeepLittle writes without ends of lines to many files.
func TestLinesKeepLittle(t *testing.T) {
	reported := 0
	l := newLines(func(_ *file, _ written, text []byte, cut bool) {
		if cut {
			reported += len(text)
		}
	})
	text := bytes.Repeat([]byte("\x00"), 1<<16)
	const writes = 8 * maxFiles
	for i := range writes {
		l.add(l.file(fileKey{inode: uint64(i % (2 * maxFiles))}), written{text: text})
		if l.kept > maxKept+len(text) || len(l.files) > maxFiles {
			t.Fatalf("%d bytes of %d files are kept", l.kept, len(l.files))
		}
	}
	if l.flush(); reported != writes*len(text) {
		t.Errorf("%d bytes reported, want all %d", reported, writes*len(text))
	}
}

// TestProbesOfRestify watches a server of npm's restify, in a version that runs on Node.js 16.
func TestProbesOfRestify(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, nodetest.Versions[0])
	target := nodetest.Start(t, node, nodetest.Options{Script: "restify.js", Args: []string{nodetest.Loggers(t, node)}})
	w := start(t, target, Options{Probes: []event.USDT{{Provider: "restify", Name: "route-*"}}})
	work(target)
	var urls []string
	statuses := make(map[uint64]int)
	for _, e := range w.end() {
		switch a := e.Arguments; {
		case e.Probe.Name == "route-start" && len(a) == 6 && a[0].Text == "shop" && a[3].Text == "GET" && json.Valid([]byte(a[5].Text)):
			urls = append(urls, a[4].Text)
		case e.Probe.Name == "route-done" && len(a) == 5:
			statuses[a[3].Value]++
		default:
			t.Errorf("event %v %+v", e.Probe, a)
		}
	}
	if len(urls) != 20 || urls[19] != "/items/19" || statuses[200] != 10 || statuses[404] != 10 {
		t.Errorf("asked for %q, answered with %v, want 20 each", urls, statuses)
	}
}
