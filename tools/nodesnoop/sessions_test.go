package nodesnoop

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestHTTP2SessionsAreDistinguished has sessions follow each other: node frees a session before it closes
// its socket, and the next may have its address. Some are destroyed, of which node does not close the last
// stream; in one there were many after that.
func TestHTTP2SessionsAreDistinguished(t *testing.T) {
	nodetest.OnVersions(t, []string{"20.20.2", "24.21.0"}, programs, func(t *testing.T, node string) { // others seldom have the same address
		const sessions, later = 101, 300
		target := nodetest.Start(t, node, nodetest.Options{Script: "sessions.js", Args: []string{strconv.Itoa(sessions), strconv.Itoa(later)}})
		var facts struct{ Port int }
		target.Facts(&facts)
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Server: true, Client: true}})
		target.Signal(syscall.SIGUSR2)
		target.Line()
		seen := make(map[string]int)
		for _, e := range w.end() {
			port := e.Peer.Port
			if e.Kind == Server {
				port = e.LocalPort
			}
			if port != facts.Port {
				t.Errorf("%v %s: port = %d, want %d", e.Kind, e.URL, port, facts.Port)
			}
			seen[fmt.Sprint(e.URL, " ", e.Kind, " ", e.Outcome, " ", e.Status)]++
		}
		want := map[string]int{"/held server aborted 0": 1, "/held client closed 0": 1}
		for n := 1; n <= later; n++ {
			want[fmt.Sprintf("/later/%d server done 200", n)]++
			want[fmt.Sprintf("/later/%d client done 200", n)]++
		}
		for n := 1; n <= sessions; n++ {
			server, client := "done 200", "done 200"
			switch {
			case n%6 == 0:
				server, client = "closed 0", "aborted 0"
			case n%3 == 0:
				server, client = "aborted 0", "closed 0"
			}
			for i := 1; i <= 5; i++ {
				want[fmt.Sprintf("/%d/%d server %s", n, i, server)]++
				want[fmt.Sprintf("/%d/%d client %s", n, i, client)]++
			}
		}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}
