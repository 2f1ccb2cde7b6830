package jscore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// Defaults of PrintOptions in jsprint.
const (
	DefaultDepth   = 2 // levels of members, as mdb_v8 shows
	DefaultMembers = 100
)

// PrintOptions are the options of jsprint.
type PrintOptions struct {
	value.Options
	value.TextOptions
	Base  bool     // before each value, the address of the object it belongs to
	Paths []string // of the members to print; none: the object itself
}

// Printed is a value, or some of its members, as jsprint shows it.
type Printed struct {
	Base   Address
	Values []PrintedValue

	options value.TextOptions
	base    bool
}

// A PrintedValue is a member that was requested by its path, or the object itself,
// which has no path.
type PrintedValue struct {
	Path string
	Node *value.Node

	value v8.Value // 0: it has none
}

// Print describes v, or those of its members that options name. If none of them exists
// it fails with value.ErrNoMember.
func Print(h *v8.Heap, v v8.Value, o PrintOptions) (*Printed, error) {
	p := &Printed{Base: Address(v.Strong()), options: o.TextOptions, base: o.Base}
	paths := o.Paths
	if len(paths) == 0 {
		paths = []string{""}
	}
	var all error
	for _, path := range paths {
		slot, err := value.Lookup(h, value.Slot{Value: v}, path)
		if err != nil {
			all = errors.Join(all, err)
			continue
		}
		printed := PrintedValue{Path: path, Node: value.Describe(h, slot, o.Options)}
		if slot.HasValue() {
			printed.value = slot.Value
		}
		p.Values = append(p.Values, printed)
	}
	if len(p.Values) == 0 {
		return nil, all
	}
	return p, nil
}

// WriteText writes each value on separate lines, with the paths of members if several
// were requested.
func (p *Printed) WriteText(w io.Writer) error {
	for _, v := range p.Values {
		if p.base {
			if _, err := fmt.Fprintf(w, "%s: ", p.Base); err != nil {
				return err
			}
		}
		if len(p.Values) > 1 {
			if _, err := fmt.Fprintf(w, "%s: ", v.Path); err != nil {
				return err
			}
		}
		if err := v.Node.Render(w, p.options); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns the addresses of the values.
func (p *Printed) Addresses() []v8.Value {
	var values []v8.Value
	for _, v := range p.Values {
		if v.value.IsObject() {
			values = append(values, v.value)
		}
	}
	return values
}

// MarshalJSON writes the value itself, or the members by their paths.
func (p *Printed) MarshalJSON() ([]byte, error) {
	if len(p.Values) == 1 && p.Values[0].Path == "" {
		return json.Marshal(p.Values[0].Node)
	}
	byPath := map[string]*value.Node{}
	for _, v := range p.Values {
		byPath[v.Path] = v.Node
	}
	return json.Marshal(struct {
		Address Address                `json:"address"`
		Members map[string]*value.Node `json:"members"`
	}{p.Base, byPath})
}
