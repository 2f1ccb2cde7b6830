package value_test

import (
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
)

// TestFunctionsAreFoundBehindBinds has a function that is bound twice.
func TestFunctionsAreFoundBehindBinds(t *testing.T) {
	const source = `class Held {}
function target() {}
const held = Object.assign(new Held(), { target, once: target.bind(1), twice: target.bind(1).bind(2), object: {} });
setInterval(() => held, 1 << 30);
console.log('ready');`
	version := nodetest.Versions[len(nodetest.Versions)-1]
	h, held := heldBy(t, calls.StartSource(t, version, source).PID)
	at := func(name string) v8.Value {
		slot, err := value.Lookup(h, value.Slot{Value: held}, name)
		if err != nil {
			t.Fatal(err)
		}
		return slot.Value
	}
	target := at("target")
	for _, name := range []string{"target", "once", "twice"} {
		if got := value.Unbound(h, at(name)); got != target {
			t.Errorf("%s calls %#x, want %#x", name, uint64(got), uint64(target))
		}
		if f, err := value.FunctionOf(h, at(name)); err != nil || f.String() != "target" {
			t.Errorf("function of %s = %v, %v, want target", name, f, err)
		}
	}
	if _, err := value.FunctionOf(h, at("object")); err == nil || !strings.Contains(err.Error(), "no JSFunction or SharedFunctionInfo") {
		t.Errorf("function of an object: error = %v, want one", err)
	}
	if got := value.Unbound(h, at("object")); got != at("object") {
		t.Errorf("what an object calls = %#x, want itself", uint64(got))
	}
	if _, err := value.ObjectOf(h, at("once"), "JSBoundFunction"); err != nil {
		t.Errorf("a bound function as one: %v", err)
	}
}
