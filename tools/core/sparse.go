package core

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// maxExtents bounds the runs of data that are distinguished in a file;
// everything after them counts as data.
const maxExtents = 1 << 20

// dataOf returns the offsets at which a file of that size has data, in order.
// On a file system without holes, that is everywhere.
func dataOf(file *os.File, size uint64) []span {
	var extents []span
	for at := uint64(0); at < size; {
		start, err := file.Seek(int64(at), unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return extents // only a hole is left
		}
		end := int64(size)
		if err == nil && len(extents) < maxExtents-1 {
			end, err = file.Seek(start, unix.SEEK_HOLE)
		}
		if err != nil || end <= start {
			return append(extents, span{at, size})
		}
		extents = append(extents, span{uint64(start), uint64(end)})
		at = uint64(end)
	}
	return extents
}

// NextData returns the first address at or after address at which the core may
// hold nonzero memory; ok is false if it has none.
func (f *File) NextData(address uint64) (next uint64, ok bool) {
	i, _ := slices.BinarySearchFunc(f.segments, address, compareSegment)
	for _, s := range f.segments[i:] {
		from := max(address, s.start)
		if from-s.start >= s.size {
			continue
		}
		offset := s.offset + from - s.start
		at, found := slices.BinarySearchFunc(f.extents, offset, func(e span, offset uint64) int { return within(e, offset) })
		if found {
			return from, true
		}
		if at < len(f.extents) && f.extents[at].start < s.offset+s.size {
			return s.start + f.extents[at].start - s.offset, true
		}
	}
	return 0, false
}
