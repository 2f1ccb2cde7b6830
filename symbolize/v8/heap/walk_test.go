package heap

import (
	"testing"

	"ustack/symbolize/space"
)

func TestNoPagesInAbsurdMemory(t *testing.T) {
	const size = 24 << 30
	m := emptyMemory{space.Region{Start: 1 << 32, End: 1<<32 + size, Write: true}}
	if got := FindPages(m, pagesOf(t, 12, 4)); got != nil {
		t.Errorf("pages = %v, want none", got)
	}
}

// emptyMemory is a region of zeros.
type emptyMemory struct{ region space.Region }

func (m emptyMemory) Regions() []space.Region { return []space.Region{m.region} }

func (m emptyMemory) NextData(address uint64) (uint64, bool) { return address, true }

func (m emptyMemory) ReadAt(p []byte, address uint64) (int, error) {
	if address < m.region.Start || address+uint64(len(p)) > m.region.End {
		return 0, errUnmapped
	}
	clear(p)
	return len(p), nil
}
