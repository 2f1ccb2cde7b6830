package quantize

import "math/bits"

// index returns the bucket in which the kernel counts v, as Slots documents it.
func index(v uint64) int {
	if v < fine {
		return int(v)
	}
	exponent := bits.Len64(v) - 1
	return (exponent-fineBits+1)*fine + int(v>>(exponent-fineBits)&(fine-1))
}

// count counts v as the kernel does.
func (h *Histogram) count(v uint64) {
	if h.Count == 0 || v < h.Min {
		h.Min = v
	}
	h.Max = max(h.Max, v)
	h.Count++
	h.Sum += v
	h.Buckets[index(v)]++
}

// count counts v as the kernel does.
func (l *LQuantize) count(v int64) { l.Counts[l.Index(v)]++ }

// count counts v.
func (q *Quantize) count(v int64) {
	if v >= 0 {
		q[powerIndex(uint64(v))]++
		return
	}
	q[2*powers-powerIndex(-uint64(v))]++
}
