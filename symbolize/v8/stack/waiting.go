package stack

import (
	"cmp"
	"slices"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// A Waiting is a place in the source where generators or calls of async functions wait,
// on no thread's stack, to be resumed.
type Waiting struct {
	Frame      Frame      // of the first; Awaiting returns what awaits it in turn
	Kind       string     // "async function", "generator" or "async generator"
	Generators []v8.Value // by address
}

// waitingKinds are words for V8's kinds of generators.
var waitingKinds = map[string]string{
	"JSAsyncFunctionObject":  "async function",
	"JSGeneratorObject":      "generator",
	"JSAsyncGeneratorObject": "async generator",
}

// Waiting returns where live generators and async functions wait, the most frequent places
// first. A generator that has not started waits at the start of its function.
func (u *Unwinder) Waiting(g *heap.Graph) []Waiting {
	type place struct {
		shared v8.Value
		offset int
	}
	at := make(map[place]int)
	var all []Waiting
	for id := range heap.ID(g.Len()) {
		kind, ok := waitingKinds[g.Map(id).Kind]
		if !ok || !g.IsLive(id) {
			continue
		}
		o := g.Object(id)
		if state, err := u.v8.Heap.Generator(o); err != nil || state.State != v8.Suspended {
			continue
		}
		f := u.Suspended(o.Ref())
		where := place{f.Shared, f.Offset}
		i, ok := at[where]
		if !ok {
			i = len(all)
			at[where] = i
			all = append(all, Waiting{Frame: f, Kind: kind})
		}
		all[i].Generators = append(all[i].Generators, o.Ref())
	}
	slices.SortStableFunc(all, func(a, b Waiting) int { return cmp.Compare(len(b.Generators), len(a.Generators)) })
	return all
}
