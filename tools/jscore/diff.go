package jscore

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"

	"ustack/symbolize/v8"
)

// A Growth is how many more objects of a class there are in one census than in an
// earlier one.
type Growth struct {
	Class   string  `json:"class"`
	Before  int     `json:"before"`
	After   int     `json:"after"`
	Count   int     `json:"count"`   // After less Before
	Bytes   int64   `json:"bytes"`   // by which their own size has grown
	Address Address `json:"address"` // tagged, of one in the later census; 0 if there is none
}

// A Difference is what grew and what shrank.
type Difference struct {
	Classes []Growth `json:"classes"` // those that grew most first
}

// Diff compares two censuses by class.
func Diff(before, after *Census) *Difference {
	found := map[string]*Growth{}
	growth := func(class string) *Growth {
		if found[class] == nil {
			found[class] = &Growth{Class: class}
		}
		return found[class]
	}
	for _, g := range before.Groups {
		d := growth(g.Class)
		d.Before += g.Count
		d.Bytes -= int64(g.Bytes)
	}
	for _, g := range after.Groups {
		d := growth(g.Class)
		d.After += g.Count
		d.Bytes += int64(g.Bytes)
		if d.Address == 0 {
			d.Address = g.Address // groups are ordered by bytes, largest first
		}
	}
	d := &Difference{}
	for _, g := range found {
		if g.Count = g.After - g.Before; g.Count != 0 || g.Bytes != 0 {
			d.Classes = append(d.Classes, *g)
		}
	}
	slices.SortFunc(d.Classes, func(a, b Growth) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class))
	})
	return d
}

// WriteText writes a table.
func (d *Difference) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%16s %9s %9s %10s %12s %s\n", "OBJECT", "BEFORE", "AFTER", "#OBJECTS", "BYTES", "CLASS")
	for _, g := range d.Classes {
		fmt.Fprintf(out, "%16s %9d %9d %+10d %+12d %s\n", g.Address, g.Before, g.After, g.Count, g.Bytes, g.Class)
	}
	return out.Flush()
}

// Addresses returns the address of one object of each class that exists in the later census.
func (d *Difference) Addresses() []v8.Value {
	var addresses []v8.Value
	for _, g := range d.Classes {
		if g.Address != 0 {
			addresses = append(addresses, v8.Value(g.Address))
		}
	}
	return addresses
}
