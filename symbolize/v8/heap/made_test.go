package heap

import (
	"encoding/binary"
	"errors"
	"slices"

	"ustack/symbolize/space"
)

var errUnmapped = errors.New("unmapped")

// madeMemory is regions that a process may write to, with their contents.
type madeMemory map[uint64][]byte

func (m madeMemory) Regions() []space.Region {
	var regions []space.Region
	for start, data := range m {
		regions = append(regions, space.Region{Start: start, End: start + uint64(len(data)), Write: true})
	}
	slices.SortFunc(regions, func(a, b space.Region) int { return int(int64(a.Start) - int64(b.Start)) })
	return regions
}

func (m madeMemory) ReadAt(p []byte, address uint64) (int, error) {
	for start, data := range m {
		if address >= start && address < start+uint64(len(data)) {
			n := copy(p, data[address-start:])
			if n < len(p) {
				return n, errUnmapped
			}
			return n, nil
		}
	}
	return 0, errUnmapped
}

func (m madeMemory) put(address uint64, words ...uint64) {
	for start, data := range m {
		if address >= start && address < start+uint64(len(data)) {
			for i, w := range words {
				binary.LittleEndian.PutUint64(data[address-start+uint64(i)*wordSize:], w)
			}
		}
	}
}

// NextData finds data anywhere: zeros in made memory count as data.
func (m madeMemory) NextData(address uint64) (uint64, bool) {
	for _, r := range m.Regions() {
		if address < r.End {
			return max(address, r.Start), true
		}
	}
	return 0, false
}
