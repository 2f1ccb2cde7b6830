package lazyregexp

import (
	"slices"
	"testing"
)

func TestExpressionsAreThoseOfRegexp(t *testing.T) {
	r := New(`^(\w+):(\d+)$`)
	if !r.MatchString("a:1") || r.MatchString("a:b") {
		t.Error("MatchString = another answer than regexp's")
	}
	if got, want := r.FindStringSubmatch("line:12"), []string{"line:12", "line", "12"}; !slices.Equal(got, want) {
		t.Errorf("FindStringSubmatch = %q, want %q", got, want)
	}
	if got := r.Compiled(); got != r.Compiled() {
		t.Error("the expression was compiled twice")
	}
}

// TestCompilingIsPutOff has an expression that is none: only its use fails.
func TestCompilingIsPutOff(t *testing.T) {
	r := New(`(`)
	defer func() {
		if recover() == nil {
			t.Error("a use of no expression did not panic")
		}
	}()
	r.MatchString("")
}
