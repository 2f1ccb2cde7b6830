package jscore

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// censusFacts is what census.js reports about its objects.
type censusFacts struct {
	Keep    int            `json:"keep"`    // of each class
	Drop    int            `json:"drop"`    // of each class, to which nothing refers any longer
	Classes []string       `json:"classes"` // their names
	Queried map[string]int `json:"queried"` // how many V8 itself counted before any were dropped, subclasses included
}

// censusVersions are the versions on which heap analysis is tested.
func censusVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "22.23.3", "26.10.0"}
}

// censusDump returns a core of a process that keeps and drops some objects of each
// class, and what the process reports about them. more is passed to census.js.
func censusDump(t testing.TB, version string, keep, drop int, more ...string) (*Dump, censusFacts) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "census.js", Args: append([]string{strconv.Itoa(keep), strconv.Itoa(drop)}, more...),
	})
	var facts censusFacts
	target.Facts(&facts)
	d := dumped(t, target.PID, Options{})
	target.Stop()
	return d, facts
}

// censusGraph returns the objects of such a core.
func censusGraph(t testing.TB, version string, keep, drop int) (*Graph, censusFacts) {
	t.Helper()
	d, facts := censusDump(t, version, keep, drop)
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatalf("Graph: %v", err)
	}
	return g, facts
}

// TestHeap analyzes one core of each version in every way.
func TestHeap(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			g, facts := censusGraph(t, version, 10_000, 5_000)
			for _, test := range []struct {
				name string
				run  func(*testing.T, *Graph, censusFacts)
			}{
				{"a census counts what the program made", censusCountsWhatTheProgramMade},
				{"a census tells shapes", censusTellsShapes},
				{"what is selected is what is counted", selectedAreThoseCounted},
				{"functions are counted by definition", functionsAreCountedByDefinition},
				{"counting ends when it is told to", countingEndsWhenToldTo},
				{"retained is of whole structures", retainedIsOfWholeStructures},
				{"references are found", referencesAreFound},
				{"a path leads from a root", pathLeadsFromARoot},
				{"variables of closures are named", variablesOfClosuresAreNamed},
				{"references are bounded", referencesAreBounded},
				{"searches end with their context", searchesEndWithTheirContext},
				{"a census reads as mdb's", censusReadsAsMdbs},
				{"leaks are suspected", leaksAreSuspected},
				{"classes retain no more than all", classesRetainNoMoreThanAll},
				{"strings are counted", stringsAreCounted},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, g, facts) })
			}
		})
	}
}

func censusCountsWhatTheProgramMade(t *testing.T, g *Graph, facts censusFacts) {
	c := g.Census(t.Context(), CensusOptions{ByClass: true, Live: true})
	live := map[string]int{}
	for _, group := range c.Groups {
		live[group.Class] += group.Count
	}
	for _, class := range facts.Classes {
		if got, want := live[class], counted(class, facts.Keep); got != want {
			t.Errorf("objects of %s = %d, want %d", class, got, want)
		}
	}
	live["Point"] += live["Point3"] // which V8 counts too
	for class, want := range facts.Queried {
		if got := live[class]; got != want {
			t.Errorf("objects of %s = %d, want %d, as V8 counts", class, got, want)
		}
	}
}

// mostOf returns the largest group of a census.
func mostOf(t *testing.T, g *Graph, o CensusOptions) *Group {
	t.Helper()
	c := g.Census(t.Context(), o)
	if len(c.Groups) == 0 {
		t.Fatalf("no objects of %+v among %d, %d of them live; doubts: %+v", o, g.Len(), g.Live, g.Doubts)
	}
	return c.Groups[0]
}

func censusTellsShapes(t *testing.T, g *Graph, facts censusFacts) {
	for class, want := range map[string][]string{
		"Point": {"x", "y"}, "Point3": {"x", "y", "z"}, "Named": {"name", "id"},
		"Holder": {"list", "next"}, "Legacy": {"value", "call"},
	} {
		most := mostOf(t, g, CensusOptions{Class: class, Live: true})
		if diff := cmp.Diff(want, most.Properties); diff != "" || most.Count < facts.Keep {
			t.Errorf("%d objects of %s have other properties (-want +got):\n%s", most.Count, class, diff)
		}
		o, err := g.heap.Object(v8.Value(most.Address))
		if got, _ := g.heap.Class(o); err != nil || got != class {
			t.Errorf("the object at %v is of %q, %v, want %s", most.Address, got, err, class)
		}
	}
}

func selectedAreThoseCounted(t *testing.T, g *Graph, facts censusFacts) {
	for _, o := range []CensusOptions{
		{Class: "Named"},
		{Class: "Named", Live: true},
		{Property: "z"},
		{Kind: "array"},
		{Kind: "string", Live: true},
		{Kind: "FixedArray", Internal: true},
		{},
		{Internal: true},
	} {
		want := g.Census(t.Context(), o).Count
		got := 0
		for range g.Select(t.Context(), o) {
			got++
		}
		if got != want || got == 0 {
			t.Errorf("%+v selects %d objects, want %d", o, got, want)
		}
	}
	group := mostOf(t, g, CensusOptions{Class: "Holder"})
	got := 0
	for range g.Alike(t.Context(), group.object, CensusOptions{}) {
		got++
	}
	if got != group.Count {
		t.Errorf("objects like the one at %v = %d, want %d", group.Address, got, group.Count)
	}
}

func functionsAreCountedByDefinition(t *testing.T, g *Graph, facts censusFacts) {
	f := g.Functions(t.Context(), FunctionOptions{File: "census.js", Live: true})
	if len(f.Definitions) == 0 {
		t.Fatal("no functions of census.js")
	}
	arrow := f.Definitions[0]
	if arrow.Count != facts.Keep {
		t.Errorf("closures of %s = %d, want %d", arrow.Name, arrow.Count, facts.Keep)
	}
	const line = 13 // of "this.call = () => i"
	if arrow.Name != "Legacy.call" && arrow.Name != "call" && arrow.Name != "Legacy" || arrow.Line != line {
		t.Errorf("most closures are of %s in line %d, want Legacy.call in line %d", arrow.Name, arrow.Line, line)
	}
	for _, d := range g.Functions(t.Context(), FunctionOptions{Name: "make"}).Definitions {
		if !strings.Contains(d.Name, "make") {
			t.Errorf("functions with make in their names have %q", d.Name)
		}
	}
}

func countingEndsWhenToldTo(t *testing.T, g *Graph, _ censusFacts) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, f, s := g.Census(ctx, CensusOptions{Internal: true}), g.Functions(ctx, FunctionOptions{}), g.Strings(ctx, StringOptions{})
	if c.Count != 0 || len(f.Definitions) != 0 || s.Count != 0 {
		t.Errorf("counted %d objects, %d functions, %d strings, want none", c.Count, len(f.Definitions), s.Count)
	}
}

// counted is the apparent number of objects of a class of which the program keeps n: a
// subclass's prototype looks like one more.
func counted(class string, n int) int {
	if class == "Point" {
		return n + 1
	}
	return n
}

// graphOf returns the objects of a process, from a core.
func graphOf(t testing.TB, pid int) *Graph {
	t.Helper()
	g, err := dumped(t, pid, Options{}).Graph(t.Context())
	if err != nil {
		t.Fatalf("Graph: %v", err)
	}
	return g
}
