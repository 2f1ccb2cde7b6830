package release_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/testdata/nodetest"
)

// printedCall is how V8 prints a call after which it may leave optimized code; up to V8 9.4
// the place at which it does comes before the slots.
var printedCall = regexp.MustCompile(`(?m)^0x[0-9a-f]+ +([0-9a-f]+) (?:.* deopt +\d+| +[0-9a-f]+ +[01]+ \(sp -> fp\) +\d+)`)

// confirmCalls finds the calls in optimized code where V8 prints them, with functions that
// are in progress.
func confirmCalls(m *measurement) error {
	p := m.probe("")
	object, text, err := p.find(strings.ReplaceAll(optimal, "NN", "1") + " > - code:")
	if err != nil {
		return err
	}
	b, err := v8.InspectAs(m.file, m.release)
	if err != nil {
		return err
	}
	h, err := v8.NewHeap(nodetest.LiveMemoryOf(p.memory), b)
	if err != nil {
		return err
	}
	finder, _ := code.NewFinder(h, 0) // the address of the code is known
	found, err := finder.Code(v8.Value(object))
	if err != nil {
		return err
	}
	table, err := finder.Table(found, 0)
	if err != nil {
		return err
	}
	calls := printedCall.FindAllStringSubmatch(text, -1)
	if len(calls) == 0 {
		return fmt.Errorf("V8 prints no call of optimized code")
	}
	for _, call := range calls {
		offset, err := strconv.ParseInt(call[1], 16, 32)
		if err != nil {
			return err
		}
		if places, err := table.At(int(offset) - 1); err != nil || !table.ReturnsTo(int(offset)) {
			return fmt.Errorf("Code.Safepoints, Code.Translations: no call returns to %#x: %v, %w", offset, places, err)
		}
	}
	m.confirmed["Code.Safepoints"], m.confirmed["Code.Translations"] = true, true
	return nil
}
