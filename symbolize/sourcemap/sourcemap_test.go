package sourcemap

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parse reads a map with these mappings, of the sources a.ts and b.ts and three names.
func parse(t *testing.T, mappings string) *Map {
	t.Helper()
	m, err := Parse(document3(mappings), "/dist/out.js.map")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func document3(mappings string) []byte {
	return fmt.Appendf(nil, `{"version":3,"sources":["../src/a.ts","../src/b.ts"],"names":["total","Circle","main"],"mappings":%q}`, mappings)
}

// vlq returns numbers as a segment.
func vlq(numbers ...int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var text []byte
	for _, n := range numbers {
		n <<= 1
		if n < 0 {
			n = -n | 1
		}
		for {
			digit := n & (continuation - 1)
			if n >>= digitBits; n > 0 {
				digit |= continuation
			}
			if text = append(text, digits[digit]); n == 0 {
				break
			}
		}
	}
	return string(text)
}

func line(segments ...string) string { return strings.Join(segments, ",") }

func TestOriginalIsTheLastSegmentBefore(t *testing.T) {
	// The first line has nothing, the second three segments, the fourth one that has no source
	// and one of the second file.
	m := parse(t, ";"+line(vlq(4, 0, 10, 2), vlq(6, 0, 1, 3, 1), vlq(10, 0, -5, 0))+";;"+line(vlq(2), vlq(3, 1, 2, 0, 1)))
	for _, tt := range []struct {
		line, column int
		want         Position
	}{
		{1, 1, Position{}},
		{2, 4, Position{}}, // before the line's first segment
		{2, 5, Position{File: "/src/a.ts", Line: 11, Column: 3}},
		{2, 10, Position{File: "/src/a.ts", Line: 11, Column: 3}},
		{2, 11, Position{File: "/src/a.ts", Line: 12, Column: 6, Name: "Circle"}},
		{2, 21, Position{File: "/src/a.ts", Line: 7, Column: 6}},
		{2, 9999, Position{File: "/src/a.ts", Line: 7, Column: 6}},
		{3, 1, Position{}}, // no segment of an earlier line
		{4, 3, Position{}}, // comes from no source
		{4, 6, Position{File: "/src/b.ts", Line: 9, Column: 6, Name: "main"}},
		{5, 1, Position{}},
		{0, 1, Position{}},
		{1, 0, Position{}},
		{-1, -1, Position{}},
		{1 << 40, 1, Position{}},
	} {
		got, ok := m.Original(tt.line, tt.column)
		if got != tt.want || ok != (tt.want != Position{}) {
			t.Errorf("original of %d:%d = %+v, %v, want %+v", tt.line, tt.column, got, ok, tt.want)
		}
	}
}

// TestManySegments looks each of many segments up: searches begin at some of them only.
func TestManySegments(t *testing.T) {
	var lines []string
	const count, perLine = 10 * pointStep, 7
	for range count / perLine {
		segments := []string{vlq(3, 0, 1, 1)}
		for range perLine - 1 {
			segments = append(segments, vlq(2, 0, 1, 1))
		}
		lines = append(lines, line(segments...))
	}
	m := parse(t, strings.Join(lines, ";"))
	if want := (count/perLine*perLine + pointStep - 1) / pointStep; len(m.points) != want {
		t.Errorf("%d points, want %d", len(m.points), want)
	}
	for i := range lines {
		for j := range perLine {
			got, ok := m.Original(i+1, 4+2*j)
			if want := i*perLine + j + 2; !ok || got.Line != want {
				t.Fatalf("original of segment %d in line %d = %+v, %v, want line %d", j, i, got, ok, want)
			}
		}
	}
}

func TestUnorderedSegmentsAreSorted(t *testing.T) {
	m := parse(t, line(vlq(20, 0, 2, 0), vlq(-15, 0, -1, 0), vlq(5, 0, -1, 0)))
	for column, want := range map[int]int{6: 2, 11: 1, 21: 3} {
		if got, ok := m.Original(1, column); !ok || got.Line != want {
			t.Errorf("original of column %d = %+v, want line %d", column, got, want)
		}
	}
}

func TestSectionsAreJoined(t *testing.T) {
	section := func(line, column int, source, name, mappings string) string {
		return fmt.Sprintf(`{"offset":{"line":%d,"column":%d},"map":{"version":3,"sources":[%q],"names":[%q],"mappings":%q}}`, line, column, source, name, mappings)
	}
	text := fmt.Sprintf(`{"version":3,"sections":[%s,%s]}`,
		section(0, 0, "a.ts", "first", line(vlq(0, 0, 0, 0, 0), vlq(50, 0, 1, 0))+";"+vlq(0, 0, 1, 0)),
		section(1, 10, "/lib/b.ts", "second", line(vlq(2, 0, 7, 0, 0))+";"+vlq(2, 0, 1, 0)))
	m, err := Parse([]byte(text), "file:///app/out.js")
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[[2]int]Position{
		{1, 1}:  {File: "file:///app/a.ts", Line: 1, Column: 1, Name: "first"},
		{1, 60}: {File: "file:///app/a.ts", Line: 2, Column: 1},
		{2, 5}:  {File: "file:///app/a.ts", Line: 3, Column: 1},
		{2, 11}: {}, // the section has begun, its first segment has not
		{2, 13}: {File: "/lib/b.ts", Line: 8, Column: 1, Name: "second"},
		{3, 3}:  {File: "/lib/b.ts", Line: 9, Column: 1}, // only the first line is moved to the right
	} {
		if got, _ := m.Original(at[0], at[1]); got != want {
			t.Errorf("original of %v = %+v, want %+v", at, got, want)
		}
	}
}

func TestSourcesAreWhereTheMapSays(t *testing.T) {
	for _, tt := range []struct{ base, root, source, want string }{
		{"/app/dist/x.js.map", "", "../src/x.ts", "/app/src/x.ts"},
		{"/app/dist/x.js.map", "../src/", "x.ts", "/app/src/x.ts"},
		{"/app/dist/x.js.map", "/src", "x.ts", "/src/x.ts"},
		{"/app/dist/x.js.map", "", "../../../../etc/x", "/etc/x"},
		{"/app/what?/x.js", "", "x.ts", "/app/what?/x.ts"},
		{"file:///app/dist/x.mjs?v=1/2", "", "../src/x.ts", "file:///app/src/x.ts"},
		{"/app/x.js", "https://cdn/lib", "./x.ts", "https://cdn/lib/x.ts"},
		{"/app/x.js", "", "webpack://app/./src/x.ts", "webpack://app/src/x.ts"},
		{"/app/x.js", "", "webpack:///./src/x.ts", "webpack:///src/x.ts"},
		{"/app/x.js", "", "data:x", "data:x"},
		{"/app/x.js", "src", "", ""},
		{"evalmachine.<anonymous>", "", "../x.ts", "../x.ts"},
		{"", "", "x.ts", "x.ts"},
	} {
		if got := resolve(tt.base, tt.root, tt.source); got != tt.want {
			t.Errorf("%q below %q in a map at %q = %q, want %q", tt.source, tt.root, tt.base, got, tt.want)
		}
	}
}

func TestMapFileIsWhereTheScriptSays(t *testing.T) {
	for _, tt := range []struct{ script, url, want string }{
		{"/app/x.js", "x.js.map", "/app/x.js.map"},
		{"/app/x.js", "../maps/x%20y.map?v=1#z", "/maps/x y.map"},
		{"/app/100%/x.js", "x.js.map", "/app/100%/x.js.map"},
		{"/app/x.js", "/maps/x.map", "/maps/x.map"},
		{"/app/x.js", "file:///maps/x.map", "/maps/x.map"},
		{"/app/x.js", "../../../../../etc/shadow", "/etc/shadow"}, // below the process's root
		{"file:///app/x%20y.mjs?again", "x.map", "/app/x.map"},
		{"/app/x.js", "https://example.org/x.map", ""},
		{"/app/x.js", "http:x.map", ""},
		{"webpack-internal:///./src/x.js", "x.map", ""},
		{"evalmachine.<anonymous>", "x.map", ""},
		{"evalmachine.<anonymous>", "/maps/x.map", ""},
		{"/app/x.js", "file://maps", ""},
		{"/app/x.js", "x%zz", ""},
		{"/app/x.js", "x%00", ""},
	} {
		got, err := File(tt.script, tt.url)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("map %q of %q = %q, %v, want %q", tt.url, tt.script, got, err, tt.want)
		}
	}
	if _, err := File("/x.js", "http://example.org/x.map"); !errors.Is(err, ErrRemote) {
		t.Errorf("a map on a server: %v", err)
	}
}

