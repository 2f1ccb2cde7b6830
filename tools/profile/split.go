package profile

import (
	"cmp"
	"slices"
)

// A Part is what belongs to one process in the profiles of one run.
type Part struct {
	Process
	Profiles []*Profile // as in the run
}

// Split splits the profiles of one run by process, in the order of their PIDs. A process
// without values has no part. What is not known by process, such as what was lost, is in none.
func Split(all []*Profile) []Part {
	parts := make(map[int]*Part)
	for i, p := range all {
		for _, s := range p.Stacks {
			part := parts[s.PID]
			if part == nil {
				part = newPart(all, s.PID)
				parts[s.PID] = part
			}
			of := part.Profiles[i]
			of.Stacks = append(of.Stacks, s)
			of.Total += s.Value
			of.Events += s.Events
		}
	}
	var list []Part
	for _, part := range parts {
		if slices.ContainsFunc(part.Profiles, func(p *Profile) bool { return p.Total > 0 }) {
			list = append(list, *part)
		}
	}
	slices.SortFunc(list, func(a, b Part) int { return cmp.Compare(a.PID, b.PID) })
	return list
}

// newPart returns a part of profiles without stacks.
func newPart(all []*Profile, pid int) *Part {
	part := &Part{Process: all[0].process(pid)}
	for _, p := range all {
		of := *p
		of.Stacks, of.Total, of.Events = nil, 0, 0
		of.Lost, of.Truncated, of.Throttled, of.UnknownFrames, of.Failures = 0, 0, 0, 0, nil
		of.Node, of.V8, of.Processes = part.Node, part.V8, []Process{part.Process}
		part.Profiles = append(part.Profiles, &of)
	}
	return part
}
