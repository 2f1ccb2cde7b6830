package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
)

// A MemoryDifference is what grew and what shrank of a process's resident memory.
type MemoryDifference struct {
	Before  uint64       `json:"before"` // bytes
	After   uint64       `json:"after"`
	Parts   []PartGrowth `json:"parts"` // those that grew most first
	Exact   bool         `json:"exact"` // both cores say which pages were in memory
	Verdict Verdict      `json:"verdict"`
}

// A PartGrowth is how a part of the memory changed.
type PartGrowth struct {
	Name   string `json:"name"` // "malloc", "malloc: in use"
	Before uint64 `json:"before"`
	After  uint64 `json:"after"`
	Bytes  int64  `json:"bytes"` // After less Before
}

// leastGrowth is how many bytes something must have grown to be named.
const leastGrowth = 4e6

// DiffMemory compares two states of a process. The dump and the graph of the later one must
// still be open.
func DiffMemory(ctx context.Context, before, after *Memory) *MemoryDifference {
	d := &MemoryDifference{Before: before.Resident, After: after.Resident, Parts: []PartGrowth{}, Exact: before.Exact && after.Exact}
	found := make(map[string]*PartGrowth)
	for i, m := range []*Memory{before, after} {
		m.eachPart(func(name string, bytes uint64) {
			g := found[name]
			if g == nil {
				g = &PartGrowth{Name: name}
				found[name] = g
			}
			if i == 0 {
				g.Before += bytes
			} else {
				g.After += bytes
			}
		})
	}
	for _, g := range found {
		if g.Bytes = int64(g.After) - int64(g.Before); g.Bytes != 0 {
			d.Parts = append(d.Parts, *g)
		}
	}
	slices.SortFunc(d.Parts, func(a, b PartGrowth) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	d.Verdict = grown(ctx, before, after)
	return d
}

// eachPart visits the parts, and their parts, with unique names.
func (m *Memory) eachPart(visit func(name string, bytes uint64)) {
	for _, p := range m.Parts {
		visit(p.Name, p.Bytes)
		if p.Name == partUnknown {
			continue // its parts are mappings
		}
		for _, of := range p.Parts {
			visit(p.Name+": "+of.Name, of.Bytes)
		}
	}
}

// grown returns the verdict about what grew most.
func grown(ctx context.Context, before, after *Memory) Verdict {
	earlier := before.byKind()
	best, most := Verdict{}, int64(0)
	for _, v := range after.candidates() {
		if growth := int64(v.Bytes) - int64(earlier[v.Kind]); growth > most {
			best, most = v, growth
		}
	}
	change := fmt.Sprintf("Resident memory changed by %+.1f MB, from %s to %s", float64(after.Resident)/1e6-float64(before.Resident)/1e6,
		megabytes(before.Resident), megabytes(after.Resident))
	if most < leastGrowth {
		return Verdict{Kind: KindOrdinary, Text: change + "; nothing grew by more than " + megabytes(leastGrowth) + "."}
	}
	after.explain(ctx, &best)
	best.Text = fmt.Sprintf("%s; most of it is %s, +%s: %s", change, best.Kind, megabytes(uint64(most)), best.Text)
	best.Bytes = uint64(most)
	return best
}

// byKind returns how many bytes each kind of verdict is about.
func (m *Memory) byKind() map[string]uint64 {
	kinds := make(map[string]uint64)
	for _, v := range m.candidates() {
		kinds[v.Kind] = v.Bytes
	}
	return kinds
}

// WriteText writes the verdict, and a table.
func (d *MemoryDifference) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, d.Verdict.Text)
	if d.Verdict.Next != "" {
		fmt.Fprintf(out, "next: %s\n", d.Verdict.Next)
	}
	if !d.Exact {
		fmt.Fprintln(out, "not both cores say which pages were in memory: the pages that they have are compared")
	}
	const least = 50_000 // bytes, which is printed as 0.1 MB
	fmt.Fprintf(out, "\n%10s %10s %10s %s\n", "BEFORE", "AFTER", "MB", "PART")
	for _, g := range d.Parts {
		if g.Bytes >= least || g.Bytes <= -least {
			fmt.Fprintf(out, "%10.1f %10.1f %+10.1f %s\n", float64(g.Before)/1e6, float64(g.After)/1e6, float64(g.Bytes)/1e6, g.Name)
		}
	}
	fmt.Fprintf(out, "%10.1f %10.1f %+10.1f resident in all\n", float64(d.Before)/1e6, float64(d.After)/1e6, (float64(d.After)-float64(d.Before))/1e6)
	return out.Flush()
}
