package jscore

import (
	"testing"
)

// counted is the apparent number of objects of a class of which the program keeps n: a
// subclass's prototype looks like one more.
func counted(class string, n int) int {
	if class == "Point" {
		return n + 1
	}
	return n
}

func liveObjectsAreToldFromDeadOnes(t *testing.T, g *Graph, facts censusFacts) {
	live, dead := countByClass(t, g)
	for _, class := range facts.Classes {
		if got, want := live[class], counted(class, facts.Keep); got != want {
			t.Errorf("live objects of %s = %d, want %d", class, got, want)
		}
		// V8 may leave a copy behind where two of its threads have moved an object.
		if got, most := dead[class], facts.Drop+facts.Drop/100; got > most {
			t.Errorf("dead objects of %s = %d, want at most %d", class, got, most)
		}
	}
}

// countByClass returns the number of objects of each class.
func countByClass(t *testing.T, g *Graph) (live, dead map[string]int) {
	t.Helper()
	live, dead = map[string]int{}, map[string]int{}
	for id := range ID(g.Len()) {
		class, err := g.heap.Class(g.Object(id))
		if err != nil {
			continue // a garbage map
		}
		if g.IsLive(id) {
			live[class]++
		} else {
			dead[class]++
		}
	}
	return live, dead
}

func weakMapKeepsValuesOfLiveKeysOnly(t *testing.T, g *Graph, _ censusFacts) {
	live := map[string]int{}
	for id := range ID(g.Len()) {
		o := g.Object(id)
		if o.Map.Kind != "JSObject" || o.Map.Own != 1 || !g.IsLive(id) {
			continue
		}
		properties, err := g.heap.Properties(o)
		if err == nil && len(properties) == 1 {
			live[properties[0].Name]++
		}
	}
	if got := live["onlyByKey"]; got != 1 {
		t.Errorf("live values of the live key = %d, want 1", got)
	}
	if got := live["neverAgain"]; got != 0 {
		t.Errorf("live values of 100 dead keys = %d, want none", got)
	}
}

func TestMarkFollowsPairsToTheEnd(t *testing.T) {
	// Table 0 has the pairs 2→3, 1→2 and 5→6; 1 is a root, 5 is not.
	g := &Graph{Objects: &Objects{kind: make([]uint32, 7)}, Roots: []Root{{Object: 0}, {Object: 1}}}
	g.out.first = make([]uint32, 8)
	g.pairs = []weakPair{{0, 2, 3}, {0, 1, 2}, {0, 5, 6}}
	if err := g.mark(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, want := range []bool{true, true, true, true, false, false, false} {
		if got := g.IsLive(ID(id)); got != want {
			t.Errorf("object %d is live = %v, want %v", id, got, want)
		}
	}
	if g.Live != 4 {
		t.Errorf("live objects = %d, want 4", g.Live)
	}
}
