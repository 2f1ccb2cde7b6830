package jscore

import (
	"encoding/json"
	"strings"
	"testing"

	"ustack/symbolize/v8/value"
)

// TestLoneSurrogatesAreNamed has names and keys with halves of surrogate pairs.
func TestLoneSurrogatesAreNamed(t *testing.T) {
	const text = `
function last() {
	const odd = { ['x\ud800']: 1, ['x\udfff']: 2, 'x\\ud800': 3 }, map = new Map([['k\udc00', 4]]), symbols = { [Symbol('s\ud801')]: 5 };
	globalThis.list = ['the text \ud800', 'the text \udfff'].map(t => t.padStart(100, '-'));
	process.abort(odd, map, symbols);
}
last();`
	for _, version := range variableVersions() {
		t.Run(version, func(t *testing.T) {
			d := abortedCore(t, version, text)
			for path, want := range map[string]string{
				`odd["x\ud800"]`: "1", `odd["x\udfff"]`: "2", `map["k\udc00"]`: "4", `symbols[s\ud801]`: "5",
				`odd`: `{"name":"x\ud800","value":{"type":"number","text":"1"}}`, `symbols`: `"name":"s\ud801","kind":"symbol"`,
			} {
				p, err := d.PrintVariables(FrameID{}, PrintOptions{Paths: []string{path}, Options: value.Options{Depth: 1}})
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				b, err := json.Marshal(p.Values[0].Node)
				if err != nil {
					t.Fatal(err)
				}
				if got := string(b); !strings.Contains(got, want) {
					t.Errorf("%s = %s, want %s", path, got, want)
				}
			}
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := g.Strings(t.Context(), StringOptions{Contains: `---the text \ud800`, Least: 100})
			if found.Count != 1 || found.Texts[0].Count != 1 {
				t.Errorf("strings = %+v, want one", found.StringCensus)
			}
			groups := g.Census(t.Context(), CensusOptions{Property: `x\udfff`}).Groups
			if b, _ := json.Marshal(groups); len(groups) != 1 || !strings.Contains(string(b), `["x\ud800","x\udfff","x\\ud800"]`) {
				t.Errorf("objects = %s, want one", b)
			}
		})
	}
}
