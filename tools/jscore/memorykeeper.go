package jscore

import (
	"context"

	"ustack/symbolize/v8/heap"
)

// keeper returns the JavaScript object that alone keeps most of some memory alive, and how
// much: of the objects without which at least half would be dead, the one that keeps least
// else. The memory is that outside V8's heap of live objects of the kinds that belongs
// accepts, or that of all live objects if it is nil. ok is false if there is no such object.
func (d *Dominated) keeper(ctx context.Context, belongs func(kind string) bool) (id heap.ID, bytes uint64, ok bool) {
	g := d.graph
	kept, total := d.shares(ctx, belongs)
	for at, w := range kept {
		if w < total/2 || !g.heap.IsReceiver(g.Object(at)) {
			continue
		}
		retained, least := d.Retained(at), d.Retained(id)
		if !ok || retained < least || retained == least && at < id {
			id, bytes, ok = at, w, true
		}
	}
	return id, bytes, ok && ctx.Err() == nil
}

// shares returns how much of some memory objects keep alive, and how much there is.
func (d *Dominated) shares(ctx context.Context, belongs func(kind string) bool) (kept map[heap.ID]uint64, total uint64) {
	g, climbs := d.graph, 0
	kept = make(map[heap.ID]uint64)
	for id := range g.All(ctx) {
		switch {
		case !g.IsLive(id):
		case belongs == nil:
			if total = d.Total(); d.Retained(id) >= total/2 {
				kept[id] = d.Retained(id)
			}
		case g.Outside(id) > 0 && belongs(g.Map(id).Kind):
			w := g.Outside(id)
			total += w
			for at, by := d.By(id); by && climbs < maxClimbs; at, by = d.By(at) {
				kept[at] += w
				climbs++
			}
		}
	}
	return kept, total
}
