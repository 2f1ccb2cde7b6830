package nodesnoop

import (
	"fmt"
	"slices"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestProcessesThatStartAreWatched has children make requests as soon as they run. Those of a file that is
// known are watched by then, unless the machine is very busy; the first of another may not be. What is not
// seen is counted.
func TestProcessesThatStartAreWatched(t *testing.T) {
	node := prepare(t, anyVersion)
	const own, requests = 8, 5
	command := append([]string{node, nodetest.Program("starts.js"), nodetest.Node(t, "18.20.8")}, slices.Repeat([]string{node}, own)...)
	w := begin(t, Options{Selection: trace.Selection{Command: command}, Kinds: Kinds{Server: true, Client: true}})
	<-w.ended
	served, made := 0, make(map[string]int) // made: by child
	for _, e := range w.endWarned("missing") {
		var child, number string
		if _, err := fmt.Sscanf(e.URL, "/%1s/%1s", &child, &number); err != nil {
			t.Errorf("unexpected URL %q", e.URL)
		}
		if e.Kind == Server {
			served++
		} else {
			made[child]++
		}
	}
	if want := (own + 1) * requests; served != want {
		t.Errorf("%d requests were seen by the server, want %d", served, want)
	}
	incomplete := own + 1
	for _, n := range made {
		if n == requests {
			incomplete--
		}
	}
	if uint64(incomplete) > w.counts.Late+w.counts.Missed || incomplete > own/2 {
		t.Errorf("of %d children the requests are missing, and %d are counted: %v", incomplete, w.counts.Late+w.counts.Missed, made)
	}
}
