package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"ustack/symbolize"
)

// What the test of a difference assumes and asks for.
const (
	// dispersion is how many samples count as one that is independent of the others:
	// samples of a periodic sampler come in runs.
	dispersion = 3
	// independent is the number of samples that any longer profile counts for: shares
	// differ between runs of a program, however long they are.
	independent = 10_000
	// wrong is the chance that any difference at all is marked between two profiles of
	// the same program.
	wrong = 0.01
	// leastTested is the share of both profiles together, in percent, below which a
	// function is not tested: rare ones are many, and each makes the test stricter for all.
	leastTested = 0.5
)

// A Comparison is two profiles, by function.
type Comparison struct {
	before, after *Profile // with equal frames for the same function
	changes       []change
	all           bool // functions; only the program's otherwise
	absolute      bool
	tested        bool // values are counts
	unit          uint64
}

// Comparing says how profiles are compared. The zero value is useful.
type Comparing struct {
	Native   bool // all functions, not only the program's own
	Absolute bool // values, not shares of the total
}

// A change is one function in both profiles.
type change struct {
	frame       symbolize.Frame
	self, total difference // self has the native code that it called, if only the program's functions are compared
}

// A difference is one value of a function.
type difference struct {
	before, after uint64
	chance        float64 // of such a difference, or a larger one, if nothing has changed
	beyond        bool    // noise
}

// Compare compares two profiles of one type of values.
func Compare(before, after *Profile, o Comparing) (*Comparison, error) {
	if b, a := before.ValueType.orSamples(), after.ValueType.orSamples(); b != a {
		return nil, fmt.Errorf("compare profiles: one has %s in %s, the other %s in %s", b.Type, b.Unit, a.Type, a.Unit)
	}
	if before.Total == 0 || after.Total == 0 {
		return nil, errors.New("compare profiles: one of them is empty")
	}
	c := &Comparison{absolute: o.Absolute, unit: 1}
	if !after.ValueType.sampled() {
		c.unit = max(1, divisor(before, after))
	}
	c.before, c.after = match(before, after)
	c.tested = after.ValueType.orSamples().Unit == Samples.Unit
	c.all = o.Native || before.jsOnly || !before.hasProgram() || !after.hasProgram()
	c.count()
	c.test()
	return c, nil
}

// divisor returns the greatest number that divides all values: one in N events may have been
// taken, and counted for N.
func divisor(profiles ...*Profile) uint64 {
	var d uint64
	for _, p := range profiles {
		for _, s := range p.Stacks {
			for a, b := d, s.Value; ; a, b = b, a%b {
				if b == 0 {
					d = a
					break
				}
			}
		}
	}
	return d
}

// count counts the functions of both profiles, those with the largest change first.
func (c *Comparison) count() {
	index := map[symbolize.Frame]int{}
	rows := programs
	if c.all {
		rows = functions
	}
	add := func(stacks []Stack, set func(*change, row)) {
		for _, r := range rows(stacks) {
			i, ok := index[r.frame]
			if !ok {
				i = len(c.changes)
				index[r.frame] = i
				c.changes = append(c.changes, change{frame: r.frame})
			}
			if !c.all {
				r.self = r.native
			}
			set(&c.changes[i], r)
		}
	}
	add(c.before.Stacks, func(to *change, r row) { to.self.before, to.total.before = r.self, r.total })
	add(c.after.Stacks, func(to *change, r row) { to.self.after, to.total.after = r.self, r.total })
	slices.SortFunc(c.changes, func(x, y change) int {
		return cmp.Or(
			cmp.Compare(math.Abs(c.points(y.self)), math.Abs(c.points(x.self))),
			cmp.Compare(math.Abs(c.points(y.total)), math.Abs(c.points(x.total))),
			compareFrames(x.frame, y.frame))
	})
}

// points returns the change of a share in percentage points, or of a value in itself.
func (c *Comparison) points(d difference) float64 {
	if c.absolute {
		return float64(d.after) - float64(d.before)
	}
	return percent(d.after, c.after.Total) - percent(d.before, c.before.Total)
}

// test marks the differences that are beyond noise: by Holm's method, among all that are
// neither rare nor the same as another one of their function.
func (c *Comparison) test() {
	var all []*difference
	for i := range c.changes {
		self, total := &c.changes[i].self, &c.changes[i].total
		self.chance, total.chance = c.chance(*self), c.chance(*total)
		if c.testable(*total) {
			all = append(all, total)
		}
		if *self != *total && c.testable(*self) {
			all = append(all, self)
		}
	}
	slices.SortStableFunc(all, func(x, y *difference) int { return cmp.Compare(x.chance, y.chance) })
	for i, d := range all {
		if d.chance > wrong/float64(len(all)-i) {
			break
		}
		d.beyond = true
	}
	for i := range c.changes {
		self, total := &c.changes[i].self, c.changes[i].total
		if self.before == total.before && self.after == total.after {
			self.beyond = total.beyond
		}
	}
}

// testable reports whether a difference is tested. That does not depend on how large it is.
func (c *Comparison) testable(d difference) bool {
	share := (percent(d.before, c.before.Total) + percent(d.after, c.after.Total)) / 2
	return c.tested && share >= leastTested && (c.absolute || share <= 100-leastTested)
}

// chance returns how probable it is that a difference is at least that large if nothing
// has changed.
func (c *Comparison) chance(d difference) float64 {
	if !c.tested {
		return 1
	}
	return math.Erfc(c.deviations(d) / math.Sqrt2)
}

// deviations returns a difference in standard deviations: of two proportions that are one,
// or with Absolute of two numbers of events at one rate, corrected for continuity.
func (c *Comparison) deviations(d difference) float64 {
	before, after := float64(d.before/c.unit), float64(d.after/c.unit)
	n, m := float64(c.before.Total/c.unit), float64(c.after.Total/c.unit)
	if c.absolute {
		deviation := math.Sqrt(dispersion*(before+after) + (before*before+after*after)/independent)
		return max(0, math.Abs(after-before)-dispersion) / max(deviation, 1)
	}
	was, is := before/n, after/m
	n, m = n/(dispersion+n/independent), m/(dispersion+m/independent)
	both := (was*n + is*m) / (n + m)
	deviation := math.Sqrt(both * (1 - both) * (1/n + 1/m))
	distance := math.Abs(is-was) - (1/n+1/m)/2
	if deviation == 0 || distance <= 0 {
		return 0
	}
	return distance / deviation
}

// beyond returns how many functions have changed beyond noise.
func (c *Comparison) beyond() (functions int) {
	for _, ch := range c.changes {
		if ch.self.beyond || ch.total.beyond {
			functions++
		}
	}
	return functions
}

// ComparisonFormats lists the formats of a Comparison, each with the extensions of files.
var ComparisonFormats = []Format{
	{Name: "top", Extensions: []string{".txt", ".top"}},
	{Name: "json", Extensions: []string{".json"}},
	{Name: "svg", Extensions: []string{".svg"}},
	{Name: "html", Extensions: []string{".html", ".htm"}},
}

// Write writes the comparison in one of ComparisonFormats.
func (c *Comparison) Write(w io.Writer, format string, o Options) error {
	if err := cmp.Or(c.before.Check(), c.after.Check()); err != nil {
		return err
	}
	switch format {
	case "json":
		return c.writeJSON(w)
	case "svg":
		return c.writeSVG(w, o)
	case "html":
		return c.writeHTML(w, o)
	}
	return c.writeTop(w, o)
}
