package postmortem

import (
	"strconv"
	"testing"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// TestChaosCoresDuringCollections takes cores of a program that makes garbage without
// a pause, at whatever moment: most are within a collection. Each has the number of
// live objects that the program always has, give or take what it is just making.
func TestChaosCoresDuringCollections(t *testing.T) {
	const count, making = 30_000, 2
	versions := []string{"18.20.8", "26.10.0"}
	if matrix() || nodetest.Rounds(0, 1) > 0 {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Script: "churn.js", Args: []string{strconv.Itoa(count)}, Flags: []string{"--max-semi-space-size=4"},
			})
			for i := range nodetest.Rounds(3, 40) {
				g := graphOf(t, target.PID)
				live, _ := countByClass(t, g)
				for class, want := range map[string]int{"Live": count, "Part": count, "Held": 2 * count} {
					if got := live[class]; got < want-making || got > want+making {
						t.Errorf("core %d: live objects of %s = %d, want %d; doubts: %+v", i, class, got, want, g.Doubts)
					}
				}
				checkRing(t, g, count)
			}
		})
	}
}

// checkRing looks at the list of all objects of the class Live, which is large and
// often young.
func checkRing(t *testing.T, g *Graph, count int) {
	t.Helper()
	for id := range g.Select(t.Context(), CensusOptions{Kind: "array", Live: true}) {
		array := g.Object(id)
		if length, _ := g.heap.Length(array); length != count {
			continue
		}
		seen := 0
		err := g.heap.Elements(array, func(v8.Element) bool { seen++; return true })
		if err != nil || seen != count {
			t.Errorf("elements of the list = %d, %v, want %d", seen, err, count)
		}
		return
	}
	t.Errorf("no live list of %d objects", count)
}
