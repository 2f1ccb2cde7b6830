package dump

import (
	"errors"
	"fmt"

	"ustack/symbolize/process"
)

// pageSize is how much is kept of memory at a time.
const pageSize = 4 << 10

// maxPages bounds the pages that are kept: 256 MB.
const maxPages = 1 << 16

var (
	errNotRead = errors.New("it was not read while the process was stopped")
	errTooMuch = errors.New("more memory is needed for the stacks than is kept")
)

// A mode says where memory is read.
type mode int

const (
	running mode = iota // in the process, and nothing is kept
	held                // in the process, which is stopped: each page that is read is kept
	copied              // in what was kept
)

// A memory is a process's memory, of which it keeps each page that is read while the
// process is stopped.
type memory struct {
	process *process.Process
	mode    mode
	pages   map[uint64][]byte // by number; shorter than a page as far as it cannot be read
}

func newMemory(p *process.Process) *memory {
	return &memory{process: p, pages: make(map[uint64][]byte)}
}

// hold drops what was kept: the process is stopped, and has run since.
func (m *memory) hold() {
	clear(m.pages)
	m.mode = held
}

// release has memory be read from what was kept: the process runs.
func (m *memory) release() { m.mode = copied }

// NextData returns address: any of the memory may hold something.
func (m *memory) NextData(address uint64) (next uint64, ok bool) { return address, true }

// ReadAt fills p with the memory at address.
func (m *memory) ReadAt(p []byte, address uint64) (int, error) {
	if m.mode == running {
		return m.process.ReadAt(p, address)
	}
	if err := m.keep(address, uint64(len(p))); err != nil {
		return 0, err
	}
	done := 0
	for done < len(p) {
		at := address + uint64(done)
		page, ok := m.pages[at/pageSize]
		within := at % pageSize
		if !ok || within >= uint64(len(page)) {
			err := errNotRead
			if ok {
				err = errors.New("nothing to read there")
			}
			return done, fmt.Errorf("read %d bytes at %#x of process %d: %w", len(p), at, m.process.PID(), err)
		}
		done += copy(p[done:], page[within:])
	}
	return done, nil
}

// keep reads the pages that are not kept yet, those that are adjacent at once.
func (m *memory) keep(address, size uint64) error {
	if m.mode == copied || size == 0 {
		return nil
	}
	last := (address + size - 1) / pageSize
	for first := address / pageSize; first <= last; first++ {
		if _, ok := m.pages[first]; ok {
			continue
		}
		end := first + 1
		for end <= last && m.pages[end] == nil {
			end++
		}
		if uint64(len(m.pages))+end-first > maxPages {
			return errTooMuch
		}
		m.read(first, end)
		first = end
	}
	return nil
}

// read reads the pages from first up to end.
func (m *memory) read(first, end uint64) {
	buffer := make([]byte, (end-first)*pageSize)
	n, _ := m.process.ReadAt(buffer, first*pageSize) // what cannot be read is missing
	for page := first; page < end; page++ {
		size := min(n, pageSize)
		m.pages[page] = buffer[:size:size]
		buffer, n = buffer[pageSize:], n-size
	}
}
