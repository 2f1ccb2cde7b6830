// Package quantize holds distributions and writes them as DTrace does:
// power-of-two histograms by key, sorted by value. It counts in finer buckets
// than it draws, so that percentiles can be computed from the same counts.
package quantize

import "math/bits"

// Buckets are log-linear: each power of two is cut into 1<<fineBits equal parts,
// and values below that many have a bucket each. What counts in the kernel does
//
//	if (v < 8)
//		index = v;
//	else {
//		e = 63 - clz(v);                              /* 3 to 63 */
//		index = (e - 2) * 8 + ((v >> (e - 3)) & 7);   /* 8 to 495 */
//	}
//
// A bucket from 16 on is 1/8 to 1/16 of its values wide, one below holds one value.
const (
	fineBits = 3
	fine     = 1 << fineBits

	// Slots is the number of buckets that cover every uint64.
	Slots = fine + (64-fineBits)*fine
)

// Bounds returns the least and the greatest value of bucket i, which must be
// from 0 to Slots-1.
func Bounds(i int) (low, high uint64) {
	if i < fine {
		return uint64(i), uint64(i)
	}
	shift := i/fine - 1
	low = uint64(fine+i%fine) << shift
	return low, low + (1<<shift - 1)
}

// Index returns the bucket that counts v: Bounds(Index(v)) contains it.
func Index(v uint64) int {
	if v < fine {
		return int(v)
	}
	shift := bits.Len64(v) - fineBits - 1
	return (shift+1)*fine + int(v>>shift)%fine
}
