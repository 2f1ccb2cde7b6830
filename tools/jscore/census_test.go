package jscore

import (
	"strconv"
	"testing"

	"ustack/symbolize/v8/census"
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
				{"retained is of whole structures", retainedIsOfWholeStructures},
				{"references are found", referencesAreFound},
				{"a path leads from a root", pathLeadsFromARoot},
				{"variables of closures are named", variablesOfClosuresAreNamed},
				{"references are bounded", referencesAreBounded},
				{"searches end with their context", searchesEndWithTheirContext},
				{"a census reads as mdb's", censusReadsAsMdbs},
				{"an interrupted search counts what it found", interruptedSearchCountsWhatItFound},
				{"interrupted results say so", interruptedResultsSaySo},
				{"leaks are suspected", leaksAreSuspected},
				{"classes retain no more than all", classesRetainNoMoreThanAll},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, g, facts) })
			}
		})
	}
}

// TestIsolateInAMappingOfItsOwn has malloc map large chunks separately that are not as large
// as those that it maps by default.
func TestIsolateInAMappingOfItsOwn(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Script: "census.js", Args: []string{"1000", "500"}, Env: []string{"MALLOC_MMAP_THRESHOLD_=40000"},
			})
			g := graphOf(t, target.PID)
			if g.Doubts.Loose {
				t.Errorf("doubts = %+v, want that all roots are known", g.Doubts)
			}
			if got, want := mostOf(t, g, CensusOptions{Class: "Point3", Live: true}).Count, 1000; int(got) != want {
				t.Errorf("live objects = %d, want %d", got, want)
			}
		})
	}
}

// mostOf returns the largest group of a census.
func mostOf(t *testing.T, g *Graph, o CensusOptions) *census.Group {
	t.Helper()
	c := g.Census(t.Context(), o)
	if len(c.Groups) == 0 {
		t.Fatalf("no objects of %+v among %d, %d of them live; doubts: %+v", o, g.Len(), g.Live, g.Doubts)
	}
	return c.Groups[0]
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