func TestURLIsThatOfTheLastComment(t *testing.T) {
	for text, want := range map[string]string{
		"x()\n//# sourceMappingURL=x.js.map":                                   "x.js.map",
		"x()\n//@ sourceMappingURL=x.js.map\n":                                 "x.js.map",
		"//# sourceMappingURL=a.map\n//# sourceMappingURL=b.map\n\n// the end": "b.map",
		"//#  sourceMappingURL=a.map  \r\nx()":                                 "a.map",
		"const a = 'sourceMappingURL=x'; //#sourceMappingURL=y":                "",
		"//# sourceMappingURL=a map":                                           "",
		"//# sourceMappingURL='a'":                                             "",
		"//# sourceMappingURL=data:application/json;base64,e30=":               "data:application/json;base64,e30=",
		"": "",
	} {
		if got := URL(text); got != want {
			t.Errorf("URL of %q = %q, want %q", text, got, want)
		}
	}
}

func TestInlineMaps(t *testing.T) {
	for url, want := range map[string]string{
		"data:application/json;charset=utf-8;base64,eyJhIjoxfQ==": `{"a":1}`,
		"DATA:application/json;base64,eyJhIjoxfQ":                 `{"a":1}`,
		"data:application/json,%7B%22a%22:1%7D":                   `{"a":1}`,
		`data:,{"a":1}`:                                           `{"a":1}`,
		"data:application/json":                                   "",
		"data:application/json;base64,****":                       "",
		"data:application/json,%7":                                "",
		"data:application/json;base64,e30%3D":                     "{}",
		"data:application/json;base64,not=base":                   "",
	} {
		got, err := Inline(url)
		if !IsInline(url) || string(got) != want || (err == nil) != (want != "") {
			t.Errorf("map in %s = %q, %v, want %q", url, got, err, want)
		}
	}
	if IsInline("x.map") || IsInline("dat") {
		t.Error("a file is a map in a URL")
	}
	if _, err := Inline("data:," + strings.Repeat("x", MaxBytes*2)); err == nil {
		t.Error("a URL has no bound")
	}
}

