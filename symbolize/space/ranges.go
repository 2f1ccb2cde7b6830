package space

import (
	"cmp"
	"slices"
	"sort"
)

// A Range is a range of addresses.
type Range struct {
	Start, End uint64 // up to, not including, End
}

// Without returns the parts of ranges that are in none of the holes, which it sorts.
func Without(ranges, holes []Range) (rest []Range) {
	holes = merged(holes)
	for _, r := range ranges {
		i := sort.Search(len(holes), func(i int) bool { return holes[i].End > r.Start })
		for ; i < len(holes) && holes[i].Start < r.End; i++ {
			if holes[i].Start > r.Start {
				rest = append(rest, Range{r.Start, holes[i].Start})
			}
			r.Start = max(r.Start, holes[i].End)
		}
		if r.Start < r.End {
			rest = append(rest, r)
		}
	}
	return rest
}

// merged returns ranges by address, with those that overlap or touch made one. It sorts all.
func merged(all []Range) (result []Range) {
	slices.SortFunc(all, func(a, b Range) int { return cmp.Compare(a.Start, b.Start) })
	for _, r := range all {
		if n := len(result); n > 0 && result[n-1].End >= r.Start {
			result[n-1].End = max(result[n-1].End, r.End)
			continue
		}
		result = append(result, r)
	}
	return result
}
