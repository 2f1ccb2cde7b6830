package postmortem

import (
	"path/filepath"
	"strconv"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// censusFacts are what census.js says of its objects.
type censusFacts struct {
	Keep    int            `json:"keep"`    // of each class
	Drop    int            `json:"drop"`    // of each class, that nothing refers to any more
	Classes []string       `json:"classes"` // their names
	Queried map[string]int `json:"queried"` // how many V8 itself counted before it dropped any, with subclasses'
}

// censusVersions are the versions that what is told of a heap is tested on.
func censusVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "20.20.2", "22.23.3", "24.21.0", "26.10.0"}
}

// censusDump returns a core of a process that keeps and drops some objects of each
// class, and what it says of them.
func censusDump(t testing.TB, version string, keep, drop int) (*Dump, censusFacts) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "census.js", Args: []string{strconv.Itoa(keep), strconv.Itoa(drop)},
	})
	var facts censusFacts
	target.Facts(&facts)
	path := filepath.Join(t.TempDir(), "core")
	if _, err := core.Write(t.Context(), target.PID, path, core.Options{}); err != nil {
		t.Fatalf("core.Write: %v", err)
	}
	target.Stop()
	d, err := Open(path, Options{})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
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

// TestHeap looks at one core of each version in all ways that there are.
func TestHeap(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			g, facts := censusGraph(t, version, 10_000, 5_000)
			for _, test := range []struct {
				name string
				run  func(*testing.T, *Graph, censusFacts)
			}{
				{"every object is found by its address", everyObjectIsFoundByItsAddress},
				{"objects agree with V8's own reader", objectsAgreeWithV8Reader},
				{"pages are in spaces", pagesAreInSpaces},
				{"live objects are told from dead ones", liveObjectsAreToldFromDeadOnes},
				{"a weak map keeps the values of live keys only", weakMapKeepsValuesOfLiveKeysOnly},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, g, facts) })
			}
		})
	}
}