// TestFunctionsHaveTheirNames maps functions of minified code whose own names have a
// segment, by V8's name and start.
func TestFunctionsHaveTheirNames(t *testing.T) {
	const start = 30
	for _, tt := range []struct {
		between, v8 string
		more        int // another segment begins so far after the name's; 0: none does
		want        string
	}{
		{"", "a", 0, "total"},
		{"=", "ab", 0, "total"},
		{"=function", "a", 2, "total"},
		{"=class{constructor", "a", 2, "total"},
		{"=", "T.ab", 0, "total"},
		{"=", "ab", 1, ""}, // an identifier has no segment within it
		{" = ", "total2", 0, "total"},
		{" = ", "sum", 0, ""}, // not minified: another name is another variable's
		{"=(", "a", 0, ""},
		{"", "", 0, ""},
	} {
		name := tt.v8[strings.LastIndexByte(tt.v8, '.')+1:]
		at := start - len(tt.between) - len(name)
		segments := []string{vlq(at, 0, 4, 9, 0)}
		if tt.more > 0 {
			segments = append(segments, vlq(tt.more, 0, 0, 0))
		}
		m := parse(t, line(segments...))
		got, ok := m.Function(1, start+1, tt.v8)
		if want := (Position{"/src/a.ts", 5, 10, tt.want}); !ok || got != want {
			t.Errorf("%s%s(: %+v, %v, want %+v", tt.v8, tt.between, got, ok, want)
		}
	}
	m := parse(t, line(vlq(8, 0, 0, 0), vlq(6, 0, 0, 6, 1)))
	if got, _ := m.Function(1, 9, "e"); got.Name != "Circle" {
		t.Errorf("class e{}: %+v, want Circle", got)
	}
}

