package core

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// noteResident is the type of the note, of owner noteOwner, that contains which pages were
// in memory: for each run two words, its start with the bits below and its end.
const (
	noteResident = 2

	residentFile    = 1 << 0
	residentSwapped = 1 << 1
	residentBits    = 1<<12 - 1
)

// A Run is a range of pages alike. The resident set size of a process is the size of all
// its runs that are not swapped.
type Run struct {
	Start, End uint64 // up to, not including, End
	File       bool   // of a file or shared, not private to the process
	Swapped    bool   // swapped out, not in memory
}

// Resident returns which pages of the process were in memory or swapped out, by address. If
// the core does not say so, exact is false, and the runs are the pages that the core has and
// that are not all zeros: memory that a process has never touched is zeros in gdb's cores.
func (f *File) Resident() (runs []Run, exact bool) {
	if f.resident != nil {
		return f.resident, true
	}
	for _, s := range f.segments {
		for at := s.start; at < s.start+s.size; {
			start, end, ok := f.nextExtent(at, s)
			if !ok {
				break
			}
			runs = f.addNonzero(runs, span{start, end})
			at = end
		}
	}
	return runs, false
}

// addNonzero appends the pages of a span that are not all zeros.
func (f *File) addNonzero(runs []Run, in span) []Run {
	const batch = 1 << 20
	buffer := make([]byte, min(batch, in.size()))
	for at := in.start; at < in.end; at += batch {
		n, _ := f.ReadAt(buffer[:min(batch, in.end-at)], at)
		for i := 0; i < n; i += pageBytes {
			page := buffer[i:min(i+pageBytes, n)]
			if bytes.Equal(page, zeroPage[:len(page)]) {
				continue
			}
			start := at + uint64(i)
			_, file := f.mapping(start)
			runs = addRun(runs, Run{Start: start, End: start + uint64(len(page)), File: file})
		}
	}
	return runs
}

// pageBytes is the size of the pages that are compared with zeros.
const pageBytes = 1 << 12

var zeroPage [pageBytes]byte

// nextExtent returns the next pages from an address on for which the file has data of a
// segment.
func (f *File) nextExtent(at uint64, s segment) (start, end uint64, ok bool) {
	offset := s.offset + at - s.start
	i, _ := slices.BinarySearchFunc(f.extents, offset, func(e span, offset uint64) int { return within(e, offset) })
	if i == len(f.extents) || f.extents[i].start >= s.offset+s.size {
		return 0, 0, false
	}
	from, to := max(f.extents[i].start, offset), min(f.extents[i].end, s.offset+s.size)
	return s.start + from - s.offset, s.start + to - s.offset, true
}

// readResident parses the note.
func (f *File) readResident(desc []byte) {
	const word, entry = 8, 16
	runs := make([]Run, 0, len(desc)/entry)
	for row := range slices.Chunk(desc, entry) {
		if len(row) < entry {
			return
		}
		start, end := binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint64(row[word:])
		bits := start & residentBits
		start &^= residentBits
		if end <= start || end&residentBits != 0 || len(runs) > 0 && start < runs[len(runs)-1].End {
			return // damaged
		}
		runs = append(runs, Run{start, end, bits&residentFile != 0, bits&residentSwapped != 0})
	}
	f.resident = runs
}

// addResident appends the note.
func (n *notes) addResident(runs []Run) {
	words := make([]uint64, 0, 2*len(runs))
	for _, r := range runs {
		start := r.Start
		if r.File {
			start |= residentFile
		}
		if r.Swapped {
			start |= residentSwapped
		}
		words = append(words, start, r.End)
	}
	n.add(noteOwner, noteResident, words)
}

// resident returns the runs of pages of the mappings. Pages of devices and those of the pool
// of huge pages do not belong to the resident set.
func (p *planner) resident(mappings []process.Mapping) ([]Run, error) {
	var runs []Run
	for _, m := range mappings {
		known := p.known.at(m.Start)
		switch {
		case m.Start >= kernelHalf, slices.Contains(special, m.Path), known.has("io", "pf", "ht"):
			continue
		case !m.Perms.Read() && !m.Perms.Write() && !m.Perms.Exec() && known.resident == 0 && m.End <= known.end:
			continue
		}
		var err error
		if runs, err = p.pages.runs(runs, span{m.Start, m.End}); err != nil {
			return nil, fault(p.source.PID(), "find the resident pages of", err)
		}
	}
	return runs, nil
}

// runs appends the runs of pages in the span.
func (s *scanner) runs(to []Run, in span) ([]Run, error) {
	if !s.entries {
		all, err := s.scanRuns(to, in)
		if !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL) {
			return all, err
		}
		s.entries = true
	}
	return s.readRuns(to, in)
}

// addRun appends a run, or extends the last one.
func addRun(runs []Run, r Run) []Run {
	if n := len(runs); n > 0 {
		last := &runs[n-1]
		if last.End == r.Start && last.File == r.File && last.Swapped == r.Swapped {
			last.End = r.End
			return runs
		}
	}
	return append(runs, r)
}

// scanRuns has the kernel find them.
func (s *scanner) scanRuns(runs []Run, in span) ([]Run, error) {
	err := s.regionsOf(in, 0, func(r scanRegion) {
		runs = addRun(runs, Run{r.start, r.end, r.categories&isFile != 0, r.categories&isPresent == 0})
	})
	return runs, err
}

// readRuns examines each page's entry. It takes the shared page of zeros for one of the
// process's: only the kernel can tell.
func (s *scanner) readRuns(runs []Run, in span) ([]Run, error) {
	size := pageSize()
	err := s.entriesOf(in, func(at, entry uint64) {
		runs = addRun(runs, Run{at, at + size, entry&pageOfFile != 0, entry&pagePresent == 0})
	})
	return runs, err
}
