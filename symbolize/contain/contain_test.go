package contain_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"ustack/symbolize/contain"
)

func read(words []int, at int) (word int, err error) {
	defer contain.Panic(&err, "read word %d", at)
	return words[at], nil
}

func TestPanicBecomesAnErrorThatKeepsItsCause(t *testing.T) {
	_, err := read(nil, 7)
	var fault *contain.Fault
	if !errors.As(err, &fault) {
		t.Fatalf("error = %v, want a Fault", err)
	}
	if want := "read word 7: internal error: runtime error: index out of range"; !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error = %q, want %q at its start", err, want)
	}
	if !strings.Contains(string(fault.Stack), "contain_test.read") {
		t.Errorf("stack = %s, want the function that panicked in it", fault.Stack)
	}
	if cause := runtime.Error(nil); !errors.As(err, &cause) {
		t.Errorf("error = %v, want it to wrap the runtime's", err)
	}
}

func TestWithoutAPanicTheErrorStays(t *testing.T) {
	if word, err := read([]int{3}, 0); word != 3 || err != nil {
		t.Errorf("read = %d, %v, want 3 and no error", word, err)
	}
}
