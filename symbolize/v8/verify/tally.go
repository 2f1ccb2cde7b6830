package verify

import (
	"cmp"
	"fmt"
)

// racePart is the part of functions that may look wrong with the right layout: those of
// which the collector had freed a part before they were read. With a wrong layout, all
// look wrong.
const racePart = 20

// A tally counts examined objects.
type tally struct {
	right, wrong, changed int
	err                   error // of the first that is wrong
}

// count runs a check of an object and counts it if the check says so.
func (t *tally) count(m *steadyMemory, check func() (counts bool, err error)) {
	counts := false
	steady, err := m.examine(func() (err error) {
		counts, err = check()
		return err
	})
	switch {
	case !steady:
		t.changed++
	case err != nil:
		t.wrong++
		t.err = cmp.Or(t.err, err)
	case counts:
		t.right++
	}
}

// judge returns an error unless at least so many objects are right and hardly any wrong.
func (t *tally) judge(least int) error {
	switch {
	case t.wrong > t.right/racePart:
		return fmt.Errorf("%d are right, %d are wrong: %w", t.right, t.wrong, t.err)
	case t.right < least:
		return fmt.Errorf("only %d are right, and %d changed meanwhile", t.right, t.changed)
	}
	return nil
}
