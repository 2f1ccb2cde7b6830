package profile

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// A Process is one of the processes in a Profile.
type Process struct {
	PID    int
	Inside int    // its PID in its own PID namespace, as a container's; 0 if it is the same
	Title  string // as "node 4242 server.js"
	Node   string // version of its Node.js, as "v22.23.3"; empty if it is not Node.js
	V8     string // likewise V8's
}

// An of is the part of a profile that belongs to one process.
type of struct {
	Process
	total  uint64
	stacks []Stack
}

// processes splits p by process, the one with the largest total first.
func (p *Profile) processes() []of {
	byPID := map[int]*of{}
	for _, s := range p.Stacks {
		part, ok := byPID[s.PID]
		if !ok {
			part = &of{Process: p.process(s.PID)}
			byPID[s.PID] = part
		}
		part.total += s.Value
		part.stacks = append(part.stacks, s)
	}
	var parts []of
	for _, part := range byPID {
		parts = append(parts, *part)
	}
	slices.SortFunc(parts, func(a, b of) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.PID, b.PID))
	})
	return parts
}

// process returns what is known about process pid.
func (p *Profile) process(pid int) Process {
	for _, known := range slices.Backward(p.Processes) { // the last program that it ran
		if known.PID == pid {
			return known
		}
	}
	return Process{PID: pid, Title: "process " + strconv.Itoa(pid)}
}

// String names the process with its versions.
func (p Process) String() string {
	return strings.Join(append([]string{printable.String(p.Title)}, versions(p.Node, p.V8)...), ", ")
}

// versions lists the known versions of Node.js and V8.
func versions(node, v8 string) (known []string) {
	if node != "" {
		known = append(known, "Node.js "+printable.String(node))
	}
	if v8 != "" {
		known = append(known, "V8 "+printable.String(v8))
	}
	return known
}

// versionsOf lists the versions of what process pid runs.
func (p *Profile) versionsOf(pid int) []string {
	if known := p.process(pid); known.Node != "" || known.V8 != "" {
		return versions(known.Node, known.V8)
	}
	if len(p.processes()) > 1 { // it is not known whose versions p has
		return nil
	}
	return versions(p.Node, p.V8)
}

// rooted returns p with the process as the root of each stack, if p has several
// processes.
func (p *Profile) rooted() *Profile {
	parts := p.processes()
	if len(parts) < 2 {
		return p
	}
	rooted := *p
	rooted.Stacks = nil
	for _, part := range parts {
		root := symbolize.Frame{Name: part.String()}
		for _, s := range part.stacks {
			s.Frames = append(slices.Clone(s.frames()), root)
			rooted.Stacks = append(rooted.Stacks, s)
		}
	}
	return &rooted
}
