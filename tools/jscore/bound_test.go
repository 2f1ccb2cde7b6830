package jscore

import (
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// TestBoundFunctionsLeadToTheirTargets tests a callback made by bind(), and one that is
// a proxy.
func TestBoundFunctionsLeadToTheirTargets(t *testing.T) {
	target := calls.StartSource(t, "24.21.0", `const captured = 'kept';
function later() { return captured; }
setInterval(later.bind({ n: 1 }, 2).bind(null), 60e3);
setInterval(new Proxy(later, {}), 61e3);
console.log('ready');`)
	d := dumped(t, target.PID, Options{})
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	timers := d.Timers(g)
	like(t, textOf(t, timers, nil), `[0-9a-f]+ interval 60000 ms: [0-9a-f]+ bound later at .*source.js line 2
[0-9a-f]+ interval 61000 ms: [0-9a-f]+ JSProxy
`)
	bound := v8.Value(timers.Timers[0].Callback.Address)
	if got, want := value.BriefOf(d.Heap(), bound).String(), "JSBoundFunction: bound later"; got != want {
		t.Errorf("text = %q, want %q", got, want)
	}
	function, err := d.JSFunction(bound)
	like(t, textOf(t, function, err), `bound function: later
    target: [0-9a-f]+ \(JSFunction: later\)
    kind: function
    defined at: .*source.js line 2
.*`)
	source, err := d.JSSource(bound, 0)
	like(t, textOf(t, source, err), `file: .*source.js

    2 function later\(\) { return captured; }
`)
	closure, err := JSClosure(d.Heap(), bound)
	like(t, textOf(t, closure, err), `.*"captured": [0-9a-f]+: "kept"
.*`)
}
