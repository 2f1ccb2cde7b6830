package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// Bits of an entry of pagemap (Linux 4.2 and newer, for any reader).
const (
	pagePresent = 1 << 63
	pageSwapped = 1 << 62 // or under migration
	pageOfFile  = 1 << 61 // of a file or shared: not the mapping's own
)

const (
	entrySize    = 8       // bytes of pagemap for a page
	pagemapBatch = 1 << 19 // bytes of pagemap read at once: 256 MiB of memory
	kernelHalf   = 1 << 63 // addresses from here on are not the process's own
)

// A region is a mapping and the pages of it that a core holds.
type region struct {
	process.Mapping
	held []span // ascending and apart
}

// A planner decides which pages of a process a core holds.
type planner struct {
	source *process.Process // whose memory will be read: the target, or its snapshot
	full   bool
	known  details  // of the target, before it was stopped
	own    *os.File // pagemap of the source
	shared *os.File // pagemap of the target: the snapshot finds shared pages only as it touches them
}

// plan returns the regions of the mappings, in their order.
func (p *planner) plan(mappings []process.Mapping) ([]region, error) {
	regions := make([]region, 0, len(mappings))
	for _, m := range mappings {
		if m.Start >= kernelHalf || m.Start == m.End {
			continue // [vsyscall], which is the same in all processes
		}
		held, err := p.held(m)
		if err != nil {
			return nil, fault(p.source.PID(), fmt.Sprintf("find the pages of %x-%x of", m.Start, m.End), err)
		}
		regions = append(regions, region{m, held})
	}
	return regions, nil
}

// held returns the pages of m that the core holds.
func (p *planner) held(m process.Mapping) ([]span, error) {
	known := p.known.at(m.Start)
	switch {
	case known.has("io", "pf"): // a device: to read one may do things
		return nil, nil
	case known.has("dd"): // the program asked for it, as OpenSSL does for its keys
		return nil, nil
	case !m.Perms.Read() && !m.Perms.Write() && !m.Perms.Exec() && known.resident == 0 && m.End <= known.end:
		return nil, nil // a reservation, maybe of terabytes
	case m.Path == "[vdso]":
		return whole(m), nil
	case known.has("ht"): // to read a huge page that is not there takes one of the pool's
		return pages(p.pagemap(m), m, resident)
	case m.Perms.Shared():
		return p.heldShared(m)
	case m.File():
		return p.heldFile(m)
	}
	return pages(p.own, m, resident)
}

// heldFile is for private mappings of files. Pages that were never written are
// left out where the file has them still. Data that was written to is held
// whole, as the kernel does; code only where it was, as by breakpoints.
func (p *planner) heldFile(m process.Mapping) ([]span, error) {
	written, err := pages(p.own, m, func(entry uint64) bool { return resident(entry) && entry&pageOfFile == 0 })
	if err != nil || !m.Perms.Read() {
		return written, err
	}
	if p.full || m.Deleted || len(written) > 0 && !m.Perms.Exec() {
		return whole(m), nil
	}
	if m.Offset != 0 {
		return written, nil
	}
	header := span{m.Start, m.Start + pageSize()} // has the build id
	held := []span{header}
	for _, s := range written {
		held = add(held, s)
	}
	return held, nil
}

// heldShared is for memory that other processes may share. What has a name is left
// out: the file has it.
func (p *planner) heldShared(m process.Mapping) ([]span, error) {
	if !m.Deleted && !p.full {
		return nil, nil
	}
	f, err := p.source.OpenFile(m)
	if err != nil { // no right to, or no regular file
		return pages(p.shared, m, resident)
	}
	defer f.Close()
	return data(f, m)
}

// pagemap is the one that shows the pages of m.
func (p *planner) pagemap(m process.Mapping) *os.File {
	if m.Perms.Shared() {
		return p.shared
	}
	return p.own
}

func whole(m process.Mapping) []span { return []span{{m.Start, m.End}} }

func resident(entry uint64) bool { return entry&(pagePresent|pageSwapped) != 0 }

// pages returns the pages of m whose entries in pagemap are wanted.
func pages(pagemap io.ReaderAt, m process.Mapping, wanted func(entry uint64) bool) ([]span, error) {
	var found []span
	size := pageSize()
	entries := make([]byte, min((m.End-m.Start)/size*entrySize, pagemapBatch))
	for at := m.Start; at < m.End; {
		batch := entries[:min((m.End-at)/size*entrySize, pagemapBatch)]
		if _, err := pagemap.ReadAt(batch, int64(at/size*entrySize)); err != nil {
			return nil, err
		}
		for len(batch) > 0 {
			if wanted(binary.NativeEndian.Uint64(batch)) {
				found = add(found, span{at, at + size})
			}
			batch, at = batch[entrySize:], at+size
		}
	}
	return found, nil
}

// data returns the pages of m for which f has data, in memory or swapped out.
func data(f *os.File, m process.Mapping) ([]span, error) {
	var found []span
	size := pageSize()
	start, end := int64(m.Offset), int64(m.Offset+(m.End-m.Start))
	for at := start; at < end; {
		from, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("find the data of %s: %w", m.Path, err)
		}
		to, err := unix.Seek(int(f.Fd()), from, unix.SEEK_HOLE)
		if err != nil {
			return nil, fmt.Errorf("find the data of %s: %w", m.Path, err)
		}
		s := span{uint64(from) &^ (size - 1), (uint64(min(to, end)) + size - 1) &^ (size - 1)}
		if s.start < uint64(end) {
			found = add(found, span{m.Start + s.start - m.Offset, m.Start + s.end - m.Offset})
		}
		at = max(to, at+1)
	}
	return found, nil
}

// missing returns what all maps and some does not. Both ascend.
func missing(all, some []process.Mapping) []process.Mapping {
	var left []process.Mapping
	for _, m := range all {
		for len(some) > 0 && some[0].End <= m.Start {
			some = some[1:]
		}
		for _, has := range some {
			if has.Start >= m.End {
				break
			}
			if m.Start < has.Start {
				left = append(left, part(m, m.Start, has.Start))
			}
			m = part(m, min(has.End, m.End), m.End)
		}
		if m.Start < m.End {
			left = append(left, m)
		}
	}
	return left
}

// lost returns how many pages of the mappings a core should hold, going by what
// was known before the process was stopped.
func (p *planner) lost(mappings []process.Mapping) int {
	pages := uint64(0)
	for _, m := range mappings {
		known := p.known.at(m.Start)
		if known.has("io", "pf", "dd") || m.File() && !m.Deleted {
			continue
		}
		pages += min(m.End-m.Start, known.resident) / pageSize()
	}
	return int(pages)
}

// part is the part of m from start to end.
func part(m process.Mapping, start, end uint64) process.Mapping {
	m.Offset += start - m.Start
	m.Start, m.End = start, end
	return m
}
