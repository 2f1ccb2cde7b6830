package quantize

import (
	"encoding/json"
	"math/bits"
)

// A Histogram counts values, usually nanoseconds. Its fields are copied from
// the kernel. Counts read while others are added may be inconsistent by a few;
// every method tolerates that.
type Histogram struct {
	Count   uint64
	Sum     uint64 // of the values
	Min     uint64 // 0 if Count is 0
	Max     uint64
	Buckets [Slots]uint64 // counts by Index
}

// Add counts a value.
func (h *Histogram) Add(v uint64) {
	if h.Count == 0 || v < h.Min {
		h.Min = v
	}
	h.Max = max(h.Max, v)
	h.Count++
	h.Sum += v
	h.Buckets[Index(v)]++
}

// Merge adds everything that other has counted.
func (h *Histogram) Merge(other *Histogram) {
	if other.Count == 0 {
		return
	}
	if h.Count == 0 || other.Min < h.Min {
		h.Min = other.Min
	}
	h.Max = max(h.Max, other.Max)
	h.Count += other.Count
	h.Sum += other.Sum
	for i, n := range other.Buckets {
		h.Buckets[i] += n
	}
}

// Mean returns the arithmetic mean, rounded down; 0 of nothing.
func (h *Histogram) Mean() uint64 {
	if h.Count == 0 {
		return 0
	}
	return h.Sum / h.Count
}

// Percentile returns the value that percent of all values, 0 to 100, do not
// exceed: the middle of the bucket that holds it, which is at most 1/16 off, and
// never outside of Min and Max. It is 0 of nothing.
func (h *Histogram) Percentile(percent int) uint64 {
	var total uint64
	for _, n := range h.Buckets {
		total += n
	}
	rank := max(share(total, percent), 1)
	var seen uint64
	for i, n := range h.Buckets {
		if seen += n; seen >= rank {
			low, high := Bounds(i)
			return min(max(low+(high-low)/2, h.Min), h.Max)
		}
	}
	return 0
}

// share returns percent hundredths of total, rounded up. The product has 128
// bits because floating point would round some ranks up to the next.
func share(total uint64, percent int) uint64 {
	const whole = 100
	high, low := bits.Mul64(total, uint64(min(max(percent, 0), whole)))
	quotient, rest := bits.Div64(high, low, whole)
	if rest > 0 {
		quotient++
	}
	return quotient
}

// Powers returns the same counts by powers of two, exactly.
func (h *Histogram) Powers() *Quantize {
	q := new(Quantize)
	for i, n := range h.Buckets {
		low, _ := Bounds(i)
		q[powerIndex(low)] += n
	}
	return q
}

// MarshalJSON writes the counts with their summary. It writes only nonempty
// buckets, each with its least value. Its receiver is a value, so that a
// Histogram inside another struct is written the same way.
func (h Histogram) MarshalJSON() ([]byte, error) {
	type bucket struct {
		Low   uint64 `json:"low"`
		Count uint64 `json:"count"`
	}
	buckets := []bucket{}
	for i, n := range h.Buckets {
		if n > 0 {
			low, _ := Bounds(i)
			buckets = append(buckets, bucket{low, n})
		}
	}
	return json.Marshal(struct {
		Count   uint64   `json:"count"`
		Sum     uint64   `json:"sum_ns"`
		Min     uint64   `json:"min_ns"`
		Max     uint64   `json:"max_ns"`
		P50     uint64   `json:"p50_ns"`
		P90     uint64   `json:"p90_ns"`
		P99     uint64   `json:"p99_ns"`
		Buckets []bucket `json:"buckets"`
	}{
		h.Count, h.Sum, h.Min, h.Max,
		h.Percentile(50), h.Percentile(90), h.Percentile(99),
		buckets,
	})
}
