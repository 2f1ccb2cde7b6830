package census_test

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// censusFacts is what census.js reports about its objects.
type censusFacts struct {
	Keep    int            `json:"keep"`    // of each class
	Drop    int            `json:"drop"`    // of each class, to which nothing refers any longer
	Classes []string       `json:"classes"` // their names
	Queried map[string]int `json:"queried"` // how many V8 itself counted before any were dropped, subclasses included
}

// versions are those on which heaps are counted.
func versions() []string {
	if os.Getenv("USTACK_MATRIX") == "1" {
		return nodetest.Versions
	}
	return []string{"18.20.8", "22.23.3", "26.10.0"}
}

// graphOf returns the objects of a process, from a snapshot.
func graphOf(t testing.TB, pid int) *jscore.Graph {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// counts returns the objects of a process that keeps and drops some objects of each class,
// and what the process reports about them.
func counts(t *testing.T, version string, keep, drop int) (*jscore.Graph, censusFacts) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "census.js", Args: []string{strconv.Itoa(keep), strconv.Itoa(drop)},
	})
	var facts censusFacts
	target.Facts(&facts)
	g := graphOf(t, target.PID)
	target.Stop()
	return g, facts
}

// TestCensus counts one heap of each version in every way.
func TestCensus(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			g, facts := counts(t, version, 10_000, 5_000)
			for _, test := range []struct {
				name string
				run  func(*testing.T, *jscore.Graph, censusFacts)
			}{
				{"a census counts what the program made", censusCountsWhatTheProgramMade},
				{"a census tells shapes", censusTellsShapes},
				{"what is selected is what is counted", selectedAreThoseCounted},
				{"functions are counted by definition", functionsAreCountedByDefinition},
				{"counting ends when canceled", countingEndsWhenCanceled},
				{"strings are counted", stringsAreCounted},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, g, facts) })
			}
		})
	}
}

// maxLost is how many bytes of a page may belong to no object: memory that V8 reserved
// for its next objects still holds the previous ones.
const maxLost = 1 << 18

// TestReleasesCensus counts objects in releases between which V8 changed, from the first
// of a line to the newest.
func TestReleasesCensus(t *testing.T) {
	for _, release := range nodetest.ReleasesOr("18.0.0", "24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "jscore")
			g, facts := counts(t, release, 20_000, 3_000)
			if g.Doubts.Loose || g.Doubts.Overlong > 0 || g.Doubts.Dangling > 0 || g.Doubts.Lost > maxLost {
				t.Errorf("doubts = %+v, want none", g.Doubts)
			}
			censusCountsWhatTheProgramMade(t, g, facts)
			censusTellsShapes(t, g, facts)
		})
	}
}

// functions counts closures.
func functions(ctx context.Context, g *jscore.Graph, o census.FunctionOptions) []*jscore.Definition {
	return g.Functions(ctx, o).Definitions
}

