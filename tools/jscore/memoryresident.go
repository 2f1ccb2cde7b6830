package jscore

import (
	"cmp"
	"slices"
	"sort"

	"ustack/tools/core"
)

// A residency says which of a process's pages were in memory.
type residency struct {
	runs    []core.Run // by address, none swapped
	before  []uint64   // bytes of all runs before each
	total   uint64     // bytes
	swapped uint64     // bytes that were swapped out
	exact   bool       // the core says so; otherwise the runs are the pages that it has
}

// residentOf returns the residency of a core's process.
func residentOf(c *core.File) *residency {
	all, exact := c.Resident()
	r := &residency{exact: exact}
	for _, run := range all {
		if run.Swapped {
			r.swapped += run.End - run.Start
			continue
		}
		r.runs = append(r.runs, run)
		r.before = append(r.before, r.total)
		r.total += run.End - run.Start
	}
	return r
}

// count returns how many bytes of a range were in memory.
func (r *residency) count(start, end uint64) uint64 {
	if end <= start {
		return 0
	}
	return r.below(end) - r.below(start)
}

// below returns how many bytes below an address were in memory.
func (r *residency) below(address uint64) uint64 {
	i := sort.Search(len(r.runs), func(i int) bool { return r.runs[i].End > address })
	if i == len(r.runs) {
		return r.total
	}
	return r.before[i] + max(address, r.runs[i].Start) - r.runs[i].Start
}

// A holding is a range of addresses that belongs to one holder.
type holding struct {
	start, end uint64
	by         holder
	name       string // of a file, or of what owns the bytes
	rank       int    // of two that overlap, the one with the lower rank has the bytes
}

// A holder is what memory is used for.
type holder uint8

const (
	byV8 holder = iota
	byReleased
	byMalloc
	byStack
	byLibrary
	byFile
	byKernel
)

// disjoint returns the holdings by address without what a holding of lower rank has.
func disjoint(all []holding) []holding {
	slices.SortStableFunc(all, func(a, b holding) int { return cmp.Compare(a.start, b.start) })
	var result []holding
	for len(all) > 0 {
		h := all[0]
		all = all[1:]
		if h.end <= h.start {
			continue
		}
		n := len(result)
		if n == 0 || result[n-1].end <= h.start {
			result = append(result, h)
			continue
		}
		last := &result[n-1]
		if last.rank <= h.rank {
			if h.start = last.end; h.end > h.start {
				all = reinsert(all, h)
			}
			continue
		}
		rest := *last
		rest.start, last.end = h.end, h.start
		if last.end == last.start {
			result = result[:n-1]
		}
		result = append(result, h)
		if rest.end > rest.start {
			all = reinsert(all, rest)
		}
	}
	return result
}

// reinsert inserts a holding into those sorted by address.
func reinsert(all []holding, h holding) []holding {
	i := sort.Search(len(all), func(i int) bool { return all[i].start >= h.start })
	return slices.Insert(all, i, h)
}

// eachGap visits the ranges of pages in memory that no holding has.
func (r *residency) eachGap(held []holding, visit func(start, end uint64)) {
	next := 0
	for _, run := range r.runs {
		at := run.Start
		for next < len(held) && held[next].end <= at {
			next++
		}
		for i := next; at < run.End; i++ {
			if i == len(held) || held[i].start >= run.End {
				visit(at, run.End)
				break
			}
			if held[i].start > at {
				visit(at, held[i].start)
			}
			at = max(at, held[i].end)
		}
	}
}
