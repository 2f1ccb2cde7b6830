package jsprof

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/elfsym"
	"ustack/tools/event"
	"ustack/tools/profile"
)

// MaxEvents is how many events one run may have.
const MaxEvents = int(bpf.TraceProfileLimitMAX_EVENTS)

// check returns an error if the options make no sense.
func (o *Options) check() error {
	if len(o.Events) > MaxEvents {
		return fmt.Errorf("%d events are more than %d", len(o.Events), MaxEvents)
	}
	seen := make(map[string]string) // system calls, by the event that has them
	for _, e := range o.Events {
		for _, name := range e.Syscalls {
			if other, ok := seen[name]; ok && other != e.Name {
				return fmt.Errorf("the system call %s is in two events: %s and %s", name, other, e.Name)
			}
			seen[name] = e.Name
		}
		if _, err := o.weightOf(e).Weigher(e); err != nil {
			return err
		}
		if o.Quantize && !isProbe(e) {
			return fmt.Errorf("%s has no values to quantize", e.Name)
		}
	}
	if o.Quantize && o.Weight == event.Counting {
		return errors.New("each event counts as 1: name what to quantize, such as duration or bytes")
	}
	return o.Predicate.Check(event.KindsOf(o.Events))
}

// isProbe reports whether e is not of perf, so that it can have conditions and a weight.
func isProbe(e event.Event) bool { return e.Timer == nil && e.Perf == nil && e.Hardware == nil }

// weightOf returns what e adds: an event of perf counts.
func (o *Options) weightOf(e event.Event) event.Weight {
	if !isProbe(e) && len(o.Events) > 1 {
		return event.Counting
	}
	return o.Weight
}

// eventValues returns what the values of each event are.
func (o *Options) eventValues() (all []value) {
	for _, e := range o.Events {
		v := value{ValueType: profile.ValueType{Type: e.Name, Unit: profile.Samples.Unit}, event: e.Name, counts: true}
		if weight := o.weightOf(e); weight != event.Counting {
			v.Type, v.Unit, v.counts = e.Name+":"+weight.Name(), weight.Unit(), false
		}
		if e.Timer != nil && (*e.Timer == loader.CPUClock || len(o.Events) == 1) {
			v.ValueType = profile.Samples
		}
		all = append(all, v)
	}
	return all
}

// events are the source of a run that takes stacks at probes, and perhaps at samples too.
type events struct {
	samples
	objects bpf.JsprofObjects
	// repeated says that copies of the programs that see system calls see what these do not.
	repeated bool
	usdts    event.Descriptions
}

func newEventSource(o *Options) (*source, error) {
	spec, err := bpf.LoadJsprof()
	if err != nil {
		return nil, err
	}
	e := &events{samples: newSamples(o)}
	variables, err := e.configure(spec)
	if err != nil {
		return nil, err
	}
	if e.needed[bpf.JsprofProgOnSystemCallEnd] && (o.preempted || loader.PreemptsAtTracepoints()) {
		e.repeated = true
		e.need(bpf.JsprofProgOnSystemCall, true) // it counts the calls whose end is not seen
		if err := loader.Repeat(spec, bpf.JsprofProgOnSystemCall, bpf.JsprofProgOnSystemCallEnd); err != nil {
			return nil, err
		}
	}
	event.Prune(spec, e.needed)
	return &source{
		spec: spec, objects: &e.objects, variables: variables, values: o.eventValues(), quantized: o.Quantize,
		attach: e.attach, added: e.added, ended: func(s *session, pid int) { s.probes.Detach(pid) },
		finish: e.finish, warn: e.warn, place: placeOf,
	}, nil
}

// configure returns the constants of the programs, and decides which of them are needed.
func (e *events) configure(spec *ebpf.CollectionSpec) (map[string]any, error) {
	o := e.o
	var weighers [MaxEvents]bpf.TraceWeigher
	var fields [MaxEvents][len(bpf.TraceUsdt{}.Arguments)]bpf.TraceField
	wanted := make(map[string]uint8)
	timed := o.Predicate.Slower > 0
	for i, ev := range o.Events {
		w, err := o.weightOf(ev).Weigher(ev)
		if err != nil {
			return nil, err
		}
		weighers[i] = w
		for _, name := range ev.Syscalls {
			wanted[name] = uint8(i + 1)
		}
		if ev.Tracepoint != nil {
			fields[i] = ev.Tracepoint.Record()
		}
		timed = timed || len(ev.Syscalls) > 0 && bpf.TraceWeight(w.Weight) == bpf.TraceWeightWEIGHT_DURATION
		e.needFor(ev, timed)
	}
	if !e.needed[bpf.JsprofProgOnCall] && !e.needed[bpf.JsprofProgOnSystemCall] {
		spec.Maps[bpf.JsprofMapCalls].MaxEntries = 1
	}
	spec.Maps[bpf.JsprofMapSought].MaxEntries = 1 // no condition is about a name
	variables := e.variables()
	maps.Copy(variables, map[string]any{
		bpf.JsprofVarQuantized: number(o.Quantize), bpf.JsprofVarTimed: number(timed),
		bpf.JsprofVarPaired: number(e.needed[bpf.JsprofProgOnCall]), bpf.JsprofVarEvery: uint32(o.Every), bpf.JsprofVarWeighers: weighers, bpf.JsprofVarFields: fields,
		bpf.JsprofVarSyscalls: event.Rows(wanted),
	})
	o.Predicate.Set(variables)
	return variables, nil
}

