package core

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// kernelHalf is the first address that does not belong to the process.
const kernelHalf = 1 << 63

// special are mappings that the kernel creates. They contain nothing of the
// process, and most cannot be read; gdb omits them, too.
var special = []string{"[vvar]", "[vvar_vclock]", "[vsyscall]", "[uprobes]", "[uprobes-trampoline]"}

// A region is a mapping and the pages of it that a core holds.
type region struct {
	process.Mapping
	held []span // ascending and disjoint
}

// A planner decides which pages of a process a core holds.
type planner struct {
	source *process.Process
	full   bool
	known  details         // as read before the process was stopped
	remote map[uint64]bool // devices of files that must not be read: only pages in memory are held
	pages  *scanner
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
	case slices.Contains(special, m.Path):
		return nil, nil
	case known.has("io", "pf"): // a device: reading it may have side effects
		return nil, nil
	case known.has("dd"): // the program requested it, as OpenSSL does for its keys
		return nil, nil
	case !m.Perms.Read() && !m.Perms.Write() && !m.Perms.Exec() && known.resident == 0 && m.End <= known.end:
		return nil, nil // a reservation, perhaps of terabytes
	case m.Path == "[vdso]":
		return whole(m), nil
	case known.has("ht"): // reading an absent huge page allocates one from the pool
		return p.pages.pages(span{m.Start, m.End}, false)
	case m.Perms.Shared():
		return p.heldShared(m)
	case m.File():
		return p.heldFile(m)
	}
	return p.pages.pages(span{m.Start, m.End}, false)
}

// heldFile handles private mappings of files. Pages that were never written are
// omitted if the file still has them. Data that was written to is held whole, as
// the kernel does; code only where it was written to, such as by breakpoints.
func (p *planner) heldFile(m process.Mapping) ([]span, error) {
	written, err := p.pages.pages(span{m.Start, m.End}, true)
	if err != nil || !m.Perms.Read() {
		return written, err
	}
	all := p.full || m.Deleted || len(written) > 0 && !m.Perms.Exec()
	if p.remote[m.Dev] {
		return p.pages.pages(span{m.Start, m.End}, !all)
	}
	if all {
		return whole(m), nil
	}
	if m.Offset != 0 {
		return written, nil
	}
	header := span{m.Start, m.Start + pageSize()} // contains the build id
	held := []span{header}
	for _, s := range written {
		held = add(held, s)
	}
	return held, nil
}

// heldShared handles memory that other processes may share. Memory with a name
// is omitted: the file has it.
func (p *planner) heldShared(m process.Mapping) ([]span, error) {
	if !m.Deleted && !p.full {
		return nil, nil
	}
	if p.remote[m.Dev] {
		return p.pages.pages(span{m.Start, m.End}, false)
	}
	f, err := p.source.OpenFile(m)
	if err != nil { // not permitted, or not a regular file
		return p.pages.pages(span{m.Start, m.End}, false)
	}
	defer f.Close()
	return data(f, m)
}

func whole(m process.Mapping) []span { return []span{{m.Start, m.End}} }

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
