package trace

import (
	"errors"
	"fmt"
	"slices"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/symbolize/v8/verify"
)

// maxVerifications bounds how often a process is verified: one that starts may still
// lack some of what is checked.
const maxVerifications = 3

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
		Memory: space.Live{Process: p.process}, Binary: p.binary.v8, File: p.binary.elf, Bias: p.bias, Running: true,
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
