package sourcemap

import (
	"errors"
	"strings"
	"testing"
)

func TestSourcesInMapsAreFound(t *testing.T) {
	for name, text := range map[string]string{
		"flat": `{"version":3,"sources":["a.ts","b.ts",null,"c.ts"],"sourcesContent":["text, of a\n",null,"nameless","text of c"],"mappings":"AAAA"}`,
		"sections": `)]}'
{"version":3,"sections":[
			{"offset":{"line":0,"column":0},"map":{"version":3,"sources":["a.ts","b.ts"],"sourcesContent":["text, of a\n"],"mappings":"AAAA"}},
			{"offset":{"line":9,"column":0},"map":{"version":3,"sources":["c.ts"],"sourcesContent":["text of c","too many"],"mappings":"AAAA"}}]}`,
	} {
		m, err := Parse([]byte(text), "/srv/x.js.map")
		if err != nil {
			t.Fatal(err)
		}
		before := m.Size()
		if _, ok := m.Content("/srv/a.ts"); ok {
			t.Errorf("%s: a map has texts before they were added", name)
		}
		if err := m.AddContent([]byte(text)); err != nil {
			t.Fatal(err)
		}
		for file, want := range map[string]string{"/srv/a.ts": "text, of a\n", "/srv/c.ts": "text of c", "/srv/b.ts": "", "": ""} {
			if got, ok := m.Content(file); got != want || ok != (want != "") {
				t.Errorf("%s: text of %s = %q, %t, want %q", name, file, got, ok, want)
			}
		}
		if got := m.Size(); got < before+len("text, of a\ntext of c") {
			t.Errorf("%s: size = %d, and %d with texts", name, before, got)
		}
		m.DropContent()
		if got := m.Size(); got != before {
			t.Errorf("%s: size without texts = %d, want %d", name, got, before)
		}
	}
}

func TestSourcesInBrokenMapsAreErrors(t *testing.T) {
	for text, want := range map[string]error{
		`{"sources":["a"],"sourcesContent":[1]}`:                                         errNotMap,
		`{"sources":["a"],"sourcesContent":{"a":"b"}}`:                                   errNotMap,
		`{"sources":["a"],"sourcesContent":[` + strings.Repeat(`"",`, maxTexts) + `""]}`: errTexts,
	} {
		if err := new(Map).AddContent([]byte(text)); !errors.Is(err, want) {
			t.Errorf("error of %.60s = %v, want %v", text, err, want)
		}
	}
	var none *Map
	if _, ok := none.Content("a"); ok {
		t.Error("no map has a text")
	}
}
