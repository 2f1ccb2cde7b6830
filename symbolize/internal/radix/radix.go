// Package radix sorts large slices of numbers that are spread about evenly, as addresses
// and hashes are, in less time than comparing takes.
package radix

import (
	"math/bits"
	"slices"
)

const (
	perBucket  = 8       // numbers, if they are spread evenly
	maxBuckets = 1 << 14 // the bounds of more do not stay in a CPU's cache
)

// Sort sorts all. It needs no memory for a second copy. If the numbers are spread unevenly,
// it takes as long as comparing.
func Sort(all []uint64) {
	if len(all) == 0 {
		return
	}
	least, greatest := slices.Min(all), slices.Max(all)
	wanted := min(len(all)/perBucket+1, maxBuckets)
	shift := max(0, bits.Len64(greatest-least)-bits.Len(uint(wanted)-1))
	start := 0
	for _, end := range distribute(all, least, shift, int((greatest-least)>>shift)+1) {
		slices.Sort(all[start:end])
		start = end
	}
}

// distribute moves all numbers into buckets, by what they exceed the least by, shifted right.
// It returns where each bucket ends.
func distribute(all []uint64, least uint64, shift, buckets int) []int {
	bucket := func(n uint64) int { return int((n - least) >> shift) }
	next := make([]int, buckets) // where the bucket's next number belongs
	for _, n := range all {
		next[bucket(n)]++
	}
	ends, end := make([]int, buckets), 0
	for b, n := range next {
		next[b] = end
		end += n
		ends[b] = end
	}
	for b, end := range ends {
		for next[b] < end {
			n := all[next[b]]
			for at := bucket(n); at != b; at = bucket(n) {
				all[next[at]], n = n, all[next[at]]
				next[at]++
			}
			all[next[b]] = n
			next[b]++
		}
	}
	return ends
}
