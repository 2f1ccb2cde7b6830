package trace

import (
	"errors"
	"fmt"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/release"
)

const (
	// maxVerifications is how many times a process's layout is verified until one
	// succeeds: a collection that runs meanwhile may make one fail.
	maxVerifications = 3
	// maxSearched bounds the mappings of a process in which V8's pages are searched, in
	// bytes: one read for each 256 KB.
	maxSearched = 1 << 36
)

// inspect returns what a file says about the V8 in it. If that is newer than all known
// versions, the newest layout is returned together with the error: it must be verified
// on each process.
func inspect(f *elfsym.File) (*v8.Binary, *release.UnknownVersionError, error) {
	b, err := v8.Inspect(f)
	var unknown *release.UnknownVersionError
	if !errors.As(err, &unknown) || unknown.Assumed == nil {
		return b, nil, err
	}
	if b, err = v8.InspectAs(f, unknown.Assumed); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", unknown, err)
	}
	return b, unknown, nil
}

// verify checks that the V8 of p is laid out as was assumed, unless its version is known.
func (t *Table) verify(p *target) (err error) {
	assumed := p.binary.assumed
	if assumed == nil || p.verified {
		return nil
	}
	h, err := v8.NewHeap(p.process, p.binary.v8)
	if err != nil {
		return fmt.Errorf("%w: %w", assumed, err)
	}
	for range maxVerifications {
		if err = heap.Verify(t.interrupt, liveMemory{p.process}, h); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", assumed, err)
	}
	p.verified = true
	t.trouble(fmt.Errorf("process %d: %w: it is read as that of Node.js %s, which checks of the process confirm",
		p.process.PID(), assumed, p.binary.v8.Release.Node))
	return nil
}

// liveMemory is the memory of a process that runs.
type liveMemory struct{ *process.Process }

// Regions returns the process's mappings; none if it has ended.
func (m liveMemory) Regions() []space.Region {
	maps, err := m.Maps()
	if err != nil {
		return nil
	}
	var regions []space.Region
	searched := uint64(0)
	for _, r := range maps {
		searched += r.End - r.Start
		if !r.Perms.Read() || searched > maxSearched {
			searched -= r.End - r.Start
			continue
		}
		region := space.Region{Start: r.Start, End: r.End, Write: r.Perms.Write(), Exec: r.Perms.Exec()}
		if !r.Anonymous() {
			region.File = r.Path
		}
		regions = append(regions, region)
	}
	return regions
}

// NextData returns address: any of its memory may hold something.
func (liveMemory) NextData(address uint64) (next uint64, ok bool) { return address, true }
