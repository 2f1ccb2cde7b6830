package jscore

import (
	"fmt"
	"slices"
	"testing"
)

// TestGlobalsAreThoseThatTheProgramAdded has global variables of each kind, and none.
func TestGlobalsAreThoseThatTheProgramAdded(t *testing.T) {
	const end = "setImmediate(() => { require('fs').writeFileSync('truth.json', '[]'); process.abort(); });\n"
	const text = `leaked = { big: [1, 2] };
globalThis.counter = 41;
globalThis[Symbol('own')] = 'value';
globalThis.setTimeout = function mock() {};
Object.defineProperty(globalThis, 'lazy', { get() { return 1; }, configurable: true });
globalThis.fs = require('fs');
require('vm').runInThisContext('let declared = 7; const named = "text"; class Shared {}; var variable = 8; function added() {}');
try { require('vm').runInThisContext('throw 1; let unset;'); } catch {}
require('vm').createContext({ hidden: 1 });
`
	want := []string{
		"property [own]: value", "property added: added", "property counter: 41", "property fs: ", "property lazy: accessor", "property leaked: ",
		"property setTimeout: mock, replaced", "property variable: 8", "script Shared: Shared", "script declared: 7", "script named: text", "script unset: unset",
	}
	for _, version := range variableVersions() {
		for text, want := range map[string][]string{text: want, "": nil} {
			t.Run(fmt.Sprintf("%s/%d", version, len(want)), func(t *testing.T) {
				d, _, _ := aborted(t, version, text+end)
				g, err := d.Graph(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, v := range d.Globals(g).Globals {
					got = append(got, described(v))
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("globals = %q, want %q", got, want)
				}
			})
		}
	}
}

// described returns a global's kind, name and value.
func described(v Global) string {
	text := v.Kind + " " + v.Name + ": "
	if v.Symbol {
		text = v.Kind + " [" + v.Name + "]: "
	}
	switch {
	case v.Accessor:
		text += "accessor"
	case v.Unset:
		text += "unset"
	case v.Value != nil:
		text += string(v.Value.Text)
	}
	if v.Replaces {
		text += ", replaced"
	}
	return text
}
