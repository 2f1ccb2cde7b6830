package jscore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// A Verdict is what stands out in a process's memory.
type Verdict struct {
	Kind   string `json:"kind"`             // a Kind constant
	Text   string `json:"text"`             // in one sentence
	Next   string `json:"next"`             // the command to type next
	Bytes  uint64 `json:"bytes"`            // that stand out
	Keeper *Brief `json:"keeper,omitempty"` // what keeps most of them alive, if a single object does
	As     string `json:"as,omitempty"`     // how the program refers to the keeper: ".cache", "variable cache"
}

// Kinds of verdicts.
const (
	KindOrdinary      = "ordinary"         // nothing stands out
	KindBuffers       = "array buffers"    // of live objects
	KindStrings       = "external strings" // of live objects
	KindGarbage       = "garbage"          // memory of dead objects
	KindObjects       = "objects"          // live ones in V8's heaps
	KindFreePages     = "free pages"       // free memory in V8's heaps
	KindMalloc        = "malloc"           // blocks in use
	KindFragmentation = "fragmentation"    // blocks that are free
	KindWorkers       = "workers"          // heaps of worker threads
	KindUnknown       = "unknown"          // memory whose use is not known
)

// What stands out is at least so much, and at least a share of the memory that is the
// process's own: a Node.js program that has just started has 10 to 20 MB of its own.
const (
	leastStanding = 48e6 // bytes
	leastShare    = 0.3
	fewWorkers    = 8
)

// judge sets the verdict.
func (m *Memory) judge(ctx context.Context) {
	own := m.Resident
	for _, name := range []string{partLibraries, partFiles, partSnapshots} {
		own -= min(own, m.Part(name).Bytes)
	}
	candidates := m.candidates()
	best := slices.MaxFunc(candidates, func(a, b Verdict) int { return cmp.Compare(a.Bytes, b.Bytes) })
	if float64(best.Bytes) < leastStanding || float64(best.Bytes) < leastShare*float64(own) {
		m.Verdict = m.ordinary()
		return
	}
	m.explain(ctx, &best)
	m.Verdict = best
}

// explain adds to a verdict what keeps the memory, or that nothing does.
func (m *Memory) explain(ctx context.Context, v *Verdict) {
	if graph := m.ledger.graph; graph != nil {
		m.keep(ctx, graph, v)
	}
	if v.Kind == KindMalloc {
		m.ledger.lose(ctx, v)
	}
}

// ordinary is the verdict if nothing stands out.
func (m *Memory) ordinary() Verdict {
	v := Verdict{Kind: KindOrdinary, Text: fmt.Sprintf("Nothing stands out in %s of resident memory.", megabytes(m.Resident))}
	if len(m.Parts) > 0 {
		p := m.Parts[0]
		v.Text = fmt.Sprintf("Nothing stands out in %s of resident memory; the largest part is %s with %s.", megabytes(m.Resident), p.Name, megabytes(p.Bytes))
	}
	return v
}

// candidates returns what might stand out.
func (m *Memory) candidates() []Verdict {
	of := " of " + megabytes(m.Resident) + " "
	verdict := func(kind string, bytes uint64, next, format string, arguments ...any) Verdict {
		return Verdict{Kind: kind, Bytes: bytes, Next: next, Text: megabytes(bytes) + of + fmt.Sprintf(format, arguments...)}
	}
	heaps := m.Isolates
	var live, dead, free uint64
	for _, i := range heaps {
		live, dead, free = live+i.Live, dead+i.Garbage, free+i.Free
	}
	var all []Verdict
	buffers := OutsideMemory{}
	for _, b := range m.Buffers {
		if buffers.Bytes == 0 {
			buffers = b
		}
		dead += b.Garbage
	}
	dead += m.Strings.Garbage
	all = append(all, verdict(KindBuffers, buffers.Bytes-buffers.Garbage, fmt.Sprintf("findjsobjects -c %s", buffers.Class),
		"is the memory of %s of class %s, outside V8's heap", plural(buffers.Count, "object"), buffers.Class))
	strings := m.Strings
	all = append(all, verdict(KindStrings, strings.Bytes-strings.Garbage, "strings -n 1000",
		"is the text of %s that are kept outside V8's heap", plural(strings.Count, "external string")))
	all = append(all,
		verdict(KindGarbage, dead, "v8spaces", "belongs to dead objects that V8 has not collected yet"),
		verdict(KindObjects, live, "leaks", "is in live JavaScript objects"),
		verdict(KindFreePages, free+m.partOf(partHeap, "released pages"), "v8spaces", "is free in pages that V8's heaps keep"))
	inUse := m.partOf(partMalloc, "in use")
	sizes := ""
	if len(m.Sizes) > 0 {
		s := m.Sizes[0]
		sizes = fmt.Sprintf(", %s of it in %s of %d bytes", megabytes(s.Bytes), plural(s.Blocks, "block"), s.Size)
	}
	all = append(all, verdict(KindMalloc, inUse, "findleaks", "is memory that native code has from malloc and uses%s", sizes))
	fragments := m.Part(partMalloc).Bytes - inUse - m.partOf(partMalloc, "its own data")
	all = append(all, verdict(KindFragmentation, fragments, "malloc",
		"is free memory that malloc keeps in %s: fragmentation, with only %s in use", plural(len(m.Arenas), "arena"), megabytes(m.allocated())))
	all = append(all, verdict(KindUnknown, m.Part(partUnknown).Bytes, "mappings", "is private memory whose use is not known"))
	if w, ok := m.workers(); ok {
		all = append(all, w)
	}
	return all
}

