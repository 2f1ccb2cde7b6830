package quantize

// count counts v.
func (h *Histogram) count(v uint64) { h.Add(v) }

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
