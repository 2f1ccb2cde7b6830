package profile

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/tools/printable"
)

// Options say how a profile is presented. The zero value is useful: each field
// documents its default.
type Options struct {
	Title      string  // svg, html, speedscope: the heading; the type of values, as in "CPU profile", and the version of Node.js if empty
	Color      bool    // top: colour for a terminal
	Width      int     // svg: pixels, 1200 if zero; top: columns, 80 if zero
	Native     bool    // top, html: all functions at first, not only the program's own
	Lines      bool    // functions are separated by executing line; formats with positions have them anyway
	Tiers      bool    // functions are separated by tier, which follows their name; json has it anyway
	Rows       int     // functions shown, all if negative; top: 30 if zero; annotated: 10 if zero
	Context    int     // annotated: lines shown around those with samples; the whole function if negative
	MinPercent float64 // top, svg, html: functions and boxes with a smaller share are not shown; all are if zero
}

// A Format is one way to write a profile. Its output depends only on the
// profile and the options: equal profiles give equal bytes.
type Format struct {
	Name       string
	Extensions []string // of files, with the dot
	write      func(io.Writer, *Profile, Options) error
	writeAll   func(io.Writer, []*Profile, Options) error // in place of write, of a format that holds several profiles in one
	each       bool                                       // it holds several profiles, one after another
	positions  bool                                       // it has both lines of a frame: where its function is defined, and what executes
	tiers      bool                                       // likewise a frame's tier, apart from its name
	timed      bool                                       // it holds only samples and time
}

// Takes returns an error if profiles whose values have these types cannot be written in the format.
func (f Format) Takes(types ...ValueType) error {
	for _, t := range types {
		if f.timed && t.Unit != Time.Unit && !t.sampled() {
			return fmt.Errorf("write %s as %s: the format holds only time (choose another, such as pprof)", t.noun(), f.Name)
		}
	}
	if len(types) > 1 && f.writeAll == nil && !f.each {
		return fmt.Errorf("write %d events as %s: the format holds only one (choose another, such as pprof, or take one event)", len(types), f.Name)
	}
	return nil
}

// Write writes p, if it is valid.
func (f Format) Write(w io.Writer, p *Profile, o Options) error {
	return f.WriteAll(w, []*Profile{p}, o)
}

// WriteAll writes the profiles of one run, each of another event, if they are valid.
func (f Format) WriteAll(w io.Writer, all []*Profile, o Options) error {
	var types []ValueType
	all = slices.Clone(all)
	for i, p := range all {
		if err := p.Check(); err != nil {
			return err
		}
		types = append(types, p.ValueType)
		if o.Lines && !f.positions {
			all[i] = all[i].byLine()
		}
		if o.Tiers && !f.tiers {
			all[i] = all[i].ByTier()
		}
	}
	if err := f.Takes(types...); err != nil {
		return err
	}
	if f.writeAll != nil {
		return f.writeAll(w, all, o)
	}
	return f.writeEach(w, all, o)
}

