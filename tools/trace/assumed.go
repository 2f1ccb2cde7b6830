package trace

import (
	"errors"
	"fmt"
	"slices"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/symbolize/v8/verify"
)

const (
	// maxSearched bounds the mappings of a process in which V8's pages are searched, in
	// bytes: one read for each 256 KB.
	maxSearched = 1 << 36
	// maxVerifications bounds how often a process is verified: one that starts may still
	// lack some of what is checked.
	maxVerifications = 3
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
// ready is false if that is not so, or if V8 has not started yet: then p is verified once
// it runs code that is new.
func (t *Table) verify(p *target) (ready bool, err error) {
	assumed := p.binary.assumed
	switch {
	case assumed == nil || p.verified:
		return true, nil
	case p.verifications >= maxVerifications:
		return false, p.err
	case !p.started():
		return false, nil
	}
	p.verifications++
	assumption, err := verify.Layout(t.interrupt, verify.Subject{
		Memory: liveMemory{p.process}, Binary: p.binary.v8, File: p.binary.elf, Bias: p.bias, Running: true,
	})
	if err != nil {
		return false, fmt.Errorf("%w: %w", assumed, err)
	}
	p.verified = true
	t.warn(ofProcess(p.process.PID(), fmt.Errorf("%w: %s", assumed, assumption)))
	return true, nil
}

// started reports whether V8 has memory for code.
func (p *target) started() bool {
	return slices.ContainsFunc(p.code, func(m mapping) bool { return m.Anonymous() })
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
