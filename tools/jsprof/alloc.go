package jsprof

import (
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/symbolize/v8/release"
	"ustack/tools/event"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// Memory is what a profile of memory is about.
type Memory string

const (
	Allocations Memory = "alloc" // bytes by the stacks that allocate them
	Collections Memory = "gc"    // pauses by the stacks that have V8 collect garbage
)

// DefaultInterval is how many bytes of V8's heap a stack stands for on average.
const DefaultInterval = 256 << 10

// Kinds of events, as bpf/alloc.bpf.c numbers them.
const (
	heap = iota
	large
	external
)

// Kinds of collections, likewise.
var collections = []string{"scavenge", "minor mark-sweep", "mark-compact", "incremental marking", "weak callbacks", "collection"}

// Of attach cookies (bpf/alloc.bpf.c: enum alloc_cookie).
const (
	cookieInline      = 1 << 16
	cookieOriginShift = 20
	cookieKindShift   = 8
	cookieNoMinor     = 1
	cookieCollector   = 2
)

// A probed is a function of V8 that is probed in every process.
type probed struct {
	name     string
	prefixes []string // of its symbols, which differ between versions
	programs []event.Program
	required bool
	cookie   func(r *release.Release, symbol string) uint64
}

// memory is the source of a run that takes stacks of memory.
type memory struct {
	o       *Options
	objects bpf.AllocObjects
}

// allocationPrograms and collectionPrograms are those that are loaded.
var (
	allocationPrograms = []string{bpf.AllocProgOnExec, bpf.AllocProgOnBuffer, bpf.AllocProgOnSize, bpf.AllocProgOnCollect, bpf.AllocProgOnCollected}
	collectionPrograms = []string{bpf.AllocProgOnExec, bpf.AllocProgOnPause, bpf.AllocProgOnPauseEnd, bpf.AllocProgOnCollection, bpf.AllocProgOnCollectionEnd}
)

func newMemorySource(o *Options) (*source, error) {
	spec, err := bpf.LoadAlloc()
	if err != nil {
		return nil, err
	}
	m := &memory{o: o}
	programs := allocationPrograms
	if o.Memory == Collections {
		programs = collectionPrograms
	}
	needed := make(map[string]bool)
	for _, name := range programs {
		needed[name] = true
	}
	event.Prune(spec, needed)
	return &source{
		spec: spec, objects: &m.objects, values: o.memoryValues(),
		variables: map[string]any{bpf.AllocVarWithKernel: number(o.Kernel), bpf.AllocVarInterval: o.MemoryStep},
		attach:    func(*session) error { return nil },
		added:     m.added, ended: func(s *session, pid int) { s.probes.Detach(pid) },
		finish: m.finish, warn: func(*session) {}, place: m.place,
	}, nil
}

// memoryValues returns what the values of the profiles are.
func (o *Options) memoryValues() []value {
	if o.Memory == Collections {
		return []value{{ValueType: profile.ValueType{Type: "gc", Unit: "nanoseconds"}, event: "gc"}}
	}
	var all []value
	for _, name := range []string{"heap", "large", "external"} {
		all = append(all, value{ValueType: profile.ValueType{Type: name, Unit: "bytes"}, event: name})
	}
	return all
}

// place returns the profile of a key, and the kind of a collection as its innermost frame.
func (m *memory) place(key bpf.TraceStackKey) (number int, leaf []symbolize.Frame) {
	if m.o.Memory != Collections {
		return int(key.Event), nil
	}
	kind := collections[min(int(key.Event), len(collections)-1)]
	return 0, []symbolize.Frame{{Kind: symbolize.Runtime, Name: "[" + kind + "]"}}
}

// functions returns the functions that are probed.
func (m *memory) functions() []probed {
	at := func(p *ebpf.Program) []event.Program { return []event.Program{{Program: p}} }
	if m.o.Memory == Collections {
		return []probed{
			{
				name: "collections", prefixes: []string{"_ZN2v88internal4Heap14CollectGarbageE"}, required: true,
				programs: []event.Program{{Program: m.objects.OnCollection}, {Program: m.objects.OnCollectionEnd, Return: true}},
			},
			{name: "beginnings of pauses", prefixes: []string{"_ZN2v88internal4Heap23CallGCPrologueCallbacksE"}, programs: at(m.objects.OnPause), cookie: typeCookie},
			{name: "ends of pauses", prefixes: []string{"_ZN2v88internal4Heap23CallGCEpilogueCallbacksE"}, programs: at(m.objects.OnPauseEnd), cookie: typeCookie},
			{
				name: "collectors", prefixes: []string{"_ZN2v88internal4Heap24PerformGarbageCollectionE"}, programs: at(m.objects.OnPause),
				cookie: func(*release.Release, string) uint64 { return cookieCollector },
			},
		}
	}
	return []probed{
		{
			name: "collections", prefixes: []string{"_ZN2v88internal4Heap14CollectGarbageE"}, required: true,
			programs: []event.Program{{Program: m.objects.OnCollect}, {Program: m.objects.OnCollected, Return: true}},
		},
		{
			name: "allocation buffers", required: true, programs: at(m.objects.OnBuffer), cookie: bufferCookie,
			prefixes: []string{
				"_ZN2v88internal8NewSpace15AllocateRawSlowE", "_ZN2v88internal10PagedSpace15AllocateRawSlowE", // V8 9
				"_ZN2v88internal8NewSpace16EnsureAllocationEiNS0_19AllocationAlignmentENS0_16AllocationOriginE", // 10
				"_ZN2v88internal10PagedSpace16EnsureAllocationE",
				"_ZN2v88internal17SemiSpaceNewSpace16EnsureAllocationE", refill, // 11
				"_ZN2v88internal13MainAllocator15AllocateRawSlowE", // from 12 on
			},
		},
		{
			name: "large objects", required: true, programs: at(m.objects.OnSize),
			prefixes: []string{"_ZN2v88internal19NewLargeObjectSpace11AllocateRawE", "_ZN2v88internal19OldLargeObjectSpace11AllocateRawE"},
			cookie: func(_ *release.Release, symbol string) uint64 {
				if strings.Contains(symbol, "LocalHeap") {
					return large<<cookieKindShift | 2
				}
				return large<<cookieKindShift | 1
			},
		},
		{
			name: "external memory", required: true, programs: at(m.objects.OnSize),
			prefixes: []string{"_ZN2v88internal12BackingStore8AllocateE"},
			cookie:   func(*release.Release, string) uint64 { return external<<cookieKindShift | 2 },
		},
	}
}

// refill begins the symbols of a function whose second argument, not the third, says who allocates.
const refill = "_ZN2v88internal14PagedSpaceBase16RawRefillLabMainE"

func bufferCookie(r *release.Release, symbol string) uint64 {
	cookie, origin := uint64(r.Allocations.Buffer), uint64(3)
	if r.Allocations.Inline {
		cookie |= cookieInline
	}
	if strings.HasPrefix(symbol, refill) {
		origin = 2
	}
	return cookie | origin<<cookieOriginShift
}

func typeCookie(r *release.Release, _ string) uint64 {
	if r.Allocations.MinorSweeps {
		return 0
	}
	return cookieNoMinor
}

// added attaches probes to process pid.
func (m *memory) added(s *session, pid int) error {
	s.probes.Detach(pid) // in case it runs a new program
	r, err := s.Table.Release(pid)
	if err != nil {
		return m.refuse(s, fmt.Errorf("process %d: its memory cannot be followed: %w", pid, err))
	}
	var places []event.Place
	for _, f := range m.functions() {
		find := f.find(r)
		sites, err := find(s.Table, pid)
		if err != nil {
			return err
		}
		switch {
		case len(sites) > 0:
			places = append(places, event.Place{Name: f.name, Find: find, Programs: f.programs})
		case f.required:
			return m.refuse(s, fmt.Errorf("process %d: no symbol of V8's function for %s (stripped? use an official Node.js binary)", pid, f.name))
		}
	}
	return s.probes.Attach(pid, places)
}

// refuse is an error if the process was named, else a warning.
func (m *memory) refuse(s *session, err error) error {
	if len(m.o.PIDs) > 0 {
		return err
	}
	s.Warn(err)
	return nil
}

// jumpBytes is how long a function may be that only jumps to an overload of its own, which is
// probed as well.
const jumpBytes = 16

// find returns where a process has the function.
func (f probed) find(r *release.Release) func(*trace.Table, int) ([]event.Site, error) {
	return func(t *trace.Table, pid int) ([]event.Site, error) {
		for _, m := range t.Modules(pid, "") {
			site := event.Site{Module: m}
			for s := range m.Symbols(f.prefixes...) {
				if s.Type != elf.STT_FUNC || strings.Contains(s.Name, ".cold") || s.Size > 0 && s.Size < jumpBytes {
					continue
				}
				point := loader.Point{}
				var ok bool
				if point.Offset, ok = m.Offset(s.Address); !ok {
					continue
				}
				if f.cookie != nil {
					point.Cookie = f.cookie(r, s.Name)
				}
				same := func(p loader.Point) bool { return p.Offset == point.Offset }
				if !slices.ContainsFunc(site.Points, same) { // symbols are in two tables
					site.Points = append(site.Points, point)
				}
			}
			if len(site.Points) > 0 {
				return []event.Site{site}, nil
			}
		}
		return nil, nil
	}
}

// finish reports what the profile leaves out.
func (m *memory) finish(s *session, number int, p *profile.Profile) {
	if number > 0 {
		return
	}
	if n := s.Count(m.objects.Unread); n > 0 {
		s.Warn(fmt.Errorf("%d events were not counted: too many threads", n))
	}
	if m.o.Memory == Collections {
		return
	}
	read, doubtful := s.Count(m.objects.Buffers), s.Count(m.objects.Doubtful)
	switch {
	case doubtful > 0 && read == 0:
		s.Warn(errors.New("no allocation buffer looks like V8's: this version has them elsewhere, and what it allocates in its heap is not known"))
	case doubtful > 0:
		s.Warn(fmt.Errorf("%d allocation buffers of %d did not look like V8's: what they held is not counted", doubtful, read+doubtful))
	}
	if m.o.Allocated != nil {
		m.o.Allocated(m.summary(s))
	}
}

// An Allocated is how many bytes were allocated in V8's heap.
type Allocated struct {
	Buffers      uint64 // of these, the profile has the rest
	Attributed   uint64 // to stacks
	Unattributed uint64 // to none
}

func (m *memory) summary(s *session) Allocated {
	all, taken := s.Count(m.objects.HeapBytes), s.Count(m.objects.TakenBytes)
	return Allocated{
		Buffers: s.counts(s.kernel.Matched)[heap], Attributed: taken,
		Unattributed: all - min(all, taken) + s.Count(m.objects.LeftoverBytes),
	}
}
