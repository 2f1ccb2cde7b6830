package jscore

import (
	"context"
	"maps"
	"slices"
	"strings"
)

// Names are those by which objects can be asked for.
type Names struct {
	Classes []string // of the objects, in brackets for those of V8
	Kinds   []string // V8's classes; those of JavaScript objects also without "JS"
}

// Names returns the names of the objects' classes and kinds.
func (g *Graph) Names(ctx context.Context) Names {
	classes, kinds := map[string]bool{}, map[string]bool{"string": true}
	for _, group := range g.Census(ctx, CensusOptions{Internal: true, ByClass: true}).Groups {
		classes[group.Class] = true
	}
	for _, t := range g.heap.Binary().InstanceTypes() {
		kinds[t.Class] = true
		if short, ok := strings.CutPrefix(t.Class, "JS"); ok {
			kinds[strings.ToLower(short)] = true
		}
	}
	delete(kinds, "")
	for id := range g.All(ctx) { // kinds that V8's metadata does not name
		kinds[g.Map(id).Kind] = true
	}
	return Names{slices.Sorted(maps.Keys(classes)), slices.Sorted(maps.Keys(kinds))}
}
