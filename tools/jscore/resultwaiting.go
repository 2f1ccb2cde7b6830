package jscore

import (
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
)

// Suspended are the places at which generators and async functions wait, those with the
// most first.
type Suspended struct {
	Places []SuspendedPlace `json:"places"`

	options StackOptions
}

// A SuspendedPlace is one of them.
type SuspendedPlace struct {
	Kind      string       `json:"kind"` // "async function", "generator" or "async generator"
	At        *FrameText   `json:"at"`
	Count     int          `json:"count"`
	Addresses []Address    `json:"generators"`
	Awaiting  []*FrameText `json:"awaiting,omitempty"` // what awaits the first, nearest first
}

// WaitingText finds what is waiting, as suspended shows it. If o.Verbose, the first at each
// place has its variables.
func (d *Dump) WaitingText(g *Graph, o StackOptions) *Suspended {
	s := &Suspended{Places: []SuspendedPlace{}, options: o}
	for _, w := range d.Waiting(g.Graph) {
		place := SuspendedPlace{Kind: w.Kind, At: d.frameText(w.Frame, o), Count: len(w.Generators)}
		place.Awaiting = d.frameTexts(d.Awaiting(w.Generators[0]), o)
		for _, generator := range w.Generators {
			place.Addresses = append(place.Addresses, Address(generator))
		}
		s.Places = append(s.Places, place)
	}
	return s
}

// WriteText writes a line for each place, and below it what awaits the first there.
func (s *Suspended) WriteText(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%16s %8s %s\n", "OBJECT", "#WAITING", "AT")
	for _, p := range s.Places {
		fmt.Fprintf(&b, "%16s %8d %s\n", p.Addresses[0], p.Count, p.At.title(StackOptions{}))
		if s.options.Verbose {
			p.At.writeDetails(&b)
		}
		for _, f := range p.Awaiting {
			fmt.Fprintf(&b, "%16s %8s     awaited by %s\n", "", "", f.title(StackOptions{}))
			if s.options.Verbose {
				f.writeDetails(&b)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the address of one generator for each place.
func (s *Suspended) Addresses() []v8.Value {
	values := make([]v8.Value, len(s.Places))
	for i, p := range s.Places {
		values[i] = v8.Value(p.Addresses[0])
	}
	return values
}
