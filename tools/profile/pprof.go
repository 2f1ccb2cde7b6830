package profile

import (
	"cmp"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"

	pprof "github.com/google/pprof/profile"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// writePprof writes a gzipped pprof profile of all events, labelled with pid, tid and thread.
func writePprof(w io.Writer, all []*Profile, _ Options) error {
	return pprofOf(all).Write(w)
}

// Pprof returns p as a pprof profile, if it is valid.
func (p *Profile) Pprof() (*pprof.Profile, error) { return PprofAll([]*Profile{p}) }

// PprofAll returns the profiles of one run as a pprof profile, if they are valid. A location's line is the
// executing one, or the one that defines the function if that is not known. A location
// holds the functions that are inlined there, too. A function without a name has its place in its name,
// since pprof's reports merge functions with equal names.
func PprofAll(all []*Profile) (*pprof.Profile, error) {
	for _, p := range all {
		if err := p.Check(); err != nil {
			return nil, err
		}
	}
	return pprofOf(all), nil
}

func pprofOf(all []*Profile) *pprof.Profile {
	first := all[0]
	b := pprofBuilder{
		out:       &pprof.Profile{DurationNanos: first.Duration.Nanoseconds()},
		functions: map[symbolize.Frame]*pprof.Function{},
		locations: map[string]*pprof.Location{},
		ids:       map[symbolize.Frame]uint64{},
		mappings:  map[string]*pprof.Mapping{},
	}
	if !first.Start.IsZero() {
		b.out.TimeNanos = first.Start.UnixNano()
	}
	for _, p := range all {
		b.values(p)
	}
	if processes := first.processes(); len(processes) > 1 { // for a single process, the summary has the versions
		for _, part := range processes {
			b.out.Comments = append(b.out.Comments, part.String())
		}
	}
	at := 0
	for i, p := range all {
		merged := p.Merge()
		if program := program(merged.Stacks); program != "" && i == 0 {
			b.mapping(symbolize.Frame{Module: program}) // readers assume that the first mapping is the program
		}
		for _, s := range merged.Stacks {
			b.sample(s, p.pprofValues(s), at)
		}
		at += len(p.pprofTypes())
	}
	return b.out
}

// values adds the types of p's values. The last one of the first profile is the one that readers
// show first.
func (b *pprofBuilder) values(p *Profile) {
	types := p.pprofTypes()
	b.out.Comments = append(b.out.Comments, p.summary())
	if losses := p.losses(); losses != "" {
		b.out.Comments = append(b.out.Comments, losses)
	}
	if b.out.DefaultSampleType == "" {
		b.out.DefaultSampleType = types[len(types)-1].Type
	}
	if p.ValueType.sampled() {
		b.out.PeriodType = &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}
		b.out.Period = p.period().Nanoseconds()
	}
	b.out.SampleType = append(b.out.SampleType, types...)
}

