package heap

import (
	"context"

	"ustack/symbolize/v8"
)

// LinkAt returns what an object has at an offset.
func LinkAt(g *Graph, o v8.Object, offset int) Link { return g.link(o, offset) }

// Allocated returns the addresses of what a program has from malloc.
func Allocated(ctx context.Context, m Memory) ([]uint64, error) {
	memory, err := outsideOf(ctx, &Objects{memory: m}, nil)
	var found []uint64
	for _, area := range memory.malloced {
		for _, c := range inUse(m, area) {
			found = append(found, c.start)
		}
	}
	return found, err
}
