package jscore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/census"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// CensusOptions say which objects to count.
type CensusOptions = census.Options

// A Census counts objects.
type Census struct {
	*census.Census
	Isolates []IsolateTally `json:"isolates,omitempty"` // if they were distinguished
}

// An IsolateTally sums up the objects in one isolate's heap.
type IsolateTally struct {
	Isolate *int   `json:"isolate"` // number; null: shared by isolates, or of no known one
	Count   int    `json:"count"`
	Live    int    `json:"live"`
	Bytes   uint64 `json:"bytes"`
	Outside uint64 `json:"outside"`
}

// Census counts objects by class and properties. Once ctx is done it returns at once,
// with the objects counted so far.
func (g *Graph) Census(ctx context.Context, o CensusOptions) *Census {
	c := &Census{Census: census.Take(ctx, g.Graph, o)}
	if o.ByHeap {
		c.tallyIsolates(g.dump.isolateNumbers())
	}
	return c
}

// tallyIsolates numbers the groups' isolates, and sums up the groups of each.
func (c *Census) tallyIsolates(number func(heap uint64) *int) {
	for _, g := range c.Groups {
		g.Isolate = number(g.Heap)
		at := slices.IndexFunc(c.Isolates, func(t IsolateTally) bool { return sameIsolate(t.Isolate, g.Isolate) })
		if at < 0 {
			at = len(c.Isolates)
			c.Isolates = append(c.Isolates, IsolateTally{Isolate: g.Isolate})
		}
		t := &c.Isolates[at]
		t.Count += g.Count
		t.Live += g.Live
		t.Bytes += g.Bytes
		t.Outside += g.Outside
	}
	slices.SortFunc(c.Isolates, func(a, b IsolateTally) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

// isolateColumn is an isolate's number in a table with a column for it.
func isolateColumn(isolate *int) string {
	if isolate == nil {
		return "-"
	}
	return strconv.Itoa(*isolate)
}

// Partial reports whether something is missing because the census was interrupted.
func (c *Census) Partial() bool { return c.Doubts.Interrupted || c.Doubts.Unmarked }

// Select yields the objects that a census with these options counts, by address,
// until ctx is done.
func (g *Graph) Select(ctx context.Context, o CensusOptions) iter.Seq[heap.ID] {
	return census.Select(ctx, g.Graph, o)
}

// maxShown is how much of a group's properties is shown.
const maxShown = 100 // characters

// WriteText writes a table like that of mdb_v8's findjsobjects.
func (c *Census) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	column := func(string) string { return "" }
	if c.Isolates != nil {
		column = func(text string) string { return fmt.Sprintf(" %7s", text) }
	}
	live := func(field []byte, n int) []byte { return strconv.AppendInt(field, int64(n), 10) }
	if c.Doubts.Unmarked {
		live = func(field []byte, _ int) []byte { return append(field, '-') }
	}
	fmt.Fprintf(out, "%16s%s %9s %9s %12s %6s %s\n", "OBJECT", column("ISOLATE"), "#OBJECTS", "#LIVE", "BYTES", "#PROPS", "CLASS: PROPERTIES")
	r := row{out: out}
	for _, g := range c.Groups { // there may be a million: fmt takes most of the time of such a table
		r.field(16, strconv.AppendUint(r.room(), uint64(g.Address), 16))
		out.WriteString(column(isolateColumn(g.Isolate)))
		r.number(10, uint64(g.Count))
		r.field(10, live(r.room(), g.Live))
		r.number(13, g.Bytes)
		if g.Dictionary {
			r.field(7, append(r.room(), '-'))
		} else {
			r.number(7, uint64(len(g.Properties)))
		}
		out.WriteByte(' ')
		out.WriteString(g.Class)
		if len(g.Properties) > 0 {
			out.WriteString(": ")
			out.WriteString(shortened(joined(g.Properties), maxShown))
		}
		out.WriteByte('\n')
	}
	fmt.Fprintf(out, "%16s%s %9d %9s %12d\n", "total", column(""), c.Count, live(nil, c.Live), c.Bytes)
	for _, t := range c.Isolates {
		fmt.Fprintf(out, "%16s%s %9d %9s %12d\n", "of isolate", column(isolateColumn(t.Isolate)), t.Count, live(nil, t.Live), t.Bytes)
	}
	if c.Outside > 0 {
		fmt.Fprintf(out, "outside of V8's heap: %d of these bytes\n", c.Outside)
	}
	writeDoubts(out, c.Doubts)
	return out.Flush()
}

// A row writes fields of a table's row, aligned to the right.
type row struct {
	out     *bufio.Writer
	scratch [20]byte // the longest number
}

// room returns where to append a field.
func (r *row) room() []byte { return r.scratch[:0] }

func (r *row) number(width int, n uint64) { r.field(width, strconv.AppendUint(r.room(), n, 10)) }

func (r *row) field(width int, text []byte) {
	for range width - len(text) {
		r.out.WriteByte(' ')
	}
	r.out.Write(text)
}

// Addresses returns the address of one object of each group.
func (c *Census) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(c.Groups))
	for i, g := range c.Groups {
		addresses[i] = v8.Value(g.Address)
	}
	return addresses
}

// Representatives lists the address of one object of each group.
func (c *Census) Representatives() *Values {
	list := &Values{Values: make([]Indexed, len(c.Groups))}
	for i, g := range c.Groups {
		list.Values[i] = Indexed{i, Brief{Address: g.Address, Kind: g.Kind, Class: g.Class}}
	}
	return list
}

// writeDoubts prints the doubts, if there are any.
func writeDoubts(w io.Writer, d heap.Doubts) {
	if d.Interrupted {
		fmt.Fprintln(w, "interrupted: not all objects are counted")
	}
	if d.Unmarked {
		fmt.Fprintln(w, "which objects are live is not known: the search was interrupted")
	}
	if d.Collecting {
		fmt.Fprintln(w, "a garbage collection was moving objects: live ones count once, wherever they were; garbage may count twice, or not")
	}
	if d.Loose {
		fmt.Fprintln(w, "some garbage may pass for live: not all that V8 keeps objects alive by was found (is malloc glibc's?)")
	}
	for _, doubt := range []struct {
		count uint64
		text  string
	}{
		{d.Unreadable, "not counted: what was in %d bytes that the core does not have\n"},
		{d.Lost, "not counted: what may have been in %d bytes that no object accounts for\n"},
		{uint64(d.Overlong), "not counted: %d objects that reach beyond the end of their page\n"},
		{uint64(d.Overlapping), "not counted: %d objects, already replaced in part by live ones\n"},
		{uint64(d.Dangling), "not counted: what was at %d addresses that live objects refer to\n"},
	} {
		if doubt.count > 0 {
			fmt.Fprintf(w, doubt.text, doubt.count)
		}
	}
}

// shortened returns at most limit characters of s.
func shortened(s string, limit int) string {
	if v8.CutExact(s, limit) == s {
		return s
	}
	return v8.CutExact(s, limit-1) + "…"
}

// joined joins the names of properties.
func joined(names []value.Text) string {
	var b strings.Builder
	for i, name := range names {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(string(name))
	}
	return b.String()
}
