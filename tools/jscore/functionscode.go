package jscore

import (
	"context"
	"fmt"
	"slices"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Instructions are where those of a function are: its machine code, or its bytecodes if it
// has no machine code of its own.
type Instructions struct {
	Start Address        `json:"start"`
	End   Address        `json:"end"` // up to, not including
	Tier  symbolize.Tier `json:"tier"`

	shared v8.Value
}

func (i *Instructions) holds(address uint64) bool {
	return address >= uint64(i.Start) && address < uint64(i.End)
}

// AddInstructions finds the instructions of all functions, until ctx is done.
func (f *Functions) AddInstructions(ctx context.Context) {
	for _, d := range f.Definitions {
		if ctx.Err() != nil {
			return
		}
		d.Instructions = f.graph.dump.instructionsOf(v8.Value(d.Address))
	}
}

// Hold drops the functions whose instructions do not include the one at address. Optimized
// code that a function no longer uses, or entered in the middle of a loop, is found too.
func (f *Functions) Hold(address uint64) {
	shared := f.graph.dump.madeFor(address)
	f.Definitions = slices.DeleteFunc(f.Definitions, func(d *Definition) bool {
		i := d.Instructions
		return i == nil || !i.holds(address) && (shared == 0 || i.shared != shared)
	})
}

// instructionsOf finds a closure's instructions; nil if it has none.
func (d *Dump) instructionsOf(function v8.Value) *Instructions {
	h := d.Heap()
	o, err := h.Object(function)
	if err != nil {
		return nil
	}
	shared, err := h.FieldOf(o, "JSFunction", "shared")
	if err != nil {
		return nil
	}
	if c, err := d.codeOf(function); err == nil && !c.Builtin {
		return &Instructions{Address(c.Start), Address(c.Start + c.Size), c.Tier, shared}
	}
	start, size, err := code.Bytecodes(h, shared)
	if err != nil {
		return nil
	}
	return &Instructions{Address(start), Address(start + size), symbolize.Interpreted, shared}
}

// madeFor returns the SharedFunctionInfo of the function whose optimized code is at an
// address; 0 if none is.
func (d *Dump) madeFor(address uint64) v8.Value {
	r, ok := d.Region(address)
	if !ok || !r.Exec || d.v8.Codes == nil {
		return 0
	}
	c, err := d.v8.Codes.At(address, r.Start)
	if err != nil || c.Builtin {
		return 0
	}
	places, err := d.v8.Codes.Optimized(c, address)
	if err != nil || len(places) == 0 {
		return 0
	}
	return places[len(places)-1].Shared
}

// ClosuresLike lists the closures of the same function as the closure v.
func (g *Graph) ClosuresLike(ctx context.Context, v v8.Value, o FunctionOptions) (*Values, error) {
	id, err := g.at(v)
	if err != nil {
		return nil, err
	}
	like, err := value.ObjectOf(g.heap, v, "JSFunction")
	if err != nil {
		return nil, err
	}
	shared, err := g.heap.FieldOf(like, "JSFunction", "shared")
	if err != nil {
		return nil, err
	}
	list := &Values{Address: Address(g.Object(id).Ref()), Values: []Indexed{}}
	closures, err := g.closuresOf(ctx, shared)
	for _, other := range closures {
		if o.Live && !g.IsLive(other) {
			continue
		}
		if !g.list(list, other) {
			break
		}
	}
	return list, err
}

// closuresOf returns the closures of the function with that SharedFunctionInfo. The first
// call reads those of all functions.
func (g *Graph) closuresOf(ctx context.Context, shared v8.Value) ([]heap.ID, error) {
	if g.closures != nil {
		return g.closures[shared], nil
	}
	closures := map[v8.Value][]heap.ID{}
	for id := range g.All(ctx) {
		if !g.heap.IsFunction(v8.Object{Map: g.Map(id)}) {
			continue
		}
		if of, err := g.heap.FieldOf(g.Object(id), "JSFunction", "shared"); err == nil {
			closures[of] = append(closures[of], id)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g.closures = closures
	return closures[shared], nil
}

// A WordAt is a word of memory, and what it is in.
type WordAt struct {
	Address Address `json:"address"`
	In      string  `json:"in"`
}

// WordsThatRefer finds the words of memory that refer to v, and the objects that they are
// in.
func (g *Graph) WordsThatRefer(ctx context.Context, v v8.Value) ([]WordAt, error) {
	places, err := g.dump.Ugrep(ctx, v)
	if err != nil {
		return nil, err
	}
	words := make([]WordAt, len(places.Places))
	for i, p := range places.Places {
		words[i] = WordAt{p.Address, p.Region}
		if id, ok := g.Around(uint64(p.Address)); ok {
			o := g.Object(id)
			words[i].In = fmt.Sprintf("offset %d of %s (%v)", uint64(p.Address)-o.Address, Address(o.Ref()), value.BriefOf(g.heap, o.Ref()))
		}
	}
	return words, nil
}
