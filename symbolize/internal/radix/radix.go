// Package radix sorts large slices by numbers that are spread about evenly, as addresses
// and hashes are, in less time than comparing takes.
package radix

import (
	"math/bits"
	"slices"
)

const (
	perBucket  = 8       // elements, if their keys are spread evenly
	maxBuckets = 1 << 14 // the bounds of more do not stay in a CPU's cache
)

// Sort sorts all as compare does: by key first, and then in any way. It needs no memory for
// a second copy. If the keys are spread unevenly, it takes as long as comparing.
func Sort[E any](all []E, key func(E) uint64, compare func(a, b E) int) {
	if len(all) == 0 {
		return
	}
	least, greatest := key(all[0]), key(all[0])
	for _, e := range all {
		k := key(e)
		least, greatest = min(least, k), max(greatest, k)
	}
	wanted := min(len(all)/perBucket+1, maxBuckets)
	shift := max(0, bits.Len64(greatest-least)-bits.Len(uint(wanted)-1))
	bucket := func(e E) int { return int((key(e) - least) >> shift) }
	start := 0
	for _, end := range distribute(all, int((greatest-least)>>shift)+1, bucket) {
		slices.SortFunc(all[start:end], compare)
		start = end
	}
}

// distribute moves all elements into buckets, in the order of their numbers, and returns
// where each bucket ends.
func distribute[E any](all []E, buckets int, bucket func(E) int) []int {
	next := make([]int, buckets) // where the bucket's next element belongs
	for _, e := range all {
		next[bucket(e)]++
	}
	ends, end := make([]int, buckets), 0
	for b, n := range next {
		next[b] = end
		end += n
		ends[b] = end
	}
	for b, end := range ends {
		for next[b] < end {
			e := all[next[b]]
			for at := bucket(e); at != b; at = bucket(e) {
				all[next[at]], e = e, all[next[at]]
				next[at]++
			}
			all[next[b]] = e
			next[b]++
		}
	}
	return ends
}
