package profile

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
)

// at returns f where it executes a line.
func at(line, column int, f symbolize.Frame) symbolize.Frame {
	f.ExecutingLine, f.ExecutingColumn = line, column
	return f
}

func inlined(f symbolize.Frame) symbolize.Frame {
	f.Inlined = true
	return f
}

// inlining is a profile of main, which calls add on two lines: inlined into it and not.
func inlining() *Profile {
	main, add := js("main", "/srv/a.js", 10, 1), js("add", "/srv/a.js", 1, 1)
	return profileOf(
		on(5, []symbolize.Frame{at(12, 3, main), inlined(at(2, 5, add))}),
		on(3, []symbolize.Frame{at(13, 3, main), at(2, 5, add)}),
		on(2, []symbolize.Frame{at(13, 3, main), at(3, 5, add)}),
		on(1, []symbolize.Frame{at(14, 3, main), native("memcpy", 4)}),
		on(1, []symbolize.Frame{at(14, 3, main), native("memcpy", 9)}),
	)
}

func TestPprofHasExecutingLines(t *testing.T) {
	p, err := inlining().Pprof()
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Function           string
		Start, Line, Count int64
	}
	var leaves []line
	for _, s := range p.Sample {
		l := s.Location[0].Line[0]
		leaves = append(leaves, line{l.Function.Name, l.Function.StartLine, l.Line, s.Value[0]})
	}
	want := []line{{"add", 1, 2, 5}, {"add", 1, 2, 3}, {"add", 1, 3, 2}, {"memcpy", 0, 0, 1}, {"memcpy", 0, 0, 1}}
	if diff := cmp.Diff(want, leaves); diff != "" {
		t.Errorf("leaves (-want +got):\n%s", diff)
	}
	if n := len(p.Sample[0].Location); n != 1 {
		t.Fatalf("a function inlined into another: %d locations, want one of both", n)
	}
	if lines := p.Sample[0].Location[0].Line; len(lines) != 2 || lines[1].Function.Name != "main" || lines[1].Line != 12 {
		t.Errorf("lines of the location: %+v, want main's after add's", lines)
	}
	if len(p.Function) != 3 {
		t.Errorf("functions = %d, want 3: main, add, memcpy", len(p.Function))
	}
	if p.Sample[3].Location[0] != p.Sample[4].Location[0] {
		t.Error("a native function has a location for each of its addresses, want one")
	}
	if err := p.CheckValid(); err != nil {
		t.Error(err)
	}
}

func TestCPUProfileCountsLines(t *testing.T) {
	var out bytes.Buffer
	if err := writeCPUProfile(&out, inlining(), Options{}); err != nil {
		t.Fatal(err)
	}
	var got cpuProfile
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(got.Nodes, func(n cpuNode) bool { return n.CallFrame.FunctionName == "add" })
	if want := []cpuTicks{{2, 8}, {3, 2}}; i < 0 || !slices.Equal(got.Nodes[i].PositionTicks, want) || got.Nodes[i].HitCount != 10 {
		t.Errorf("nodes = %+v, want add's with ticks %+v", got.Nodes, want)
	}
}

func TestLinesAreSeparatedOnRequest(t *testing.T) {
	for _, test := range []struct {
		lines bool
		want  []string
	}{
		{false, []string{"main /srv/a.js:10:1;add /srv/a.js:1:1 10", "main /srv/a.js:10:1;memcpy 2"}},
		{true, []string{
			"main /srv/a.js:12;add /srv/a.js:2 5", "main /srv/a.js:13;add /srv/a.js:2 3",
			"main /srv/a.js:13;add /srv/a.js:3 2", "main /srv/a.js:14;memcpy 2",
		}},
	} {
		format, err := Lookup("collapsed")
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := format.Write(&out, inlining(), Options{Lines: test.lines}); err != nil {
			t.Fatal(err)
		}
		got := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("lines separated: %t: stacks (-want +got):\n%s", test.lines, diff)
		}
	}
	json, err := Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	var with, without bytes.Buffer
	if err := json.Write(&with, inlining(), Options{Lines: true}); err != nil {
		t.Fatal(err)
	}
	if err := json.Write(&without, inlining(), Options{}); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(with.Bytes(), without.Bytes()) || !strings.Contains(with.String(), `"executing_line":12`) {
		t.Errorf("JSON = %s, want both lines in any case", &with)
	}
}

