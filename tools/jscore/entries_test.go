package jscore

import (
	"fmt"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
)

// entriesProgram has objects of classes of their own in collections.
const entriesProgram = `class ByText {} class ByNumber {} class BySymbol {} class ByObject {} class AKey {} class InSet {}
globalThis.map = new Map([['a key', new ByText()], [7, new ByNumber()], [Symbol('tag'), new BySymbol()], [new AKey(), new ByObject()]]);
for (let i = 0; i < 100; i++) map.set('more' + i, i);
globalThis.set = new Set([new InSet()]);
console.log('ready');
setInterval(() => {}, 1e8);`

// TestEntriesAreNamedByTheirKeys finds what refers to objects in collections.
func TestEntriesAreNamedByTheirKeys(t *testing.T) {
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			d := attached(t, calls.StartSource(t, version, entriesProgram).PID)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for class, want := range map[string]string{
				"ByText": `"a key"`, "ByNumber": "7", "BySymbol": "tag", "ByObject": "AKey ", "AKey": "(key) AKey ", "InSet": "",
			} {
				of := g.Instances(t.Context(), CensusOptions{Class: class, Live: true}).Values
				if len(of) != 1 {
					t.Fatalf("objects of class %s = %d, want 1", class, len(of))
				}
				checkEntry(t, g, v8.Value(of[0].Address), want)
			}
		})
	}
}

func checkEntry(t *testing.T, g *Graph, v v8.Value, want string) {
	t.Helper()
	matches := func(l heap.Link) bool {
		return l.How == heap.ByEntry && strings.HasPrefix(string(l.Name), want) && (want != "" || l.Name == "")
	}
	refs, err := g.References(t.Context(), v, RefOptions{Live: true})
	if err != nil || len(refs.Refs) != 1 || !matches(refs.Refs[0].Link) {
		t.Errorf("references = %+v, %v, want the entry %s", refs.Refs, err, want)
	}
	path, err := g.Path(t.Context(), v)
	if err != nil || len(path.Steps) == 0 || !matches(path.Steps[len(path.Steps)-1].Link) {
		t.Errorf("path = %+v, %v, want the entry %s at its end", path, err, want)
	}
}