func censusCountsWhatTheProgramMade(t *testing.T, g *jscore.Graph, facts censusFacts) {
	c := census.Take(t.Context(), g.Graph, census.Options{ByClass: true, Live: true})
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
func mostOf(t *testing.T, g *jscore.Graph, o census.Options) *census.Group {
	t.Helper()
	c := census.Take(t.Context(), g.Graph, o)
	if len(c.Groups) == 0 {
		t.Fatalf("no objects of %+v among %d, %d of them live; doubts: %+v", o, g.Len(), g.Live, g.Doubts)
	}
	return c.Groups[0]
}

func censusTellsShapes(t *testing.T, g *jscore.Graph, facts censusFacts) {
	for class, want := range map[string][]value.Text{
		"Point": {"x", "y"}, "Point3": {"x", "y", "z"}, "Named": {"name", "id"},
		"Holder": {"list", "next"}, "Legacy": {"value", "call"},
	} {
		most := mostOf(t, g, census.Options{Class: class, Live: true})
		if diff := cmp.Diff(want, most.Properties); diff != "" || most.Count < facts.Keep {
			t.Errorf("%d objects of %s have other properties (-want +got):\n%s", most.Count, class, diff)
		}
		o, err := g.Heap().Object(v8.Value(most.Address))
		if got, _ := g.Heap().Class(o); err != nil || got != class {
			t.Errorf("the object at %v is of %q, %v, want %s", most.Address, got, err, class)
		}
	}
}

func selectedAreThoseCounted(t *testing.T, g *jscore.Graph, facts censusFacts) {
	for _, o := range []census.Options{
		{Class: "Named"},
		{Class: "Named", Live: true},
		{Property: "z"},
		{Kind: "array"},
		{Kind: "string", Live: true},
		{Kind: "FixedArray", Internal: true},
		{},
		{Internal: true},
	} {
		want := census.Take(t.Context(), g.Graph, o).Count
		got := 0
		for range census.Select(t.Context(), g.Graph, o) {
			got++
		}
		if got != want || got == 0 {
			t.Errorf("%+v selects %d objects, want %d", o, got, want)
		}
	}
	group := mostOf(t, g, census.Options{Class: "Holder"})
	got := 0
	for range census.Alike(t.Context(), g.Graph, group.Object, census.Options{}) {
		got++
	}
	if got != group.Count {
		t.Errorf("objects like the one at %v = %d, want %d", group.Address, got, group.Count)
	}
}

func functionsAreCountedByDefinition(t *testing.T, g *jscore.Graph, facts censusFacts) {
	f := functions(t.Context(), g, census.FunctionOptions{File: "census.js", Live: true})
	if len(f) == 0 {
		t.Fatal("no functions of census.js")
	}
	arrow := f[0]
	if arrow.Count != facts.Keep {
		t.Errorf("closures of %s = %d, want %d", arrow.Name, arrow.Count, facts.Keep)
	}
	const line = 13 // of "this.call = () => i"
	if arrow.Name != "Legacy.call" && arrow.Name != "call" && arrow.Name != "Legacy" || arrow.Line != line {
		t.Errorf("most closures are of %s in line %d, want Legacy.call in line %d", arrow.Name, arrow.Line, line)
	}
	for _, d := range functions(t.Context(), g, census.FunctionOptions{Name: "make"}) {
		if !strings.Contains(d.Name, "make") {
			t.Errorf("functions with make in their names have %q", d.Name)
		}
	}
}

func countingEndsWhenCanceled(t *testing.T, g *jscore.Graph, _ censusFacts) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c, f, s := census.Take(ctx, g.Graph, census.Options{Internal: true}), functions(ctx, g, census.FunctionOptions{}), census.Strings(ctx, g.Graph, census.StringOptions{})
	if c.Count != 0 || len(f) != 0 || s.Count != 0 {
		t.Errorf("counted %d objects, %d functions, %d strings, want none", c.Count, len(f), s.Count)
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

// TestCensusLeavesOutWhatIsV8s tests errors and functions, which have internal V8
// properties without a name.
func TestCensusLeavesOutWhatIsV8s(t *testing.T) {
	target := calls.StartSource(t, "24.21.0", `class Wrong extends Error { #hidden = 1; [Symbol.for('tag')] = this.#hidden; }
globalThis.held = new Wrong('text');
setInterval(() => {}, 60e3);
console.log('ready');`)
	g := graphOf(t, target.PID)
	groups := census.Take(t.Context(), g.Graph, census.Options{}).Groups
	for _, group := range groups {
		if slices.Contains(group.Properties, "") {
			t.Errorf("properties of %s at %v = %q, want all of them named", group.Class, group.Address, group.Properties)
		}
	}
	instance := slices.IndexFunc(groups, func(group *census.Group) bool {
		return group.Class == "Wrong" && slices.Contains(group.Properties, "stack")
	})
	if instance < 0 {
		t.Fatal("no instance of Wrong")
	}
	if got, want := groups[instance].Properties, []value.Text{"stack", "message", "#hidden", "tag"}; !slices.Equal(got, want) {
		t.Errorf("properties of Wrong = %q, want %q", got, want)
	}
}
