package nodejs

import (
	"cmp"
	"context"
	"slices"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Listeners are the listeners for one event of one EventEmitter.
type Listeners struct {
	Emitter value.Brief `json:"emitter"`
	Event   string      `json:"event"`
	Count   int         `json:"count"`
}

// EventListeners returns the events of live EventEmitters with least or more listeners,
// those with most first. An emitter keeps them in an object, _events: an array for each
// event that has more than one. Once ctx is done it returns at once.
func EventListeners(ctx context.Context, g *heap.Graph, h *v8.Heap, least int) []Listeners {
	var found []Listeners
	for id := range census.Select(ctx, g, census.Options{Property: "_events", Live: true}) {
		emitter := g.Object(id)
		events, ok, err := h.Own(emitter, "_events")
		if err != nil || !ok {
			continue
		}
		o, err := h.Object(events)
		if err != nil {
			continue // undefined, in a prototype
		}
		properties, _ := h.Properties(o) // what cannot be read is not counted
		for _, p := range properties {
			array, err := h.Object(p.Value)
			if err != nil {
				continue
			}
			if count, ok := h.Length(array); ok && count >= least {
				found = append(found, Listeners{value.BriefOf(h, emitter.Ref()), p.Name, count})
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Listeners) int { return cmp.Compare(b.Count, a.Count) })
	return found
}
