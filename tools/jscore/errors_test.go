package jscore

import (
	"fmt"
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// TestStackOfAnErrorIsPrinted compares the stacks of errors that the program has not
// read with those, made in the same place, that it has read.
func TestStackOfAnErrorIsPrinted(t *testing.T) {
	const source = `class Wrong extends TypeError {}
Wrong.prototype.name = 'Wrong';
class Held {}
const [error, ownError] = [0, 1].map(() => new RangeError('of a range'));
const [wrong, ownWrong] = [0, 1].map(() => new Wrong('of a class'));
const [captured, ownCaptured] = [0, 1].map(() => { const o = { n: 7 }; Error.captureStackTrace(o); return o; });
const changed = new Error('changed');
changed.stack = 'set by the program';
const held = Object.assign(new Held(), { error, ownError, wrong, captured, changed });
const want = { error: ownError.stack, ownError: ownError.stack, wrong: ownWrong.stack, captured: ownCaptured.stack, changed: changed.stack };
setInterval(() => held, 1 << 30);
console.log('ready ' + JSON.stringify(want));`
	for _, version := range censusVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			target := calls.StartSource(t, version, source)
			var want map[string]string
			target.Facts(&want)
			g := graphOf(t, target.PID)
			held := v8.Value(mostOf(t, g, CensusOptions{Class: "Held", Live: true}).Address)
			for name, stack := range want {
				p, err := Print(g.heap, held, PrintOptions{Paths: []string{name + ".stack"}})
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				if n := p.Values[0].Node; n.Type != "string" || n.Text != stack {
					t.Errorf("stack of %s is a %s, %q, want the string %q", name, n.Type, n.Text, stack)
				}
			}
		})
	}
}
