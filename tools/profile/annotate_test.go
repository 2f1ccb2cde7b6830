package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// inliningText is the text of /srv/a.js, in which inlining's functions are.
const inliningText = "function add(x) {\n  x = x + 1;\n  return x;\n}\n//\r\n//\n//\n//\n//\u2028function main() {\n  //\n  add(1);\n  add(2); // \x1b[31mred\u202e\n  memcpy();\n\n\n\n\n}\n"

// withSource returns p with the source of its functions.
func withSource(p *Profile, text string, last map[string]int) *Profile {
	p.Sources = make(Sources)
	shared := NewText(text, 1, "the source map")
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			p.Sources[DefinitionOf(s.PID, f)] = Source{Text: shared, LastLine: last[f.Name]}
		}
	}
	return p
}

var lastLines = map[string]int{"add": 4, "main": 19}

func annotate(t *testing.T, format string, p *Profile, pattern string, o Options) (string, error) {
	t.Helper()
	parsed, err := ParsePattern(pattern)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Lookup(format)
	if err != nil {
		t.Fatal(err)
	}
	if f, err = f.Annotated(parsed); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = f.Write(&out, p, o)
	return out.String(), err
}

func TestAnnotatedLines(t *testing.T) {
	for _, lines := range []bool{false, true} {
		got, err := annotate(t, "top", withSource(inlining(), inliningText, lastLines), ".", Options{Context: 1, Lines: lines})
		if err != nil {
			t.Fatal(err)
		}
		const want = `Node.js v22.23.3, V8 12.4.254.21, 12 samples at 99 Hz in 10.0 s

add  /srv/a.js:1:1
source from the source map, inlined in 50.0% of its samples
         SELF    SELF+NATIVE          TOTAL   LINE  SOURCE
    10  83.3%      10  83.3%      10  83.3%    all
            .              .              .      1  function add(x) {
     8  66.7%       8  66.7%       8  66.7%      2    x = x + 1;
     2  16.7%       2  16.7%       2  16.7%      3    return x;
            .              .              .      4  }

main  /srv/a.js:10:1
source from the source map
         SELF    SELF+NATIVE          TOTAL   LINE  SOURCE
            .       2  16.7%      12 100.0%    all
            .              .              .     10  function main() {
            .              .              .     11    //
            .              .       5  41.7%     12    add(1);
            .              .       5  41.7%     13    add(2); // \x1b[31mred\u202e
            .       2  16.7%       2  16.7%     14    memcpy();
            .              .              .     15
`
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lines separated: %t (-want +got):\n%s", lines, diff)
		}
	}
}

func TestAnnotatedContext(t *testing.T) {
	for context, want := range map[int]string{0: "10 11 12 13 14", 1: "10 11 12 13 14 15", 2: "10 11 12 13 14 15 16", -1: "10 11 12 13 14 15 16 17 18 19"} {
		got, err := annotate(t, "top", withSource(inlining(), inliningText, lastLines), "main", Options{Context: context})
		if err != nil {
			t.Fatal(err)
		}
		var numbers []string
		for _, found := range regexp.MustCompile(`(?m)^.{43} *(\d+)(  |$)`).FindAllStringSubmatch(got, -1) {
			numbers = append(numbers, found[1])
		}
		if strings.Join(numbers, " ") != want {
			t.Errorf("with %d lines of context: lines %q, want %s", context, numbers, want)
		}
	}
}

func TestLongFunctionsAreFolded(t *testing.T) {
	f := js("long", "/srv/long.js", 1, 1)
	p := withSource(profileOf(on(1, []symbolize.Frame{at(500, 1, f)})), strings.Repeat("line\n", 1000), map[string]int{"long": 1000})
	got, err := annotate(t, "top", p, "long", Options{Context: 1})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(got, "line\n"); n != 4 || strings.Count(got, "...\n") != 1 {
		t.Errorf("%d lines, want 4 and one mark:\n%s", n, got)
	}
}

