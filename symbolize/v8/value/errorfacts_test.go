package value_test

import (
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// heldBy returns the one live object of class Held of a process.
func heldBy(t *testing.T, pid int) (*v8.Heap, v8.Value) {
	t.Helper()
	d := dumped(t, pid)
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	found := g.Instances(t.Context(), jscore.CensusOptions{Class: "Held", Live: true}).Values
	if len(found) != 1 {
		t.Fatalf("objects of class Held = %+v, want one", found)
	}
	return d.Heap(), v8.Value(found[0].Address)
}

// errorsProgram has errors that lack something, or have more than usual.
const errorsProgram = `class Held {}
class Refused extends TypeError {}
class Named extends Error {}
Named.prototype.name = 'of the prototype';
class Secret extends Error {}
Object.defineProperty(Secret.prototype, 'name', { get() { throw 1; } });
const depth = Error.stackTraceLimit;
Error.stackTraceLimit = 0;
const flat = new Error('without calls');
Error.stackTraceLimit = depth;
const deleted = new Error('deleted');
delete deleted.message;
const held = Object.assign(new Held(), {
  usual: new RangeError('of a range'),
  subclass: new Refused('refused'),
  named: new Named('named'),
  secret: new Secret('secret'),
  caused: new Error('caused', { cause: held => held }),
  deleted, flat,
  numbered: Object.assign(new Error('numbered'), { name: 7 }),
  converted: Object.assign(new Error('converted'), { name: { toString() { return 'by code'; } } }),
  replaced: Object.assign(new Error('replaced'), { stack: 'mine' }),
  plain: { name: 'Error', message: 'no error' },
});
setInterval(() => held, 1 << 30);
console.log('ready');`

func TestErrorsSayWhatTheyAre(t *testing.T) {
	version := nodetest.Versions[len(nodetest.Versions)/2]
	h, held := heldBy(t, calls.StartSource(t, version, errorsProgram).PID)
	for name, want := range map[string]struct {
		name, message, stack string // stack: its first line; empty: it has none
		cause, calls         bool
	}{
		"usual":     {"RangeError", "of a range", "RangeError: of a range", false, true},
		"subclass":  {"TypeError", "refused", "TypeError: refused", false, true},
		"named":     {"of the prototype", "named", "of the prototype: named", false, true},
		"secret":    {"Error", "secret", "Error: secret", false, true}, // no getter can be called
		"numbered":  {"7", "numbered", "7: numbered", false, true},
		"converted": {"Error", "converted", "Error: converted", false, true}, // no method can be called
		"caused":    {"Error", "caused", "Error: caused", true, true},
		"deleted":   {"Error", "", "Error", false, true},
		"flat":      {"Error", "without calls", "", false, false},
		"replaced":  {"Error", "replaced", "mine", false, false},
		"plain":     {"Error", "no error", "", false, false},
	} {
		slot, err := value.Lookup(h, value.Slot{Value: held}, name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o, err := h.Object(slot.Value)
		if err != nil {
			t.Fatal(err)
		}
		e, err := value.ReadError(h, o)
		first, _, _ := strings.Cut(e.Stack, "\n")
		if err != nil || e.Name != want.name || e.Message != want.message || first != want.stack {
			t.Errorf("%s is %q: %q with the stack %q, %v, want %q: %q with %q", name, e.Name, e.Message, first, err, want.name, want.message, want.stack)
		}
		if e.HasCause != want.cause || len(e.Sites) > 0 != want.calls {
			t.Errorf("%s has a cause = %t and %d calls, want %t and some = %t", name, e.HasCause, len(e.Sites), want.cause, want.calls)
		}
	}
}