func TestBrokenMapsAreErrors(t *testing.T) {
	nested := `{"version":3,"sections":[{"offset":{"line":0,"column":0},"map":{"version":3,"sections":[]}}]}`
	section := func(line int) string {
		return fmt.Sprintf(`{"offset":{"line":%d,"column":0},"map":{"version":3,"sources":[],"names":[],"mappings":""}}`, line)
	}
	for what, text := range map[string]string{
		"no JSON":                     "<html>not found</html>",
		"empty":                       "",
		"null":                        "null",
		"another version":             `{"version":4,"mappings":""}`,
		"names are numbers":           `{"version":3,"names":[1]}`,
		"deep":                        `{"version":3,"x":` + strings.Repeat("[", 1<<20),
		"many names":                  `{"version":3,"names":[""` + strings.Repeat(`,""`, maxTexts) + `]}`,
		"many sections":               `{"version":3,"sections":[` + section(0) + strings.Repeat(","+section(0), maxSections) + `]}`,
		"sections within":             nested,
		"no map in section":           `{"version":3,"sections":[{"offset":{"line":0,"column":0}}]}`,
		"section before":              `{"version":3,"sections":[` + section(3) + "," + section(2) + `]}`,
		"negative section":            `{"version":3,"sections":[` + section(-3) + `]}`,
		"sections that are an object": `{"version":3,"sections":{"a":1}}`,
	} {
		if m, err := Parse([]byte(text), ""); err == nil {
			t.Errorf("%s: no error, %d segments", what, len(m.points))
		}
	}
	for what, mappings := range map[string]string{
		"not base64":          "AA*A",
		"cut short":           "AAAg",
		"two numbers":         "AA",
		"six numbers":         "AAAAAA",
		"negative column":     vlq(-1, 0, 0, 0),
		"negative line":       vlq(0, 0, -1, 0),
		"unknown source":      vlq(0, 2, 0, 0),
		"negative source":     vlq(0, -1, 0, 0),
		"unknown name":        vlq(0, 0, 0, 0, 3),
		"huge number":         strings.Repeat("g", 100) + "A",
		"line beyond 31 bits": vlq(0, 0, 1<<31-1, 0) + "," + vlq(1, 0, 1<<31-1, 0),
		"too many segments":   "A" + strings.Repeat(",C", maxSegments),
		"too many unordered":  strings.Repeat("C,D,", maxUnordered),
	} {
		if _, err := Parse(document3(mappings), ""); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := Parse(make([]byte, MaxBytes+1), ""); err == nil {
		t.Error("a map has no bound")
	}
}

// TestOddMapsAreRead reads what is unusual, but no error.
func TestOddMapsAreRead(t *testing.T) {
	for what, text := range map[string]string{
		"empty":               `{"version":3,"sources":[],"names":[],"mappings":""}`,
		"nothing":             `{"version":3}`,
		"null source":         `{"version":3,"sources":[null],"mappings":"AAAA"}`,
		"against inclusion":   ")]}'\n" + `{"version":3,"mappings":""}`,
		"empty segments":      `{"version":3,"sources":["a"],"mappings":",,;,AAAA,;,"}`,
		"no sections":         `{"version":3,"sections":[]}`,
		"null sections":       `{"version":3,"sections":null,"sources":["a"],"mappings":"AAAA"}`,
		"many lines":          `{"version":3,"mappings":"` + strings.Repeat(";", 1<<20) + `"}`,
		"repeated definition": `{"version":3,"version":3,"mappings":"A*","mappings":""}`,
	} {
		if _, err := Parse([]byte(text), ""); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := strings.Repeat("é", maxText)
	m, err := Parse(fmt.Appendf(nil, `{"version":3,"sources":[%q],"names":["\u001b[2J"],"mappings":"AAAAA"}`, long), "")
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := m.Original(1, 1); !ok || len(got.File) > maxText+len("…") || got.Name != "\x1b[2J" {
		t.Errorf("original = %d bytes of a name, %q, %v", len(got.File), got.Name, ok)
	}
}

// FuzzParse looks for maps that crash, and for packed segments that differ from those
// which were read.
func FuzzParse(f *testing.F) {
	f.Add(document3(line(vlq(4, 0, 10, 2), vlq(6, 0, 1, 3, 1), vlq(2))), 1, 5, "a")
	f.Add([]byte(`{"version":3,"sections":[{"offset":{"line":1,"column":2},"map":{"sources":["x"],"mappings":"AAAA"}}]}`), 2, 3, "b")
	f.Add(document3(line(vlq(20, 0, 2, 0), vlq(-15, 0, -1, 0))), 1, 10, "Foo.bar")
	f.Fuzz(func(t *testing.T, data []byte, line, column int, name string) {
		m, err := Parse(data, "file:///app/dist/x.js?y")
		if err != nil {
			return
		}
		m.Function(line, column, name)
		var last segment
		for i, rest := 0, m.packed; len(rest) > 0; i++ {
			s := last
			rest = unpack(rest, &s)
			if s.before(&last) || s.line < 0 || s.column < 0 || int(s.source) >= len(m.sources) || int(s.name) >= len(m.names) {
				t.Fatalf("segment %d is %+v after %+v", i, s, last)
			}
			last = s
		}
	})
}

// TestPackingIsExact packs segments that differ in every way and reads them back.
func TestPackingIsExact(t *testing.T) {
	all := []segment{
		{line: 0, column: 3, source: 0, sourceLine: 9, sourceColumn: 4, name: -1},
		{line: 0, column: 3, source: 0, sourceLine: 9, sourceColumn: 4, name: 2},
		{line: 0, column: 9, source: -1, name: -1},
		{line: 2, column: 1, source: 1, sourceLine: 0, sourceColumn: 1 << 30, name: 0},
		{line: 1 << 30, column: 1 << 30, source: 1, sourceLine: 1 << 30, name: -1},
	}
	var p packer
	for _, s := range all {
		if err := p.add(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.add(segment{}); !errors.Is(err, errUnordered) {
		t.Errorf("a segment before the last: %v", err)
	}
	var got []segment
	var s segment
	for rest := p.packed; len(rest) > 0; {
		rest = unpack(rest, &s)
		found := s
		if found.source < 0 {
			found.sourceLine, found.sourceColumn = 0, 0
		}
		got = append(got, found)
	}
	if !slices.Equal(got, all) {
		t.Errorf("read back\n%+v, want\n%+v", got, all)
	}
}

// TestOwnMapping checks the test's encoder against the JSON of a known map.
func TestOwnMapping(t *testing.T) {
	if got := line(vlq(0, 0, 0, 0), vlq(16, -1, 1000, 2)); got != "AAAA,gBDw+BE" {
		t.Errorf("encoded %q", got)
	}
	if !json.Valid(document3("AAAA")) {
		t.Error("the test's map is no JSON")
	}
}
