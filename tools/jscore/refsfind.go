package jscore

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// RefOptions say how far to search for what refers to an object.
type RefOptions = heap.RefOptions

// References are what refers to an object.
type References struct {
	Brief
	Root string       `json:"root,omitempty"` // what outside the heap refers to it, if anything does
	Refs []*Reference `json:"references"`
	More int          `json:"more,omitempty"` // further objects that refer to it and are not reported
	Seen bool         `json:"seen,omitempty"` // what refers to it is reported elsewhere

	Words   []WordAt `json:"words,omitempty"` // what WordsThatRefer found
	Verbose bool     `json:"-"`               // WriteText prints the objects' addresses
}

// A Reference is from one object to another. A store in which V8 keeps properties,
// elements or entries is skipped: the object that they belong to is named.
type Reference struct {
	heap.Link
	Live bool `json:"live"`
	References
}

// A NoObjectError reports that no object begins at an address.
type NoObjectError struct{ Address Address }

func (e *NoObjectError) Error() string {
	return fmt.Sprintf("no object begins at %v (whatis says what is there)", e.Address)
}

// at returns the object that v refers to.
func (g *Graph) at(v v8.Value) (heap.ID, error) {
	id, ok := g.Find(v.Address())
	if !ok || !v.IsObject() {
		return 0, &NoObjectError{Address(v)}
	}
	return id, nil
}

// References finds what refers to the object v.
func (g *Graph) References(ctx context.Context, v v8.Value, o RefOptions) (*References, error) {
	id, err := g.at(v)
	if err != nil {
		return nil, err
	}
	r := g.text(g.Graph.References(ctx, id, o))
	return &r, ctx.Err()
}

// text describes what a search found.
func (g *Graph) text(r *heap.References) References {
	text := References{Brief: value.BriefOf(g.heap, g.Object(r.Object).Ref()), Root: g.rootName(r.Object), More: r.More, Seen: r.Seen}
	for _, by := range r.By {
		text.Refs = append(text.Refs, &Reference{Link: by.Link, Live: g.IsLive(by.Object), References: g.text(&by.References)})
	}
	return text
}

// rootName returns what outside the heap refers to an object; "" if nothing does.
func (g *Graph) rootName(id heap.ID) string {
	root, ok := g.Root(id)
	if !ok {
		return ""
	}
	switch root.By {
	case heap.ByRegister:
		return root.By.String()
	case heap.ByStack, heap.ByMemory:
		return fmt.Sprintf("%s at %x", g.dump.rootRegion(root), root.From)
	}
	return fmt.Sprintf("%v at %x", root.By, root.From)
}

// rootRegion returns what memory a root is in.
func (d *Dump) rootRegion(root heap.Root) string {
	r, ok := d.Region(root.From)
	switch {
	case ok && r.File != "":
		return r.File
	case root.By == heap.ByStack:
		for _, t := range d.Threads() {
			if sp := t.Registers.SP; sp >= r.Start && sp < r.End {
				return fmt.Sprintf("stack of thread %d", t.TID)
			}
		}
	}
	return root.By.String()
}

// WriteText writes the references as a tree.
func (r *References) WriteText(w io.Writer) error {
	out := bufio.NewWriter(w)
	for _, word := range r.Words {
		fmt.Fprintf(out, "word at %s: %s\n", word.Address, word.In)
	}
	fmt.Fprintln(out, r.title(r.Verbose))
	r.write(out, 1, r.Verbose)
	return out.Flush()
}

// title says what the object is, and its address if verbose.
func (r *References) title(verbose bool) string {
	if verbose {
		return fmt.Sprintf("%v %s", r.Brief, r.Address)
	}
	return r.Brief.String()
}

func (r *References) write(out io.Writer, depth int, verbose bool) {
	margin := strings.Repeat("  ", depth)
	if r.Root != "" {
		fmt.Fprintf(out, "%sroot: %s\n", margin, r.Root)
	}
	for _, ref := range r.Refs {
		note := ""
		if !ref.Live {
			note = " (dead)"
		}
		if ref.Seen {
			note += " (see above)"
		}
		fmt.Fprintf(out, "%s%v of %s%s\n", margin, ref.Link, ref.title(verbose), note)
		ref.write(out, depth+1, verbose)
	}
	if r.More > 0 {
		fmt.Fprintf(out, "%sand %d more\n", margin, r.More)
	}
}

// Addresses returns the addresses of the objects that refer to it.
func (r *References) Addresses() []v8.Value {
	addresses := make([]v8.Value, len(r.Refs))
	for i, ref := range r.Refs {
		addresses[i] = v8.Value(ref.Address)
	}
	return addresses
}
