package verify

import (
	"bytes"

	"ustack/symbolize/space"
	"ustack/symbolize/v8/heap"
)

const (
	maxPages = 1 << 13 // kept
	maxReads = 1 << 12 // pages that one examination is known to depend on
	maxTries = 4       // of an examination of objects that change meanwhile
)

// A steadyMemory is the memory of a process that may run meanwhile. It reads each page
// once, and knows whether a page still holds what was read.
type steadyMemory struct {
	heap.Memory
	pages *space.Pages
	used  map[uint64][]byte // pages that the current examination depends on, by address
}

func newSteadyMemory(m heap.Memory) *steadyMemory {
	return &steadyMemory{Memory: m, pages: space.NewPages(m, maxPages), used: map[uint64][]byte{}}
}

// ReadAt reads at an address: from pages, except for what extends over several.
func (m *steadyMemory) ReadAt(p []byte, address uint64) (int, error) {
	start := address &^ (space.PageSize - 1)
	if end := address + uint64(len(p)); end-start <= space.PageSize && len(m.used) < maxReads {
		m.used[start] = m.pages.Page(start)
	}
	return m.pages.ReadAt(p, address)
}

// examine runs a check of objects until it succeeds, or fails on memory that did not
// change. It returns no error for objects that change each time: steady is false.
func (m *steadyMemory) examine(check func() error) (steady bool, err error) {
	for range maxTries {
		clear(m.used)
		if err = check(); err == nil {
			return true, nil
		}
		if m.unchanged() {
			return true, err
		}
	}
	return false, nil
}

// unchanged reports whether the pages that were used still hold the same, and reads them
// again.
func (m *steadyMemory) unchanged() bool {
	same := true
	for start, page := range m.used {
		same = bytes.Equal(m.pages.Reread(start), page) && same
	}
	return same
}
