package profile

import (
	"cmp"
	"maps"
	"path"
	"slices"

	"ustack/symbolize"
)

// An identity is what a function of two profiles must have in common: whether it is a
// script's, its name, and its file; of native code the name of the file alone.
type identity struct {
	script bool
	name   string
	file   string
}

func identityOf(f symbolize.Frame) identity {
	if scripted(f) {
		return identity{true, f.Name, f.File}
	}
	return identity{false, name(f), path.Base(f.Module)}
}

// A spot is where in its file a function is.
type spot struct{ line, column int }

// A shift says by how many lines a function has moved.
type shift struct{ line, by int }

// A matching finds which functions of two profiles are the same, although they have moved
// in their files:
//
//   - A name that one function of a file has in each profile is the same function.
//   - Of those with equal names, such as anonymous ones, the same are those that moved as
//     the function with a name of its own before them did, or at least the one after them.
//   - Of the rest, they are the same in their order, if each profile has as many.
//     Otherwise they are counted together.
type matching struct {
	before, after map[identity]map[spot]symbolize.Frame
	shifts        map[string][]shift // by file
	was, is       map[located]symbolize.Frame
}

// A located is one function of a profile.
type located struct {
	identity
	spot
}

// match returns both profiles with equal frames for functions that are the same: those of
// after. Frames keep their tier, and lose what executes; threads are not distinguished.
func match(before, after *Profile) (b, a *Profile) {
	m := matching{
		before: spots(before), after: spots(after), shifts: map[string][]shift{},
		was: map[located]symbolize.Frame{}, is: map[located]symbolize.Frame{},
	}
	m.findShifts()
	for id, was := range m.before {
		m.pair(id, was, m.after[id])
	}
	return before.renamed(m.was), after.renamed(m.is)
}

// renamed returns p with other frames for the functions that have one. It has no threads.
func (p *Profile) renamed(as map[located]symbolize.Frame) *Profile {
	renamed := *p
	renamed.Stacks = slices.Clone(p.Stacks)
	for i, s := range renamed.Stacks {
		frames := slices.Clone(s.frames())
		for j, f := range frames {
			frames[j] = function(f)
			if other, ok := as[located{identityOf(f), spot{f.Line, f.Column}}]; ok {
				frames[j] = other
			}
		}
		renamed.Stacks[i] = Stack{Value: s.Value, Frames: frames}
	}
	return renamed.Merge()
}

// spots returns the functions of a profile by what they must have in common.
func spots(p *Profile) map[identity]map[spot]symbolize.Frame {
	all := map[identity]map[spot]symbolize.Frame{}
	for _, s := range p.Stacks {
		for _, f := range s.frames() {
			id := identityOf(f)
			if all[id] == nil {
				all[id] = map[spot]symbolize.Frame{}
			}
			if at := (spot{f.Line, f.Column}); all[id][at] == (symbolize.Frame{}) {
				all[id][at] = function(f)
			}
		}
	}
	return all
}

// findShifts finds how functions have moved whose name nothing else in their file has.
func (m *matching) findShifts() {
	for id, was := range m.before {
		is := m.after[id]
		if !id.script || len(was) != 1 || len(is) != 1 {
			continue
		}
		for from := range was {
			for to := range is {
				m.shifts[id.file] = append(m.shifts[id.file], shift{from.line, to.line - from.line})
			}
		}
	}
	for _, shifts := range m.shifts {
		slices.SortFunc(shifts, func(a, b shift) int { return cmp.Compare(a.line, b.line) })
	}
}

// expected returns where a function should be now.
func (m *matching) expected(file string, at spot) spot {
	shifts := m.shifts[file]
	if len(shifts) == 0 {
		return at
	}
	i, found := slices.BinarySearchFunc(shifts, at.line, func(s shift, line int) int { return cmp.Compare(s.line, line) })
	if !found && i > 0 {
		i--
	}
	return spot{at.line + shifts[i].by, at.column}
}

// pair decides which functions of one identity are the same.
func (m *matching) pair(id identity, was, is map[spot]symbolize.Frame) {
	from, to := sortedSpots(was), sortedSpots(is)
	same := func(old, now spot) { m.was[located{id, old}], m.is[located{id, now}] = is[now], is[now] }
	if len(from) > 1 || len(to) > 1 {
		from = slices.DeleteFunc(from, func(old spot) bool {
			i, ok := slices.BinarySearchFunc(to, m.expected(id.file, old), compareSpots)
			if ok {
				same(old, to[i])
				to = slices.Delete(to, i, i+1)
			}
			return ok
		})
	}
	switch {
	case len(from) == len(to):
		for i := range from {
			same(from[i], to[i])
		}
	case len(from) > 0 && len(to) > 0:
		for _, old := range from {
			m.was[located{id, old}] = nowhere(was[old])
		}
		for _, now := range to {
			m.is[located{id, now}] = nowhere(is[now])
		}
	}
}

func nowhere(f symbolize.Frame) symbolize.Frame {
	f.Line, f.Column = 0, 0
	return f
}

func sortedSpots(all map[spot]symbolize.Frame) []spot {
	return slices.SortedFunc(maps.Keys(all), compareSpots)
}

func compareSpots(a, b spot) int {
	return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column))
}
