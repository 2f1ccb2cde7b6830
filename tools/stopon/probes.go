package stopon

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"ustack/symbolize/elfsym"
	"ustack/tools/event"
)

// exits are the functions of the C library that end a process. The first one
// called counts: at exit everything still exists, and some programs call only
// _exit.
var exits = []string{"exit", "_exit"}

// throws are v8::internal::Isolate::Throw(Object, MessageLocation*), which
// every exception passes through before anything is unwound: as named in V8 12
// and later, then in older versions.
var throws = []string{
	"_ZN2v88internal7Isolate5ThrowENS0_6TaggedINS0_6ObjectEEEPNS0_15MessageLocationE",
	"_ZN2v88internal7Isolate13ThrowInternalENS0_6ObjectEPNS0_15MessageLocationE",
}

// uncaught is node::errors::TriggerUncaughtException(Isolate*, Local<Value>,
// Local<Message>, bool), which runs before any handler of uncaughtException.
var uncaught = []string{
	"_ZN4node6errors24TriggerUncaughtExceptionEPN2v87IsolateENS1_5LocalINS1_5ValueEEENS4_INS1_7MessageEEEb",
}

// What a process lacks without a symbol.
var (
	errNoExit     = errors.New("no C library with exit, so its exit is not seen")
	errNoThrow    = errors.New("the symbol of V8's Isolate::Throw is missing, so throws are not seen (is its node stripped?)")
	errNoUncaught = errors.New("the symbol of Node.js's TriggerUncaughtException is missing, so uncaught exceptions are not seen (is its node stripped?)")
)

// places returns the places that the options need in each process.
func (s *session) places() (all []event.Place) {
	enters := func(p *ebpf.Program) []event.Program { return []event.Program{{Program: p}} }
	for i, f := range s.o.Functions {
		programs := enters(s.objects.OnEntry)
		if f.Return {
			programs = []event.Program{{Program: s.objects.OnReturn, Return: true}}
			if s.o.needsCalls() {
				programs = append(enters(s.objects.OnCall), programs...)
			}
		}
		all = append(all, event.Place{
			Name: f.String(), Find: f.Find(uint64(i)), Programs: programs,
			Missing: fmt.Errorf("no %s yet (waiting for it to be loaded)", f),
		})
	}
	for i, u := range s.o.USDTs {
		all = append(all, event.Place{
			Name: u.String(), Programs: enters(s.objects.OnUsdt), Repeats: true,
			Find:    u.Find(func(p elfsym.USDT) uint64 { return s.usdts.Cookie(s.objects.Usdts, p, uint32(i)) }),
			Missing: fmt.Errorf("no static probe %s yet (waiting for it)", u),
		})
	}
	if s.o.Exit != nil {
		all = append(all, event.Place{Name: "exit", Find: event.FindAny(exits), Programs: enters(s.objects.OnExit), Missing: errNoExit})
	}
	if s.o.throws() {
		all = append(all, event.Place{Name: "Isolate::Throw", Find: event.FindAny(throws), Programs: enters(s.objects.OnThrow), Missing: errNoThrow})
	}
	if s.o.Uncaught {
		all = append(all, event.Place{Name: "TriggerUncaughtException", Find: event.FindAny(uncaught), Programs: enters(s.objects.OnUncaught), Missing: errNoUncaught})
	}
	return all
}

// needsCalls reports whether the entries of functions that return matter.
func (o *Options) needsCalls() bool { return o.Slower > 0 || o.predicate().NeedsArguments() }

// attach attaches the probes to process pid, which the table has just started
// to trace.
func (s *session) attach(pid int) error {
	if s.supervisor != nil {
		if err := s.lifelines.tie(pid); err != nil {
			return err
		}
	}
	s.probes.Detach(pid) // in case it runs a new program
	s.learn(pid)
	if err := s.expectStart(pid); err != nil {
		return err
	}
	return s.probes.Attach(pid, s.places())
}

// end releases everything held for a process that has ended.
func (s *session) end(pid int) {
	s.probes.Detach(pid)
	if err := s.lifelines.cut(pid); err != nil {
		s.warn(err)
	}
}
