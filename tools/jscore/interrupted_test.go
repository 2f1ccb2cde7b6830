package jscore

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// An endingContext is done once it was asked more often than ends whether it is.
type endingContext struct {
	context.Context
	asked, ends int
}

func (c *endingContext) Err() error {
	if c.asked++; c.asked > c.ends {
		return context.Canceled
	}
	return nil
}

// interruptedSearchCountsWhatItFound interrupts the search for objects at several times.
func interruptedSearchCountsWhatItFound(t *testing.T, g *Graph, _ censusFacts) {
	const never = 1 << 30
	checks := &endingContext{Context: t.Context(), ends: never}
	if _, err := g.dump.Graph(checks); err != nil {
		t.Fatal(err)
	}
	whole := g.Census(t.Context(), CensusOptions{})
	before := -1
	for _, ends := range []int{0, checks.asked / 8, checks.asked / 4, checks.asked - 1} {
		part, err := g.dump.Graph(&endingContext{Context: t.Context(), ends: ends})
		if !errors.Is(err, context.Canceled) || part == nil {
			t.Fatalf("interrupted at check %d of %d: graph %v, error %v; want a graph and that it was canceled", ends, checks.asked, part, err)
		}
		c := part.Census(t.Context(), CensusOptions{})
		if !c.Partial() || c.Live != 0 || c.Count < before || c.Count > whole.Count {
			t.Errorf("interrupted at check %d of %d: partial %v, %d objects after %d of %d, %d live; want some, none of them live",
				ends, checks.asked, c.Partial(), c.Count, before, whole.Count, c.Live)
		}
		before = c.Count
	}
	if before != whole.Count {
		t.Errorf("objects when the last check was interrupted = %d, want all %d", before, whole.Count)
	}
}

// interruptedResultsSaySo counts and compares objects after an interrupt.
func interruptedResultsSaySo(t *testing.T, g *Graph, _ censusFacts) {
	d, err := g.Dominated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, ends := range []int{1, 1 << 30} {
		ctx := &endingContext{Context: t.Context(), ends: ends}
		for _, r := range []interface {
			Result
			Partial() bool
		}{g.Census(ctx, CensusOptions{}), d.Retainers(ctx, CensusOptions{}, 5)} {
			var out strings.Builder
			if err := r.WriteText(&out); err != nil {
				t.Fatal(err)
			}
			want := ends == 1
			if got := strings.Contains(out.String(), "interrupted: "); got != want || r.Partial() != want {
				t.Errorf("%T after %d checks: says that it was interrupted %v, partial %v, want %v", r, ends, got, r.Partial(), want)
			}
		}
	}
}