// TestNearestLinesAreMarked has a function whose lines are not all known.
func TestNearestLinesAreMarked(t *testing.T) {
	main, nearest := js("main", "/srv/a.js", 10, 1), at(12, 3, js("main", "/srv/a.js", 10, 1))
	nearest.Nearest = true
	p := profileOf(on(5, []symbolize.Frame{nearest}), on(3, []symbolize.Frame{at(12, 3, main)}))
	for lines, want := range map[bool]string{true: "main /srv/a.js:12 3\nmain /srv/a.js:~12 5\n", false: "main /srv/a.js:10:1 8\n"} {
		if got := write(t, "collapsed", p, Options{Lines: lines}); got != want {
			t.Errorf("lines separated: %t: stacks = %q, want %q", lines, got, want)
		}
	}
	if got := write(t, "json", p, Options{}); strings.Count(got, `"nearest":true`) != 1 {
		t.Errorf("JSON = %s, want one frame that is the nearest", got)
	}
	if got := write(t, "markdown", p, Options{}); !strings.Contains(got, "/srv/a.js:~12`") || !strings.Contains(got, "/srv/a.js:12`") {
		t.Errorf("report = %s, want the line twice, once marked", got)
	}
}

func TestSVGHasExecutingLines(t *testing.T) {
	var out bytes.Buffer
	if err := writeSVG(&out, inlining(), Options{}); err != nil {
		t.Fatal(err)
	}
	const want = "add /srv/a.js:1:1, turbofan, line 2: 8: 10 samples, 83.33%; 10 in itself"
	if !strings.Contains(out.String(), want) {
		t.Errorf("SVG lacks %q", want)
	}
}

func TestSpeedscopeHasLines(t *testing.T) {
	for lines, want := range map[bool][]speedscopeFrame{
		false: {{"main", "/srv/a.js", 10, 1}, {"add", "/srv/a.js", 1, 1}, {"memcpy", nodeBinary, 0, 0}},
		true: {
			{"main", "/srv/a.js", 12, 0},
			{"add (inlined)", "/srv/a.js", 2, 0},
			{"main", "/srv/a.js", 13, 0},
			{"add", "/srv/a.js", 2, 0},
			{"add", "/srv/a.js", 3, 0},
			{"main", "/srv/a.js", 14, 0},
			{"memcpy", nodeBinary, 0, 0},
		},
	} {
		var got speedscopeFile
		if err := json.Unmarshal([]byte(write(t, "speedscope", inlining(), Options{Lines: lines})), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Shared.Frames); diff != "" {
			t.Errorf("lines separated: %t: frames (-want +got):\n%s", lines, diff)
		}
	}
}

// TestHTMLHasExecutingLines shows in the details of a function which of its lines run or
// call, and how much of it was inlined.
func TestHTMLHasExecutingLines(t *testing.T) {
	b := open(t, "graph.html", write(t, "html", inlining(), Options{}))
	b.Hover(b.at(0.1, 1)) // main
	for label, want := range map[string]string{"line 12": "main: 5 · 41.67%", "line 13": "main: 5 · 41.67%", "line 14": "main: 2 · 16.67%", "of them, inlined": "main: "} {
		if got := b.detail(label); got != want {
			t.Errorf("%s of the caller = %q, want %q", label, got, want)
		}
	}
	b.Hover(b.at(0.1, 2)) // add
	for label, want := range map[string]string{"line 2": "add: 8 · 80.00%", "line 3": "add: 2 · 20.00%", "of them, inlined": "add: 5 · 50.00%"} {
		if got := b.detail(label); got != want {
			t.Errorf("%s of the callee = %q, want %q", label, got, want)
		}
	}
	b.Quiet()
	b.Keys("r", "")
	b.Hover(b.at(0.1, 1))
	if got, want := b.detail("line "), "add: "; got != want {
		t.Errorf("lines by callee = %q, want none", got)
	}
	b.Quiet()
}
