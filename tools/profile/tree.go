package profile

import (
	"maps"
	"slices"
	"strings"

	"ustack/symbolize"
)

// A node is a function in one place of the call tree.
type node struct {
	frame    symbolize.Frame // as function returns it; zero at the root
	label    string          // the frame's Label
	self     uint64          // the value of the function itself
	total    uint64          // self plus what it called
	children []*node         // by label

	tiers map[symbolize.Tier]uint64 // samples by tier of a JavaScript function
	lines map[int]uint64            // of self, by executing line
	calls map[int]uint64            // of total, likewise: for a caller, by the line of the call

	was, wasSelf uint64 // total and self in the profile that this one is compared with

	inlined uint64 // the part of total that ran inlined in its caller

	index map[symbolize.Frame]*node // the children, by function
}

// newTree counts stacks into a tree. The stacks' roots are the children of its
// root, whose label is "all".
func newTree(stacks []Stack) *node {
	root := &node{label: "all"}
	for _, s := range stacks {
		root.total += s.Value
		at := root
		for _, f := range slices.Backward(s.frames()) {
			at = at.child(function(f))
			at.total += s.Value
			if f.Inlined {
				at.inlined += s.Value
			}
			if f.Tier != symbolize.NoTier {
				tally(&at.tiers, f.Tier, s.Value)
			}
			if f.ExecutingLine > 0 {
				tally(&at.calls, f.ExecutingLine, s.Value)
			}
		}
		at.self += s.Value
		if line := s.frames()[0].ExecutingLine; line > 0 {
			tally(&at.lines, line, s.Value)
		}
	}
	root.sort()
	return root
}

func (n *node) child(f symbolize.Frame) *node {
	if c, ok := n.index[f]; ok {
		return c
	}
	if n.index == nil {
		n.index = map[symbolize.Frame]*node{}
	}
	c := &node{frame: f, label: Label(f)}
	n.index[f] = c
	n.children = append(n.children, c)
	return c
}

// tally adds a value to that of a key.
func tally[K comparable](values *map[K]uint64, key K, value uint64) {
	if *values == nil {
		*values = make(map[K]uint64)
	}
	(*values)[key] += value
}

// busiestLine returns the line that most of self ran at; 0 if no line is known.
func (n *node) busiestLine() (line int, count uint64) {
	for _, l := range slices.Sorted(maps.Keys(n.lines)) {
		if n.lines[l] > count {
			line, count = l, n.lines[l]
		}
	}
	return line, count
}

// tier returns the tier in which most of n's samples ran.
func (n *node) tier() symbolize.Tier {
	best := symbolize.NoTier
	for _, t := range slices.Sorted(maps.Keys(n.tiers)) {
		if n.tiers[t] > n.tiers[best] {
			best = t
		}
	}
	return best
}

func (n *node) sort() {
	slices.SortFunc(n.children, func(a, b *node) int {
		if c := strings.Compare(a.label, b.label); c != 0 {
			return c
		}
		return compareFrames(a.frame, b.frame)
	})
	for _, c := range n.children {
		c.sort()
	}
}