// pprofTypes returns the types of p's values: the values, and the CPU time that samples represent; or
// the number of events, and the values.
func (p *Profile) pprofTypes() []*pprof.ValueType {
	values := p.ValueType.orSamples()
	types := []*pprof.ValueType{{Type: values.Type, Unit: values.Unit}}
	switch {
	case p.period() > 0:
		types = append(types, &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"})
	case p.Events > 0:
		types = append([]*pprof.ValueType{{Type: cmp.Or(p.Event, "events"), Unit: Samples.Unit}}, types...)
	}
	return types
}

// pprofValues returns a stack's values of these types.
func (p *Profile) pprofValues(s Stack) []int64 {
	switch {
	case p.period() > 0:
		return []int64{int64(s.Value), int64(s.Value) * p.period().Nanoseconds()}
	case p.Events > 0:
		return []int64{int64(s.Events), int64(s.Value)}
	}
	return []int64{int64(s.Value)}
}

// program returns the file of the program that most samples are of: the file
// that contains main or _start, or else V8; empty if it is not known.
func program(stacks []Stack) string {
	for _, is := range []func(symbolize.Frame) bool{
		func(f symbolize.Frame) bool { return f.Name == "_start" || f.Name == "main" },
		func(f symbolize.Frame) bool { return f.Kind == symbolize.Builtin },
	} {
		samples := map[string]uint64{}
		for _, s := range stacks {
			if i := slices.IndexFunc(s.Frames, is); i >= 0 {
				samples[s.Frames[i].Module] += s.Value
			}
		}
		delete(samples, "")
		if len(samples) > 0 {
			return slices.MaxFunc(slices.Sorted(maps.Keys(samples)), func(a, b string) int { return cmp.Compare(samples[a], samples[b]) })
		}
	}
	return ""
}

type pprofBuilder struct {
	out       *pprof.Profile
	functions map[symbolize.Frame]*pprof.Function
	locations map[string]*pprof.Location // by the ids of their frames
	ids       map[symbolize.Frame]uint64
	mappings  map[string]*pprof.Mapping
}

// sample adds a stack whose values are those of the types from number at on.
func (b *pprofBuilder) sample(s Stack, values []int64, at int) {
	sample := &pprof.Sample{
		Value: make([]int64, len(b.out.SampleType)),
		NumLabel: map[string][]int64{
			"pid": {int64(s.PID)},
			"tid": {int64(s.TID)},
		},
	}
	copy(sample.Value[at:], values)
	if s.Thread != "" {
		sample.Label = map[string][]string{"thread": {printable.String(s.Thread)}}
	}
	for frames := s.frames(); len(frames) > 0; {
		n := 1 // inlined functions, and the one that they are inlined in
		for n < len(frames) && frames[n-1].Inlined {
			n++
		}
		sample.Location = append(sample.Location, b.location(frames[:n]))
		frames = frames[n:]
	}
	b.out.Sample = append(b.out.Sample, sample)
}

// location returns the location of frames, the last of which is not inlined.
func (b *pprofBuilder) location(frames []symbolize.Frame) *pprof.Location {
	var key []byte
	for _, f := range frames {
		place := function(f)
		place.ExecutingLine, place.ExecutingColumn, place.Inlined = f.ExecutingLine, f.ExecutingColumn, f.Inlined
		id, ok := b.ids[place]
		if !ok {
			id = uint64(len(b.ids))
			b.ids[place] = id
		}
		key = binary.AppendUvarint(key, id)
	}
	if l, ok := b.locations[string(key)]; ok {
		return l
	}
	l := &pprof.Location{
		ID:      uint64(len(b.out.Location) + 1),
		Mapping: b.mapping(frames[len(frames)-1]),
	}
	for _, f := range frames {
		line := pprof.Line{Function: b.function(f), Line: int64(f.Line), Column: int64(f.Column)}
		if f.ExecutingLine > 0 {
			line.Line, line.Column = int64(f.ExecutingLine), int64(f.ExecutingColumn)
		}
		l.Line = append(l.Line, line)
	}
	b.out.Location = append(b.out.Location, l)
	b.locations[string(key)] = l
	return l
}

func (b *pprofBuilder) function(f symbolize.Frame) *pprof.Function {
	f = function(f)
	if fn, ok := b.functions[f]; ok {
		return fn
	}
	fn := &pprof.Function{
		ID:        uint64(len(b.out.Function) + 1),
		Name:      name(f),
		Filename:  printable.String(f.File),
		StartLine: int64(f.Line),
	}
	if strings.HasPrefix(fn.Name, anonymous) && f.File != "" {
		fn.Name += " " + shortPlace(f)
	}
	fn.SystemName = systemName(f)
	b.out.Function = append(b.out.Function, fn)
	b.functions[f] = fn
	return fn
}

// systemName returns what tells the kind of a function whose name and file do not: the
// name of a builtin's symbol, and that of V8's typed frames.
func systemName(f symbolize.Frame) string {
	switch {
	case f.Kind == symbolize.Builtin:
		return "Builtins_" + name(f)
	case f.Kind == symbolize.Typed:
		return "<< " + strings.Trim(name(f), "<> ") + " >>"
	case f.Kind == symbolize.JS && f.File == "":
		return anonymous
	}
	return name(f)
}

// mapping returns f's module as a mapping whose names are all marked as known,
// so that no reader searches for the file; nil for a frame without a module.
func (b *pprofBuilder) mapping(f symbolize.Frame) *pprof.Mapping {
	if f.Module == "" {
		return nil
	}
	m, ok := b.mappings[f.Module]
	if !ok {
		m = &pprof.Mapping{
			ID: uint64(len(b.out.Mapping) + 1), File: printable.String(f.Module),
			HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
		}
		b.mappings[f.Module] = m
		b.out.Mapping = append(b.out.Mapping, m)
	}
	return m
}