// TestRecursionCountsOnce has a function on a stack twice, at one line and at two.
func TestRecursionCountsOnce(t *testing.T) {
	f := js("f", "/srv/f.js", 1, 1)
	p := profileOf(
		on(3, []symbolize.Frame{at(2, 1, f), at(2, 1, f)}), on(4, []symbolize.Frame{at(3, 1, f), at(2, 1, f), native("write", 0)}),
		on(5, []symbolize.Frame{f}), on(6, []symbolize.Frame{native("main", 0)}))
	text, err := annotate(t, "json", p, "f", Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Samples   uint64
		Functions []struct {
			Name                     string
			Self, Self_Native, Total uint64
			Lines                    []struct {
				Line                     int
				Self, Self_Native, Total uint64
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || len(got.Functions) != 1 {
		t.Fatalf("JSON = %s, error %v", text, err)
	}
	fn := got.Functions[0]
	if got.Samples != 18 || fn.Self != 8 || fn.Self_Native != 12 || fn.Total != 12 {
		t.Errorf("JSON = %s, want of 18 samples 8 in f, 12 with native work", text)
	}
	type line = struct {
		Line                     int
		Self, Self_Native, Total uint64
	}
	if diff := cmp.Diff([]line{{0, 5, 5, 5}, {2, 3, 7, 7}, {3, 0, 0, 4}}, []line(fn.Lines)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestFunctionsWithoutTheirText(t *testing.T) {
	p := inlining()
	p.Sources = Sources{DefinitionOf(4242, js("add", "/srv/a.js", 1, 1)): {Err: errors.New("it \x1b[2J went\naway")}}
	got, err := annotate(t, "top", p, "add", Options{Context: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`no source: it \x1b[2J went\x0aaway, inlined in 50.0% of its samples`,
		"\n     8  66.7%       8  66.7%       8  66.7%      2\n     2  16.7%",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("text lacks %q:\n%s", want, got)
		}
	}
}

func TestFilesThatHaveChangedAreToldOf(t *testing.T) {
	got, err := annotate(t, "top", withSource(inlining(), "function add() {}\n", nil), "add", Options{Context: 3})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"source from the source map, which has changed: it has not all the lines, inlined", "      1  function add() {}\n", "      3\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("text lacks %q:\n%s", want, got)
		}
	}
}

// TestFilesOfTheSamePathAreDistinguished has two processes with other texts in one path.
func TestFilesOfTheSamePathAreDistinguished(t *testing.T) {
	p := inlining()
	other := p.Stacks[0]
	other.PID++
	p.Stacks = append(p.Stacks, other)
	p.Total += other.Value
	withSource(p, inliningText, nil)
	p.Sources[DefinitionOf(other.PID, other.Frames[0])] = Source{Text: NewText("function add() {\n  other();\n}\n", 1, "")}
	got, err := annotate(t, "top", p, "add", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(got, "add  /srv/a.js:1:1\n") != 2 || !strings.Contains(got, "     5  29.4%      2    other();\n") {
		t.Errorf("text lacks the other file's function:\n%s", got)
	}
}

func TestPatterns(t *testing.T) {
	add := at(2, 5, js("add", "/srv/a.js", 1, 9))
	made := at(20, 5, js("Class.render", "/srv/src/view.ts", 18, 3))
	made.GeneratedFile, made.GeneratedLine, made.GeneratedColumn, made.GeneratedExecutingLine = "/srv/dist/view.js", 1, 700, 1
	odd := js("fn$1", "node:fs", 3, 1)
	for pattern, want := range map[string][]symbolize.Frame{
		"add":              {add},
		"a.js:add":         {add},
		"/srv/a.js:1:9":    {add},
		"a.js:1":           {add},
		"a.js:2":           {add},
		"a.js:12":          {},
		"a.js:2:5":         {},
		".js:1":            {},
		"view.ts:18":       {made},
		"view.ts:20":       {made},
		"dist/view.js:1":   {made},
		"view.js:1:700":    {made},
		"render":           {made},
		"^render":          {},
		"view.ts:.*render": {made},
		"fn$1":             {odd},
		"node:fs:3":        {odd},
		"node:fs:fn":       {odd},
		"add|fn":           {add, odd},
		"memcpy":           {},
	} {
		p, err := ParsePattern(pattern)
		if err != nil {
			t.Fatal(err)
		}
		got := []symbolize.Frame{}
		for _, f := range []symbolize.Frame{add, made, odd, native("memcpy", 0)} {
			if p.Matches(f) {
				got = append(got, f)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s matches (-want +got):\n%s", pattern, diff)
		}
	}
	for _, wrong := range []string{"(", "(.js:12"} {
		if _, err := ParsePattern(wrong); err == nil {
			t.Errorf("%s is read as a pattern", wrong)
		}
	}
}

func TestNothingMatches(t *testing.T) {
	for pattern, want := range map[string]string{
		"addd":      "annotate addd: no JavaScript function matches (similar: add)",
		"a.js:mian": "annotate a.js:mian: no JavaScript function matches (similar: main)",
		"MAIN":      "annotate MAIN: no JavaScript function matches (similar: main)",
		"a.js:99":   "annotate a.js:99: no JavaScript function matches (those with the most are: add /srv/a.js:1:1, main /srv/a.js:10:1)",
		"\x1b\\[2J": `annotate \x1b\[2J: no JavaScript function matches (those with the most are: add /srv/a.js:1:1, main /srv/a.js:10:1)`,
	} {
		_, err := annotate(t, "top", inlining(), pattern, Options{})
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
	_, err := annotate(t, "json", profileOf(on(1, []symbolize.Frame{native("main", 0)})), "x", Options{})
	if want := "annotate x: no JavaScript function matches (the stacks have none)"; err == nil || err.Error() != want {
		t.Errorf("error = %v, want %s", err, want)
	}
}

func TestLongLinesAreCut(t *testing.T) {
	long := strings.Repeat("π", 5<<20)
	text := long + "🚀HERE" + long
	for _, test := range []struct {
		line   string
		column int
		want   string
	}{
		{"short", 900, "short"},
		{strings.Repeat("x", 10), 5, strings.Repeat("x", 10)},
		{text, 0, strings.Repeat("π", 9) + "…"},
		{text, 5<<20 + 3 + annotateBefore, "…HERE" + strings.Repeat("π", 5) + "…"},
		{text, 1 << 30, "…"},
	} {
		if got := excerpt(test.line, test.column, 10); got != test.want {
			t.Errorf("excerpt at %d = %.100q, want %q", test.column, got, test.want)
		}
	}
}

// TestAnnotatedJSONIsSafeToPrint has control characters in a text.
func TestAnnotatedJSONIsSafeToPrint(t *testing.T) {
	text, err := annotate(t, "json", withSource(inlining(), strings.Replace(inliningText, "add(1)", "add('\u009b<\x7f')", 1), lastLines), "main", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := printable.String(strings.TrimSuffix(text, "\n")); got+"\n" != text {
		t.Errorf("JSON = %q", text)
	}
	var got struct {
		Functions []struct{ Lines []struct{ Text string } }
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil || got.Functions[0].Lines[2].Text != "  add('\u009b<\x7f');" {
		t.Errorf("JSON = %s, error %v", text, err)
	}
}

func TestOnlyTextAndJSONAreAnnotated(t *testing.T) {
	p, err := ParsePattern("x")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range Formats {
		if _, err := f.Annotated(p); (err == nil) != (f.Name == "top" || f.Name == "json") {
			t.Errorf("%s: error = %v", f.Name, err)
		}
	}
}