// number returns 1 for true.
func number(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}

func anyProbe(all []event.Event) bool {
	for _, e := range all {
		if isProbe(e) {
			return true
		}
	}
	return false
}

// needFor decides which programs an event needs.
func (e *events) needFor(ev event.Event, timed bool) {
	function := ev.Function
	e.needForSample(ev)
	e.need(bpf.JsprofProgOnSystemCallEnd, len(ev.Syscalls) > 0)
	e.need(bpf.JsprofProgOnSystemCall, len(ev.Syscalls) > 0 && timed)
	e.need(bpf.JsprofProgOnEntry, function != nil && !function.Return)
	e.need(bpf.JsprofProgOnReturn, function != nil && function.Return)
	e.need(bpf.JsprofProgOnCall, function != nil && function.Return && e.needsCalls(ev))
	e.need(bpf.JsprofProgOnUsdt, ev.USDT != nil)
	e.need(bpf.JsprofProgOnTracepoint, ev.Tracepoint != nil)
}

// needsCalls reports whether the entries of a function that returns matter.
func (e *events) needsCalls(ev event.Event) bool {
	w, err := e.o.weightOf(ev).Weigher(ev)
	return err == nil && event.NeedsBegin(w) || e.o.Predicate.Slower > 0 || e.o.Predicate.NeedsArguments()
}

// attach attaches the programs that are not specific to one process.
func (e *events) attach(s *session) error {
	if err := e.attachCalls(s); err != nil {
		return err
	}
	for i, ev := range e.o.Events {
		if ev.Tracepoint != nil {
			if err := s.Attach(loader.Tracepoint(ev.Tracepoint.Group, ev.Tracepoint.Name, e.objects.OnTracepoint, uint64(i))); err != nil {
				return err
			}
		}
	}
	return e.samples.attach(s)
}

// attachCalls attaches what sees the beginnings of system calls before what sees the ends, unless the
// calls whose end is not seen are counted.
func (e *events) attachCalls(s *session) error {
	names := []string{bpf.JsprofProgOnSystemCall, bpf.JsprofProgOnSystemCallEnd}
	programs := map[string]*ebpf.Program{names[0]: e.objects.OnSystemCall, names[1]: e.objects.OnSystemCallEnd}
	if e.repeated {
		slices.Reverse(names)
	}
	for _, name := range names {
		if e.needed[name] {
			if err := s.AttachCopies(name, programs[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

// added attaches probes to process pid. A symbol that a mapped file lacks is an error if the
// process was named, for nothing would ever be seen.
func (e *events) added(s *session, pid int) error {
	s.probes.Detach(pid) // in case it runs a new program
	var places []event.Place
	for i, ev := range e.o.Events {
		switch {
		case ev.Function != nil:
			if err := ev.Function.Absent(s.Table, pid); err != nil && len(e.o.PIDs) > 0 {
				return err
			}
			places = append(places, e.functionPlace(*ev.Function, ev, uint64(i)))
		case ev.USDT != nil:
			if err := ev.USDT.Absent(s.Table, pid); err != nil && len(e.o.PIDs) > 0 {
				return err
			}
			places = append(places, e.usdtPlace(*ev.USDT, uint64(i)))
		}
	}
	return s.probes.Attach(pid, places)
}

func (e *events) functionPlace(f event.Function, ev event.Event, number uint64) event.Place {
	programs := []event.Program{{Program: e.objects.OnEntry}}
	if f.Return {
		programs = []event.Program{{Program: e.objects.OnReturn, Return: true}}
		if e.needsCalls(ev) {
			programs = append([]event.Program{{Program: e.objects.OnCall}}, programs...)
		}
	}
	return event.Place{
		Name: f.String(), Find: f.Find(number), Programs: programs,
		Missing: fmt.Errorf("no %s yet (waiting for it to be loaded)", f),
	}
}

func (e *events) usdtPlace(u event.USDT, number uint64) event.Place {
	return event.Place{
		Name: u.String(), Programs: []event.Program{{Program: e.objects.OnUsdt}},
		Find:    u.Find(func(p elfsym.USDT) uint64 { return e.usdts.Cookie(e.objects.Usdts, p, uint32(number)) }),
		Missing: fmt.Errorf("no %s yet (waiting for it to be loaded)", u),
	}
}

// finish adds what is known about an event's stacks.
func (e *events) finish(s *session, number int, p *profile.Profile) {
	if isProbe(e.o.Events[number]) && e.o.Every > 1 {
		p.Every, p.Seen = e.o.Every, s.counts(s.kernel.Matched)[number]
	}
	e.samples.finish(s, number, p)
}

// warn warns of events that add nothing.
func (e *events) warn(s *session) {
	for i, n := range s.counts(s.kernel.Negative) {
		if n > 0 && !e.o.Quantize {
			s.Warn(fmt.Errorf("%s: %d events had a value below 0, such as an error, which adds nothing", e.o.Events[i].Name, n*e.o.Every))
		}
	}
	if n := s.Count(e.objects.Unbegun); n > 0 {
		s.Warn(fmt.Errorf("%d calls began before they were seen: they are not in the profile", n))
	}
	if n := s.Count(e.objects.Unended); n > 0 {
		s.Warn(fmt.Errorf("%d system calls are not in the profile: their ends came on a CPU on which threads were preempted in all the programs that see them", n))
	}
	if n := s.Count(e.objects.Unnumbered); n > 0 {
		s.Warn(fmt.Errorf("%d events of static probes had arguments that are not known: they count as 0", n))
	}
}
