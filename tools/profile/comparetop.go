package profile

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"ustack/symbolize"
)

// compareNumbers is the columns before a function's name.
const compareNumbers = 49

// writeTop writes a table of the functions, those that changed most first. An asterisk marks
// what is beyond noise.
func (c *Comparison) writeTop(w io.Writer, o Options) error {
	room := cmp.Or(o.Rows, topRows)
	if room < 0 {
		room = len(c.changes)
	}
	shown := slices.DeleteFunc(slices.Clone(c.changes), func(ch change) bool {
		if max(percent(ch.total.before, c.before.Total), percent(ch.total.after, c.after.Total)) < o.MinPercent {
			return true
		}
		room--
		return room < 0 && !ch.self.beyond && !ch.total.beyond
	})
	var rows []row
	for _, ch := range shown {
		rows = append(rows, row{frame: ch.frame})
	}
	return lines(w, func(b *bufio.Writer) {
		t := table{Writer: b, o: o, files: shortFiles(rows), value: c.after.ValueType}
		fmt.Fprintln(t, t.paint(bold, "Before: "+c.before.summary()))
		fmt.Fprintf(t, "%s\n\n", t.paint(bold, "After:  "+c.after.summary()))
		self := "SELF"
		if !c.all {
			self = "SELF+NATIVE"
		}
		fmt.Fprintln(t, t.paint(dim, fmt.Sprintf("%15s %23s", self, "TOTAL")))
		fmt.Fprintln(t, t.paint(dim, fmt.Sprintf("%7s %7s %7s %8s %7s %7s    FUNCTION", "BEFORE", "AFTER", "CHANGE", "BEFORE", "AFTER", "CHANGE")))
		for _, ch := range shown {
			fmt.Fprintf(t, "%s %s  ", c.columns(t, ch.self), c.columns(t, ch.total))
			t.name(ch.frame, compareNumbers)
		}
		fmt.Fprintln(t)
		if hidden := len(c.changes) - len(shown); hidden > 0 {
			fmt.Fprintf(t, "%s that changed less not shown\n", plural(uint64(hidden), "function"))
		}
		fmt.Fprintln(t, c.verdict())
	})
}

// columns returns a value before and after, and its change, 24 columns.
func (c *Comparison) columns(t table, d difference) string {
	mark, attribute := " ", ""
	if d.beyond {
		mark, attribute = "*", "34"
		if c.points(d) > 0 {
			attribute = "31"
		}
	}
	if !c.absolute {
		return fmt.Sprintf("%6.1f%% %6.1f%% %s", percent(d.before, c.before.Total), percent(d.after, c.after.Total),
			t.paint(attribute, fmt.Sprintf("%+7.1f%s", c.points(d), mark)))
	}
	sign, by := "+", d.after-d.before
	if d.after < d.before {
		sign, by = "-", d.before-d.after
	}
	return fmt.Sprintf("%7s %7s %s", t.value.short(d.before), t.value.short(d.after),
		t.paint(attribute, fmt.Sprintf("%7s%s", sign+t.value.short(by), mark)))
}

// verdict says in a sentence what has changed.
func (c *Comparison) verdict() string {
	switch n := c.beyond(); {
	case !c.tested:
		return "What is noise is not known: values are no counts."
	case n == 0:
		return "No change is beyond noise."
	case n == 1:
		return "The change of 1 function is beyond noise (*)."
	default:
		return fmt.Sprintf("The changes of %d functions are beyond noise (*).", n)
	}
}

// The JSON format of a comparison.
type (
	jsonComparison struct {
		ValueType jsonValueType `json:"value_type"`
		Before    jsonCompared  `json:"before"`
		After     jsonCompared  `json:"after"`
		Absolute  bool          `json:"absolute"`
		Tested    bool          `json:"tested"`
		Functions []jsonChange  `json:"functions"`
	}
	jsonCompared struct {
		Node    string `json:"node"`
		V8      string `json:"v8"`
		Hz      int    `json:"hz"`
		Samples uint64 `json:"samples"`
	}
	jsonChange struct {
		symbolize.Frame
		Self  jsonDifference `json:"self"`
		Total jsonDifference `json:"total"`
	}
	jsonDifference struct {
		Before      uint64  `json:"before"`
		After       uint64  `json:"after"`
		Change      float64 `json:"change"`
		Chance      float64 `json:"chance"`
		BeyondNoise bool    `json:"beyond_noise"`
	}
)

// writeJSON writes all functions in one object on one line.
func (c *Comparison) writeJSON(w io.Writer) error {
	side := func(p *Profile) jsonCompared { return jsonCompared{p.Node, p.V8, p.Hz, p.Total} }
	out := jsonComparison{
		ValueType: jsonValueType(c.after.ValueType.orSamples()), Before: side(c.before), After: side(c.after),
		Absolute: c.absolute, Tested: c.tested, Functions: []jsonChange{},
	}
	of := func(d difference) jsonDifference {
		return jsonDifference{d.before, d.after, math.Round(1e4*c.points(d)) / 1e4, d.chance, d.beyond}
	}
	for _, ch := range c.changes {
		out.Functions = append(out.Functions, jsonChange{ch.frame, of(ch.self), of(ch.total)})
	}
	return encode(w, out)
}