// writeEach writes one profile after another.
func (f Format) writeEach(w io.Writer, all []*Profile, o Options) error {
	for i, p := range all {
		if i > 0 && f.Name != "json" {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if err := f.write(w, p, o); err != nil {
			return err
		}
	}
	return nil
}

// Formats lists every format, the default first.
var Formats = []Format{
	{Name: "top", Extensions: []string{".txt", ".top"}, write: writeTop, each: true},
	{Name: "collapsed", Extensions: []string{".collapsed", ".folded"}, write: writeCollapsed},
	{Name: "stackvis", Extensions: []string{".stackvis"}, write: writeStackvis},
	{Name: "dtrace", Extensions: []string{".dtrace", ".stacks", ".out"}, write: writeDTrace},
	{Name: "svg", Extensions: []string{".svg"}, write: writeSVG},
	{Name: "html", Extensions: []string{".html", ".htm"}, writeAll: writeHTML},
	{Name: "markdown", Extensions: []string{".md"}, write: writeMarkdown, each: true, positions: true},
	{Name: "pprof", Extensions: []string{".pb.gz", ".pprof", ".prof"}, writeAll: writePprof, positions: true},
	{Name: "speedscope", Extensions: []string{".speedscope.json", ".speedscope"}, write: writeSpeedscope, positions: true},
	{Name: "cpuprofile", Extensions: []string{".cpuprofile"}, write: writeCPUProfile, positions: true, timed: true},
	{Name: "json", Extensions: []string{".json"}, write: writeJSON, each: true, positions: true, tiers: true},
}

// Lookup returns the format of that name.
func Lookup(name string) (Format, error) {
	var names []string
	for _, f := range Formats {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return Format{}, fmt.Errorf("find format %q: no such format (use one of %s)", name, strings.Join(names, ", "))
}

// FormatOf returns the format for a file name, by its extension, in either
// case; the longest matching extension wins.
func FormatOf(file string) (Format, error) {
	var best Format
	var longest int
	var known []string
	for _, f := range Formats {
		for _, ext := range f.Extensions {
			if strings.HasSuffix(strings.ToLower(file), ext) && len(ext) > longest {
				best, longest = f, len(ext)
			}
		}
		known = append(known, f.Extensions[0])
	}
	if longest == 0 {
		return Format{}, fmt.Errorf("choose format of %q: unknown extension (name the format, or use one of %s)",
			file, strings.Join(known, " "))
	}
	return best, nil
}

// title returns the heading of a page.
func (o Options) title(p *Profile) string {
	if o.Title != "" {
		return printable.String(o.Title)
	}
	if p.Node == "" {
		return p.ValueType.heading()
	}
	return p.ValueType.heading() + " of Node.js " + printable.String(p.Node)
}

// summary says in one line what was measured, and losses says what was not; it
// is empty if nothing was lost.
func (p *Profile) summary() string {
	var parts []string
	processes := len(p.processes())
	if processes > 1 { // each with its own version
		parts = append(parts, fmt.Sprintf("%d processes", processes))
	} else {
		parts = versions(p.Node, p.V8)
	}
	s := p.ValueType.amount(p.Total)
	if p.Events > 0 {
		s += fmt.Sprintf(" in %s", plural(p.Events, "event"))
	}
	if p.Every > 1 {
		s += fmt.Sprintf(" (one in %d taken", p.Every)
		if p.Seen > 0 {
			s += fmt.Sprintf(" of %d", p.Seen)
		}
		s += ")"
	}
	if p.Hz > 0 {
		s += fmt.Sprintf(" at %d Hz", p.Hz)
	}
	if p.HzAsked > p.Hz {
		s += fmt.Sprintf(" (of %d)", p.HzAsked)
	}
	if p.Duration > 0 {
		s += fmt.Sprintf(" in %.1f s", p.Duration.Seconds())
	}
	parts = append(parts, s)
	if n := len(p.threads()); n > 1 {
		parts = append(parts, plural(uint64(n), "thread"))
	}
	return strings.Join(parts, ", ")
}

func (p *Profile) losses() string {
	var parts []string
	if p.Throttled > 0 {
		parts = append(parts, plural(p.Throttled, "sample")+" throttled")
	}
	if p.Lost > 0 {
		parts = append(parts, plural(p.Lost, "sample")+" lost")
	}
	if p.Truncated > 0 {
		parts = append(parts, plural(p.Truncated, "stack")+" truncated")
	}
	if p.UnknownFrames > 0 {
		parts = append(parts, plural(p.UnknownFrames, "frame")+" unknown")
	}
	return strings.Join(parts, ", ")
}

func plural(n uint64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// percent returns part's share of whole, in percent; 0 of nothing.
func percent(part, whole uint64) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

// lines writes text to w through a buffer; the first error stops it.
func lines(w io.Writer, write func(*bufio.Writer)) error {
	b := bufio.NewWriter(w)
	write(b)
	return b.Flush()
}
