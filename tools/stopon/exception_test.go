package stopon

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
)

// shortVersions are those that tests of every version have in their short form.
func shortVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "24.21.0"}
}

// TestUncaughtExceptionsHaveTheirThrowersStack: only what nothing catches is
// reported, with the stack of the function that threw it, which is gone by then.
func TestUncaughtExceptionsHaveTheirThrowersStack(t *testing.T) {
	nodetest.Root(t)
	for _, version := range shortVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := startTrouble(t, version, "throws")
			r := watch(t, target, Options{Uncaught: true})
			done := perform(t, target)
			hits := r.end(done.Events)
			if len(hits) != done.Events {
				t.Errorf("hits = %d, want %d", len(hits), done.Events)
			}
			for i, h := range hits {
				if want := fmt.Sprintf("trouble %d ☃", i); h.Class != "Trouble" || h.Message != want {
					t.Errorf("exception = %s: %q, want Trouble: %q", h.Class, h.Message, want)
				}
				if names := javascript(h); !h.Thrower || len(names) == 0 || names[0] != "guilty" {
					t.Errorf("functions = %q, want guilty first", names)
				}
				if h.Rejection != (i%2 == 0) {
					t.Errorf("%s: rejection = %v", h.Event, h.Rejection)
				}
			}
		})
	}
}

// TestThrowsAreSeenWithTheirClass counts what is thrown, by class.
func TestThrowsAreSeenWithTheirClass(t *testing.T) {
	nodetest.Root(t)
	for _, version := range shortVersions() {
		for _, class := range []string{"Trouble", "Range*"} {
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), class), func(t *testing.T) {
				target := startTrouble(t, version, "throws")
				r := watch(t, target, Options{Throw: class})
				done := perform(t, target)
				want, function := done.Events, "guilty"
				if class != "Trouble" {
					want, function = done.Caught, "innocent"
				}
				hits := r.end(want)
				if len(hits) != want || r.result.Unclassed > 0 {
					t.Errorf("hits = %d, want %d; %d exceptions had no class that could be read", len(hits), want, r.result.Unclassed)
				}
				for _, h := range hits {
					if names := javascript(h); !slices.Contains(names[:min(1, len(names))], function) {
						t.Errorf("%s: functions = %q, want %s first", h.Event, names, function)
					}
					if h.Trigger != "throw" || !strings.HasPrefix(h.Event, "throw "+h.Class+": ") {
						t.Errorf("event = %q, trigger = %s", h.Event, h.Trigger)
					}
				}
			})
		}
	}
}
