package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// graphNoise is the number of standard deviations below which a box has no color.
const graphNoise = 3

// leastChange is the change of a share, in percentage points, that has the full color if no
// box has a larger one.
const leastChange = 2

// tree returns the call tree of after, with what each function was in the same place
// before. Functions that are no longer there have no width.
func (c *Comparison) tree(before, after []Stack) *node {
	gone := slices.Clone(before)
	for i := range gone {
		gone[i].Value = 0
	}
	root := newTree(slices.Concat(after, gone))
	for _, s := range before {
		at := root
		at.was += s.Value
		for _, f := range slices.Backward(s.frames()) {
			at = at.index[function(f)]
			at.was += s.Value
		}
		at.wasSelf += s.Value
	}
	return root
}

// shareOf is a node as a difference.
func (n *node) difference() difference { return difference{before: n.was, after: n.total} }

// share returns the change of a node's share, in percentage points, whether or not values
// are absolute; 0 if it is within noise.
func (c *Comparison) share(n *node) float64 {
	shares := *c
	shares.absolute = false
	if d := n.difference(); !c.tested || shares.deviations(d) >= graphNoise {
		return shares.points(d)
	}
	return 0
}

// largest returns the largest change of a share in a tree.
func (c *Comparison) largest(n *node) float64 {
	most := math.Abs(c.share(n))
	for _, callee := range n.children {
		most = max(most, c.largest(callee))
	}
	return most
}

// A coloring draws boxes by how they have changed.
type coloring struct {
	*Comparison
	most float64 // the change that has the full color
}

// fill returns the color of a box: red for what has grown, blue for what has shrunk.
func (c coloring) fill(n *node) string {
	by := c.share(n)
	part := math.Sqrt(min(1, math.Abs(by)/c.most))
	switch {
	case by > 0:
		return hsl(4, 0.82, 0.92-0.3*part)
	case by < 0:
		return hsl(212, 0.72, 0.92-0.3*part)
	}
	return "#e8ebee"
}

// details describes a box in one line.
func (c coloring) details(d *drawing, n *node) string {
	return fmt.Sprintf("%s: before %s, %.2f%%; after %s, %.2f%%; %+.2f points",
		cut(n.label, maxShown), d.value.amount(n.was), percent(n.was, c.before.Total),
		d.value.amount(n.total), percent(n.total, c.after.Total), percent(n.total, c.after.Total)-percent(n.was, c.before.Total))
}

// legend says what the colors mean.
func (c coloring) legend() []legendEntry {
	return []legendEntry{{"grew", hsl(4, 0.82, 0.62)}, {"shrank", hsl(212, 0.72, 0.62)}, {"within noise", "#e8ebee"}}
}

// summary says what is compared.
func (c *Comparison) summary() string {
	return "before: " + c.before.summary() + " – after: " + c.after.summary()
}

// title is the heading of a page.
func (c *Comparison) title(o Options) string {
	return cmp.Or(o.Title, "Changes of the "+lowerFirst(c.after.ValueType.heading()))
}

func lowerFirst(s string) string {
	if len(s) > 1 && s[1] >= 'a' {
		return string(s[0]|0x20) + s[1:]
	}
	return s
}

// writeSVG writes a flame graph of the second profile, in colors of what has changed.
func (c *Comparison) writeSVG(w io.Writer, o Options) error {
	root := c.tree(c.before.Stacks, c.after.Stacks)
	o.Title = c.title(o)
	return lines(w, func(b *bufio.Writer) {
		d := drawing{
			Writer: b, value: c.after.ValueType, total: root.total, summary: c.summary(),
			changes: &coloring{c, max(leastChange, c.largest(root))},
		}
		d.draw(root, c.after, o)
	})
}

// htmlChange is what html.js needs to know of a comparison.
type htmlChange struct {
	Most        float64 `json:"most"`   // the change that has the full color, in percentage points
	Tested      bool    `json:"tested"` // values are counts
	Unit        uint64  `json:"unit"`   // of a sample
	Noise       float64 `json:"noise"`  // standard deviations
	Dispersion  float64 `json:"dispersion"`
	Independent float64 `json:"independent"`
}

// writeHTML writes the page of the second profile, with what each function was.
func (c *Comparison) writeHTML(w io.Writer, o Options) error {
	tree := c.tree(c.before.Stacks, c.after.Stacks)
	d := newHTMLBuilder(c.after, o)
	d.Change = &htmlChange{max(leastChange, c.largest(tree)), c.tested, c.unit, graphNoise, dispersion, independent}
	d.Native = c.all
	thread := htmlThread{All: d.nodes(tree)}
	if !c.after.jsOnly && c.after.hasProgram() {
		thread.Program = d.nodes(c.tree(c.before.folded().Stacks, c.after.folded().Stacks))
	}
	d.Threads = append(d.Threads, thread)
	return writePages(w, []page{{Title: c.title(o), Summary: c.summary(), Losses: c.after.losses(), Data: d.htmlData}})
}