// allocated returns how much of malloc's memory is in use, including that of JavaScript.
func (m *Memory) allocated() (bytes uint64) {
	for _, a := range m.Arenas {
		bytes += a.InUse
	}
	return bytes
}

// partOf returns the bytes of a part of a part.
func (m *Memory) partOf(name, of string) uint64 {
	for _, p := range m.Part(name).Parts {
		if p.Name == of {
			return p.Bytes
		}
	}
	return 0
}

// workers returns the verdict about workers; ok is false if they are few.
func (m *Memory) workers() (v Verdict, ok bool) {
	count, heaps := 0, uint64(0)
	for _, isolate := range m.Isolates {
		if isolate.Heap != 0 && !isolate.Main {
			count++
			heaps += isolate.Bytes
		}
	}
	arenas := uint64(0)
	for _, a := range m.Arenas {
		if !a.Main {
			arenas += a.InUse + a.Free
		}
	}
	if count < fewWorkers {
		return Verdict{}, false
	}
	return Verdict{
		Kind: KindWorkers, Bytes: heaps + arenas, Next: "v8isolates",
		Text: fmt.Sprintf("%s of %s is used by %d worker threads that have not ended: %s in their heaps, %s in their arenas of malloc",
			megabytes(heaps+arenas), megabytes(m.Resident), count, megabytes(heaps), megabytes(arenas)),
	}, true
}

// maxClimbs bounds the steps to what keeps objects alive.
const maxClimbs = 1 << 26

// keep adds to the verdict what keeps most of the memory alive.
func (m *Memory) keep(ctx context.Context, graph *Graph, v *Verdict) {
	var belongs func(kind string) bool
	switch v.Kind {
	case KindBuffers:
		belongs = func(kind string) bool { return kind == "JSArrayBuffer" }
	case KindStrings:
		belongs = func(kind string) bool { return kind != "JSArrayBuffer" }
	case KindObjects:
		belongs = nil
	default:
		return
	}
	d, err := graph.Dominated(ctx)
	if err != nil {
		return
	}
	id, bytes, ok := d.keeper(ctx, belongs)
	if !ok {
		return
	}
	brief := value.BriefOf(graph.heap, graph.Object(id).Ref())
	v.Keeper, v.As = &brief, graph.nameOf(ctx, id)
	v.Text += fmt.Sprintf("; the %s %s", cmp.Or(brief.Class, brief.Kind), brief.Address)
	if v.As != "" {
		v.Text += " (" + v.As + ")"
	}
	v.Text += fmt.Sprintf(" keeps %s of it alive", megabytes(bytes))
	v.Next = fmt.Sprintf("jsroots %s", brief.Address)
}

// nameOf returns the name by which a program refers to an object: the last one on a path from
// a root; "" if there is none.
func (g *Graph) nameOf(ctx context.Context, id heap.ID) string {
	steps, err := g.Graph.Path(ctx, id)
	if err != nil {
		return ""
	}
	for _, s := range slices.Backward(steps) {
		if s.Link.How == heap.ByProperty || s.Link.How == heap.ByVariable {
			return s.Link.String()
		}
	}
	return ""
}

// lose adds to the verdict how much of malloc's memory nothing refers to.
func (l *ledger) lose(ctx context.Context, v *Verdict) {
	lost, err := l.dump.findLeaks(ctx, l.malloc)
	switch {
	case err != nil:
		return
	case lost.Bytes > v.Bytes/2:
		v.Text += fmt.Sprintf("; nothing refers to %s of it: native code has lost it", megabytes(lost.Bytes))
	default:
		v.Text += fmt.Sprintf("; native code still refers to all but %s of it", megabytes(lost.Bytes))
		v.Next = "malloc"
	}
}
