package core

import "os"

// A span is a range of addresses: whole pages, up to, not including, end.
type span struct{ start, end uint64 }

func (s span) size() uint64 { return s.end - s.start }

// pageSize is the size of the machine's pages in bytes.
func pageSize() uint64 { return uint64(os.Getpagesize()) }

// total returns the size of all spans in bytes.
func total(spans []span) uint64 {
	sum := uint64(0)
	for _, s := range spans {
		sum += s.size()
	}
	return sum
}

// add appends s to spans, all of which end at or before its start.
func add(spans []span, s span) []span {
	if n := len(spans); n > 0 && spans[n-1].end >= s.start {
		spans[n-1].end = max(spans[n-1].end, s.end)
		return spans
	}
	return append(spans, s)
}
