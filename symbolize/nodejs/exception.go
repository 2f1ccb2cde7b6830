package nodejs

import (
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/stack"
)

// Limits on the search for an exception.
const (
	maxThrowBytes   = 1 << 20       // of C++ frames, between the newest and JavaScript's
	beforeEntryFP   = 20 * wordSize // of the words of a thread's state, which V8 14 has in another order
	afterEntryFP    = 12 * wordSize // likewise
	messageArgument = 32            // of a JSMessageObject: what was thrown
	exitArgument    = 16            // from the frame pointer of an exit frame to the only argument
	several         = 2             // exceptions, of which none is the one
)

// Functions that are called with an exception that nothing catches, or to throw one.
var (
	throwsArgument = []string{"v8::internal::Runtime_Throw", "v8::internal::Runtime_ReThrow"}
	throws         = []string{"v8::internal::Isolate::Throw", "v8::internal::Isolate::ThrowInternal", "v8::internal::Isolate::CreateMessageOrAbort"}
	triggers       = "node::errors::TriggerUncaughtException"
	aborts         = "v8::base::OS::Abort"
	fails          = "V8_Fatal" // by which other reasons to abort are reported
	// The events that process emits with what was thrown.
	exceptionEvents = []string{"uncaughtException", "uncaughtExceptionMonitor", "unhandledRejection"}
)

// Exception returns what the first thread has thrown and does not catch: the isolate's
// pending exception, the one because of which V8 or Node.js aborts, or the one that a
// listener of the program handles. It returns false if there is none, or if several values
// may be it.
func (p *Process) Exception() (v8.Value, bool) {
	if len(p.stacks.Threads()) == 0 || p.v8.Heap == nil {
		return 0, false
	}
	t := p.stacks.Threads()[0]
	frames := p.stacks.Stack(t).Frames
	for _, find := range []func(stack.Thread, []stack.Frame) (v8.Value, bool){p.pending, p.thrown, p.emitted} {
		if v, ok := find(t, frames); ok {
			return v, true
		}
	}
	return 0, false
}

// pending returns the isolate's pending exception. V8 keeps it, if it is not the hole, in a
// word near the frame pointer of the newest exit frame, among words of other types.
func (p *Process) pending(t stack.Thread, _ []stack.Frame) (v8.Value, bool) {
	entry := uint64(p.v8.Binary.Layout.CEntryFP)
	if t.Isolate == 0 || entry < beforeEntryFP {
		return 0, false
	}
	for at := entry - beforeEntryFP; at < entry+afterEntryFP; at += wordSize {
		word, err := p.space.Word(t.Isolate + at)
		if err == nil && p.kind(v8.Value(word)) == "JSError" {
			return v8.Value(word), true
		}
	}
	return 0, false
}

// thrown returns what the functions of V8 and Node.js that made the newest frames were
// called with.
func (p *Process) thrown(t stack.Thread, frames []stack.Frame) (v8.Value, bool) {
	native := frames
	if first := slices.IndexFunc(frames, func(f stack.Frame) bool { return f.Kind != symbolize.Native }); first >= 0 {
		native = frames[:first]
	}
	named := func(names ...string) bool {
		return slices.ContainsFunc(native, func(f stack.Frame) bool { return slices.Contains(names, f.Name) })
	}
	exit, err := p.space.Word(t.Isolate + uint64(p.v8.Binary.Layout.CEntryFP))
	if t.Isolate == 0 || err != nil || exit <= t.Registers.SP || exit-t.Registers.SP > maxThrowBytes {
		return 0, false
	}
	switch {
	case named(throwsArgument...):
		word, err := p.space.Word(exit + exitArgument)
		_, isSmi := v8.Value(word).Smi()
		return v8.Value(word), err == nil && (isSmi || p.kind(v8.Value(word)) != "")
	case named(throws...), named(triggers):
		return p.handled(t.Registers.SP, exit)
	case len(native) > 0 && native[0].Name == aborts && !named(fails) && p.abortsIfUncaught(): // a stripped build names only these
		return p.handled(t.Registers.SP, exit)
	}
	return 0, false
}

// handled returns the one exception that handles on the stack refer to, directly or by V8's
// message about it.
func (p *Process) handled(low, high uint64) (v8.Value, bool) {
	var messages, thrown []v8.Value
	add := func(to *[]v8.Value, v v8.Value) {
		if len(*to) < several && !slices.Contains(*to, v) {
			*to = append(*to, v)
		}
	}
	for offset := uint64(0); offset < high-low; offset += wordSize {
		slot, err := p.space.Word(low + offset)
		if err != nil || slot%wordSize != 0 {
			continue
		}
		word, err := p.space.Word(slot)
		if err != nil {
			continue
		}
		switch v := v8.Value(word); p.kind(v) {
		case "JSError":
			add(&thrown, v)
		case "JSMessageObject":
			if o, err := p.v8.Heap.Object(v); err == nil {
				if argument, err := p.v8.Heap.Field(o, messageArgument); err == nil {
					add(&messages, argument)
				}
			}
		}
	}
	for _, found := range [][]v8.Value{messages, thrown} {
		if len(found) == 1 {
			return found[0], true
		}
	}
	return 0, false
}

// abortsIfUncaught reports whether the process was started with V8's flag for that.
func (p *Process) abortsIfUncaught() bool {
	arguments, _ := p.space.Arguments() // what cannot be read is no evidence
	return slices.ContainsFunc(arguments, func(argument string) bool {
		return strings.ReplaceAll(argument, "_", "-") == "--abort-on-uncaught-exception"
	})
}

// emitted returns what process, in a frame of emit, passes to listeners of exceptions.
func (p *Process) emitted(_ stack.Thread, frames []stack.Frame) (v8.Value, bool) {
	for _, f := range frames {
		if !f.HasCall || f.Name != "emit" && !strings.HasSuffix(f.Name, ".emit") || f.File != "node:events" && f.File != "events.js" || len(f.Call.Arguments) < 2 {
			continue
		}
		event, _, err := p.v8.Heap.Text(f.Call.Arguments[0], maxArgument)
		if err == nil && slices.Contains(exceptionEvents, event) && p.isProcess(f.Call.This) {
			return f.Call.Arguments[1], true
		}
	}
	return 0, false
}

// isProcess reports whether a value is the process object.
func (p *Process) isProcess(v v8.Value) bool {
	o, err := p.v8.Heap.Object(v)
	if err != nil {
		return false
	}
	class, err := p.v8.Heap.Class(o)
	return err == nil && class == "process"
}

// kind returns the kind of the object that a value refers to; "" if it refers to none.
func (p *Process) kind(v v8.Value) string {
	if !v.IsObject() || v.IsWeak() {
		return ""
	}
	o, err := p.v8.Heap.Object(v)
	if err != nil {
		return ""
	}
	return o.Map.Kind
}
