package profile

import (
	"bufio"
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// The picture's dimensions, in pixels.
const (
	svgWidth  = 1200
	svgMargin = 16
	svgHead   = 92   // title, summary, legend
	svgFoot   = 40   // details
	svgRow    = 18   // a frame and the gap below it
	svgChar   = 6.63 // a character of a label
	svgPad    = 4    // on each side of a label
	svgLeast  = 0.1  // boxes narrower than this are not drawn
)

// maxShown is the maximum length, in characters, of a name in a picture.
const maxShown = 400

// writeSVG writes a flame graph, root at the bottom, widths by value. In a
// browser it fills the window, zooms on a click, searches, and shows details;
// it makes no requests.
func writeSVG(w io.Writer, p *Profile, o Options) error {
	root := newTree(p.rooted().Stacks)
	return lines(w, func(b *bufio.Writer) {
		d := drawing{Writer: b, value: p.ValueType, total: root.total, summary: p.summary()}
		d.draw(root, p, o)
	})
}

// draw draws the picture of a tree.
func (d *drawing) draw(root *node, p *Profile, o Options) {
	d.width = max(cmp.Or(o.Width, svgWidth), 4*svgMargin)
	d.least = max(float64(root.total)*o.MinPercent/100, svgLeast/d.scale())
	d.measure(root, 1)
	d.head(p, o)
	fmt.Fprintf(d, "<g id=\"frames\" data-margin=\"%d\" data-row=\"%d\" data-char=\"%g\" data-pad=\"%d\">\n", svgMargin, svgRow, svgChar, svgPad)
	d.box(root, corner{})
	fmt.Fprint(d, "</g>\n")
	d.foot()
}

// A drawing is a flame graph being written.
type drawing struct {
	*bufio.Writer
	width   int // pixels
	value   ValueType
	total   uint64
	least   float64 // the value that a box needs in order to be drawn
	levels  int     // drawn
	summary string
	changes *coloring // nil if nothing is compared
	hidden  int       // boxes not drawn, although the box below is
}

// A corner is where a box starts: the value from the left, levels from the root.
type corner struct {
	start uint64
	level int
}

// scale returns the pixels per unit of value.
func (d *drawing) scale() float64 {
	return float64(d.width-2*svgMargin) / float64(max(d.total, 1))
}

func (d *drawing) height() int { return svgHead + d.levels*svgRow + svgFoot }

// drawn reports whether n is wide enough to be drawn.
func (d *drawing) drawn(n *node) bool { return float64(n.total) >= d.least }

// measure finds how many levels will be drawn and how many boxes will not.
func (d *drawing) measure(n *node, level int) {
	d.levels = max(d.levels, level)
	for _, c := range n.children {
		if d.drawn(c) {
			d.measure(c, level+1)
		} else {
			d.hidden++
		}
	}
}

func (d *drawing) head(p *Profile, o Options) {
	warning := p.losses()
	if d.hidden > 0 {
		warning = strings.TrimPrefix(warning+", "+plural(uint64(d.hidden), "narrow frame")+" not drawn", ", ")
	}
	fmt.Fprintf(d, `<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d">
<title>%[3]s</title>
<style>
%[4]s</style>
<rect id="page" width="100%%" height="100%%" fill="#fff"/>
<text id="title" x="%[5]d" y="32">%[3]s</text>
<text id="summary" x="%[5]d" y="53">%[6]s<tspan id="losses" dx="10">%[7]s</tspan></text>
`, d.width, d.height(), escape(o.title(p)), svgGraph.style, svgMargin, escape(d.summary), escape(warning))
	d.legend()
	d.controls()
}

func (d *drawing) legend() {
	x := svgMargin
	fmt.Fprint(d, `<g id="legend">`)
	entries := legend()
	if d.changes != nil {
		entries = d.changes.legend()
	}
	for _, entry := range entries {
		fmt.Fprintf(d, `<rect x="%d" y="66" width="11" height="11" rx="2" fill="%s"/><text x="%d" y="76">%s</text>`,
			x, entry.Color, x+17, entry.Label)
		x += 40 + 7*len(entry.Label)
	}
	fmt.Fprint(d, "</g>\n")
}

// controls are positioned relative to the right edge, which svg.js moves with
// the window.
func (d *drawing) controls() {
	fmt.Fprintf(d, `<g id="controls" transform="translate(%d)">
<text id="matched" x="-420" y="31"></text>
<g id="reset" class="button" hidden="hidden"><rect x="-408" y="14" width="92" height="26" rx="5"/><text x="-362" y="31">Reset zoom</text></g>
<foreignObject x="-308" y="14" width="224" height="26"><input xmlns="http://www.w3.org/1999/xhtml" id="term" type="text" placeholder="Regular expression" spellcheck="false"/></foreignObject>
<g id="search" class="button"><rect x="-76" y="14" width="76" height="26" rx="5"/><text x="-38" y="31">Search</text></g>
</g>
`, d.width-svgMargin)
}

// box draws n and everything it calls. The data by which svg.js moves it are
// values.
func (d *drawing) box(n *node, at corner) {
	title := n.label
	if at.level > 0 {
		title = cut(shortName(n.frame), maxShown)
	}
	color, details := fill(n), ""
	if d.changes != nil {
		color, details = d.changes.fill(n), d.changes.details(d, n)
	} else {
		details = d.details(n)
	}
	x, width := svgMargin+float64(at.start)*d.scale(), float64(n.total)*d.scale()
	y := svgHead + (d.levels-1-at.level)*svgRow
	fmt.Fprintf(d, `<g data-x="%d" data-w="%d" data-name="%s"><title>%s</title>`,
		at.start, n.total, escape(title), escape(details))
	fmt.Fprintf(d, `<rect x="%.1f" y="%d" width="%.1f" height="%d" rx="2" fill="%s"/><text x="%.1f" y="%d">%s</text></g>`+"\n",
		x, y, max(width-0.5, svgLeast), svgRow-1, color, x+svgPad, y+12, escape(fit(title, width-2*svgPad)))
	for _, c := range n.children {
		if d.drawn(c) {
			d.box(c, corner{at.start, at.level + 1})
		}
		at.start += c.total
	}
}

// details describes n in one line.
func (d *drawing) details(n *node) string {
	text := cut(n.label, maxShown)
	if module := n.frame.Module; module != "" {
		text += " in " + cut(printable.String(module), maxShown)
	}
	if t := n.tier(); t != symbolize.NoTier {
		text += ", " + t.String()
	}
	if n.inlined > n.total/2 {
		text += ", inlined"
	}
	if line, count := n.busiestLine(); line > 0 {
		text += fmt.Sprintf(", line %d: %s", line, d.value.short(count))
	}
	return fmt.Sprintf("%s: %s, %.2f%%; %s in itself", text, d.value.amount(n.total), percent(n.total, d.total), d.value.short(n.self))
}

func (d *drawing) foot() {
	fmt.Fprintf(d, `<text id="details" x="%d" y="%d">Click a frame or press Enter to zoom, Esc to go back. Arrows move. / or Ctrl-F searches.</text>
<script><![CDATA[
%s]]></script>
</svg>
`, svgMargin, d.height()-14, svgGraph.script)
}

// fit cuts a label to a width in pixels; it returns nothing rather than fewer
// than three characters. East Asian characters and emoji count twice.
func fit(label string, width float64) string {
	room := int(width / svgChar)
	used, end := 0, 0 // end: of what fits with an ellipsis after it
	for i, r := range label {
		used++
		if r >= '\u1100' {
			used++
		}
		if used > room {
			return ellipsis(label[:end], room)
		}
		if used < room {
			end = i + len(string(r))
		}
	}
	return label
}

func ellipsis(label string, room int) string {
	if room < 3 {
		return ""
	}
	return label + "…"
}

func escape(s string) string {
	var b strings.Builder
	xml.EscapeText(&b, []byte(s)) // writing to a Builder cannot fail
	return b.String()
}
