package profile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"ustack/symbolize"
)

// A Text is the text of a file in lines.
type Text struct {
	From  string // where it was read, as "the source map"
	First int    // the number of the first line
	Lines []string
}

// NewText divides a text, whose first line has that number, as JavaScript does.
func NewText(text string, first int, from string) *Text {
	const byteOrderMark = "\ufeff"
	return &Text{From: from, First: first, Lines: strings.Split(lineEnds.Replace(strings.TrimPrefix(text, byteOrderMark)), "\n")}
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u2028", "\n", "\u2029", "\n")

// line returns the line of that number; ok is false if there is none, or no Text.
func (t *Text) line(number int) (text string, ok bool) {
	if t == nil || number < t.First || number >= t.First+len(t.Lines) {
		return "", false
	}
	return t.Lines[number-t.First], true
}

// A Source is where a function's text is.
type Source struct {
	Text     *Text // of its file; the same for all functions whose files have the same text
	LastLine int   // of the function; 0 if it is not known
	Err      error // why Text is nil
}

// Sources are the sources of functions.
type Sources map[Definition]Source

// A Definition is a function of a process.
type Definition struct {
	PID   int
	frame symbolize.Frame
}

// DefinitionOf returns the function of a frame of process pid.
func DefinitionOf(pid int, f symbolize.Frame) Definition { return Definition{pid, function(f)} }

// A count is the values of a function or of one of its lines, as a row has them.
type count struct{ self, native, total uint64 }

// A listing is a function with its values by executing line.
type listing struct {
	frame   symbolize.Frame // as function returns it
	source  Source
	all     count
	inlined uint64             // the part of all.total that ran inlined in its caller
	lines   map[int]*lineCount // 0: it is not known
	last    int                // the stack, from 1, that was last counted in its total
}

// A lineCount is the values of a line.
type lineCount struct {
	count
	columns map[int]uint64 // the total by executing column
	last    int            // as in a listing
}

// column returns where in the line most of its samples are.
func (c *lineCount) column() int {
	best := 0
	for _, column := range slices.Sorted(maps.Keys(c.columns)) {
		if c.columns[column] > c.columns[best] {
			best = column
		}
	}
	return best
}

// annotated returns the functions that match a pattern: the one with the most in itself
// and in the native code that it called first.
func (p *Profile) annotated(pattern *Pattern) ([]*listing, error) {
	a := annotator{sources: p.Sources, found: p.matching(pattern), index: make(map[listingKey]*listing)}
	for i, s := range p.Stacks {
		a.count(i+1, s)
	}
	if len(a.all) == 0 {
		return nil, pattern.none(p)
	}
	slices.SortFunc(a.all, func(a, b *listing) int {
		return cmp.Or(cmp.Compare(b.all.native, a.all.native), cmp.Compare(b.all.total, a.all.total), compareFrames(a.frame, b.frame))
	})
	return a.all, nil
}

// matching returns the functions with a frame that matches.
func (p *Profile) matching(pattern *Pattern) map[symbolize.Frame]bool {
	seen, found := make(map[symbolize.Frame]bool), make(map[symbolize.Frame]bool)
	for _, s := range p.Stacks {
		for _, f := range s.Frames {
			if !seen[f] {
				seen[f] = true
				if pattern.Matches(f) {
					found[function(f)] = true
				}
			}
		}
	}
	return found
}

// An annotator counts functions that match by their lines.
type annotator struct {
	sources Sources
	found   map[symbolize.Frame]bool
	index   map[listingKey]*listing
	all     []*listing
}

// A listingKey tells functions apart: two processes may run different files that have the
// same path.
type listingKey struct {
	frame symbolize.Frame
	text  *Text
}

func (a *annotator) listing(pid int, f symbolize.Frame) *listing {
	source := a.sources[Definition{pid, f}]
	key := listingKey{f, source.Text}
	l, ok := a.index[key]
	if !ok {
		l = &listing{frame: f, source: source, lines: make(map[int]*lineCount)}
		a.index[key] = l
		a.all = append(a.all, l)
	}
	return l
}

// count counts the i-th stack, from 1.
func (a *annotator) count(i int, s Stack) {
	frames := s.frames()
	n := nativeRun(frames)
	for j, f := range frames {
		fn := function(f)
		if !a.found[fn] {
			continue
		}
		l := a.listing(s.PID, fn)
		line := l.line(f.ExecutingLine)
		if l.last != i {
			l.last = i
			l.all.total += s.Value
			if f.Inlined {
				l.inlined += s.Value
			}
		}
		if line.last != i {
			line.last = i
			line.total += s.Value
			line.columns[f.ExecutingColumn] += s.Value
		}
		if j == n {
			l.all.addLeaf(s.Value, n == 0)
			line.addLeaf(s.Value, n == 0)
		}
	}
}

// addLeaf counts a stack on which no other function of the program is nearer to the leaf.
func (c *count) addLeaf(value uint64, isLeaf bool) {
	c.native += value
	if isLeaf {
		c.self += value
	}
}

func (l *listing) line(number int) *lineCount {
	line, ok := l.lines[number]
	if !ok {
		line = &lineCount{columns: make(map[int]uint64)}
		l.lines[number] = line
	}
	return line
}

// shown returns the numbers of the lines to show, in order: where the function begins,
// those with samples, and so many around them; all of them if context is negative. Those
// that its file does not have are shown only if they have samples.
func (l *listing) shown(context int) []int {
	var sampled []int
	for number := range l.lines {
		if number > 0 {
			sampled = append(sampled, number)
		}
	}
	slices.Sort(sampled)
	first, last := l.frame.Line, l.source.LastLine
	if len(sampled) > 0 {
		first = min(first, sampled[0])
		if last == 0 {
			last = sampled[len(sampled)-1] + max(context, 0)
		}
		last = max(last, sampled[len(sampled)-1])
	}
	wanted := make(map[int]bool)
	for _, number := range sampled {
		wanted[number] = true
	}
	last = max(last, first)
	mark := func(from, to int) {
		if t := l.source.Text; t != nil {
			for number := max(from, first, t.First); number <= min(to, last, t.First+len(t.Lines)-1); number++ {
				wanted[number] = true
			}
		}
	}
	mark(l.frame.Line, l.frame.Line)
	if context < 0 {
		mark(first, last)
	}
	next := first
	for _, number := range sampled {
		mark(max(next, number-context), number+context)
		next = max(next, number+context+1)
	}
	return joined(slices.Sorted(maps.Keys(wanted)), l.source.Text)
}

// joined adds lines that are alone between two others: a mark for what is left out would
// take as much room.
func joined(numbers []int, text *Text) []int {
	var all []int
	for _, number := range numbers {
		if last := len(all) - 1; text != nil && last >= 0 && all[last] == number-2 {
			all = append(all, number-1)
		}
		all = append(all, number)
	}
	return all
}
