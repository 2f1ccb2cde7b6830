package jscore

import (
	"cmp"
	"context"
	"slices"
	"sort"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// An outsideRange is memory outside V8's heap that belongs to an object.
type outsideRange struct {
	start, end uint64
	object     heap.ID
	class      string // of what the program has of it; "" for a string
	live       bool
	counted    bool
}

// findOutside finds the memory of array buffers and of strings that C++ keeps.
func (l *ledger) findOutside(ctx context.Context) error {
	if l.graph == nil {
		return nil
	}
	views, err := l.viewClasses(ctx)
	if err != nil {
		return err
	}
	for id := range l.graph.All(ctx) {
		bytes := l.graph.Outside(id)
		if bytes == 0 {
			continue
		}
		o := l.graph.Object(id)
		start, _, err := l.graph.heap.Outside(o)
		if err != nil {
			continue
		}
		r := outsideRange{start: start, end: start + bytes, object: id, live: l.graph.IsLive(id)}
		if !l.graph.heap.IsString(o) {
			if r.class = views[id]; r.class == "" {
				r.class, _ = l.graph.heap.Class(o)
			}
			r.class = cmp.Or(r.class, "ArrayBuffer")
		}
		l.outside = append(l.outside, r)
	}
	slices.SortFunc(l.outside, func(a, b outsideRange) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	end := uint64(0)
	l.outside = slices.DeleteFunc(l.outside, func(r outsideRange) bool { // garbage may claim what others have
		overlaps := r.start < end
		end = max(end, r.end)
		return overlaps
	})
	return ctx.Err()
}

// viewClasses returns by array buffer the class of a view of it: a program knows a Buffer, and
// not what is below it.
func (l *ledger) viewClasses(ctx context.Context) (map[heap.ID]string, error) {
	classes := make(map[heap.ID]string)
	names := make(map[uint64]string) // by map
	for id := range l.graph.All(ctx) {
		m := l.graph.Map(id)
		buffer := v8.Value(0)
		switch m.Kind {
		case "JSTypedArray", "JSDataView", "JSRabGsabDataView":
			view, err := l.graph.heap.View(l.graph.Object(id))
			if err != nil {
				continue
			}
			buffer = view.Buffer
		case "WasmMemoryObject", "JSWasmMemoryObject":
			into := map[string]*v8.Value{"array_buffer": &buffer}
			if l.graph.heap.Fields(l.graph.Object(id), m.Kind, into) != nil {
				continue
			}
		default:
			continue
		}
		of, ok := l.graph.Find(buffer.Address())
		if !ok || l.graph.Outside(of) == 0 || classes[of] != "" && !l.graph.IsLive(id) {
			continue
		}
		name, known := names[m.Address]
		if !known {
			name, _ = l.graph.heap.Class(l.graph.Object(id))
			names[m.Address] = name
		}
		classes[of] = name
	}
	return classes, ctx.Err()
}

// outsideIn returns how many bytes in memory of a range belong to objects, and notes them.
func (l *ledger) outsideIn(start, end uint64) (bytes uint64) {
	i := sort.Search(len(l.outside), func(i int) bool { return l.outside[i].end > start })
	for ; i < len(l.outside) && l.outside[i].start < end; i++ {
		r := &l.outside[i]
		n := l.resident.count(max(r.start, start), min(r.end, end))
		bytes += n
		l.addOutsideBytes(r, n)
	}
	return bytes
}

// addOutsideBytes adds bytes of a range to those of its class.
func (l *ledger) addOutsideBytes(r *outsideRange, bytes uint64) {
	to := &l.memory.Strings
	if r.class != "" {
		i := slices.IndexFunc(l.memory.Buffers, func(b OutsideMemory) bool { return b.Class == r.class })
		if i < 0 {
			i = len(l.memory.Buffers)
			l.memory.Buffers = append(l.memory.Buffers, OutsideMemory{Class: r.class})
		}
		to = &l.memory.Buffers[i]
	}
	if !r.counted {
		r.counted = true
		to.Count++
	}
	to.Bytes += bytes
	if !r.live {
		to.Garbage += bytes
	} else if to.Address == 0 || bytes > to.largest {
		to.Address, to.largest = Address(l.graph.Object(r.object).Ref()), bytes
	}
}

// addOutside adds the parts of array buffers and strings, whose bytes are known.
func (l *ledger) addOutside() {
	slices.SortFunc(l.memory.Buffers, func(a, b OutsideMemory) int { return cmp.Compare(b.Bytes, a.Bytes) })
	part := MemoryPart{Name: partBuffers}
	for _, b := range l.memory.Buffers {
		part.add(MemoryPart{Name: b.Class, Bytes: b.Bytes, Note: b.note()})
	}
	l.memory.add(part)
	if s := l.memory.Strings; s.Count > 0 {
		l.memory.add(MemoryPart{Name: partStrings, Bytes: s.Bytes, Note: s.note()})
	}
}

func (o *OutsideMemory) note() string {
	note := plural(o.Count, "object")
	const leastNoted = 50_000 // bytes, which is printed as 0.1 MB
	if o.Garbage >= leastNoted {
		note += ", " + megabytes(o.Garbage) + " of dead ones"
	}
	return note
}
