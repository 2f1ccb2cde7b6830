package jscore

import (
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// keeper is a program whose last function has an object of each kind.
const keeper = `
class Grown { constructor() { this.first = 1; } }
function last() {
	const grown = new Grown(), large = {}, list = [1, 2], both = { 5: 1, x: 2 }, none = {}, emptied = { x: 1 };
	for (let i = 0; i < 20; i++) grown['more' + i] = i;
	for (let i = 0; i < 2000; i++) large['key' + i] = i;
	delete emptied.x;
	process.abort(grown, large, list, both, none, emptied);
}
last();`

func TestStorageIsWhereV8KeepsProperties(t *testing.T) {
	for _, version := range variableVersions() {
		t.Run(version, func(t *testing.T) {
			d := abortedCore(t, version, keeper)
			for path, want := range map[string]string{
				"grown": `in-object, "properties" array`, "large": "dictionary", "list": "numeric-named, map", "both": "numeric-named, in-object",
				"none": "", "emptied": "", "list[0]": "",
			} {
				p, err := d.PrintVariables(FrameID{}, PrintOptions{Paths: []string{path}, Storage: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(p.Values[0].Node.Storage, ", "); got != want {
					t.Errorf("storage of %s = %s, want %s", path, got, want)
				}
			}
		})
	}
}

// abortedCore returns the core of a program that aborts.
func abortedCore(t *testing.T, version, text string) *Dump {
	t.Helper()
	core, _ := nodetest.Killed(t, nodetest.Node(t, version), "-e", text)
	return opened(t, core, Options{})
}
