package nodesnoop

import (
	"fmt"
	"strconv"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestHTTP2SessionsAreDistinguished has sessions follow each other: node frees a session before it closes
// its socket, and the next may have its address.
func TestHTTP2SessionsAreDistinguished(t *testing.T) {
	nodetest.OnVersions(t, []string{"20.20.2"}, programs, func(t *testing.T, node string) { // others seldom have the same address
		const sessions, requests = 101, 5
		target := nodetest.Start(t, node, nodetest.Options{Script: "sessions.js", Args: []string{strconv.Itoa(sessions)}})
		var facts struct{ Port int }
		target.Facts(&facts)
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Server: true, Client: true}})
		target.Signal(syscall.SIGUSR2)
		target.Line()
		type side struct {
			url  string
			kind Kind
		}
		seen := make(map[side]int)
		for _, e := range w.end() {
			port := e.Peer.Port
			if e.Kind == Server {
				port = e.LocalPort
			}
			if e.Outcome != Done || e.Status != 200 || port != facts.Port {
				t.Errorf("%v %s: outcome, status, port = %v, %d, %d, want done, 200, %d", e.Kind, e.URL, e.Outcome, e.Status, port, facts.Port)
			}
			seen[side{e.URL, e.Kind}]++
		}
		for n := range sessions {
			for i := range requests {
				url := fmt.Sprintf("/%d/%d", n+1, i+1)
				if s, c := seen[side{url, Server}], seen[side{url, Client}]; s != 1 || c != 1 {
					t.Errorf("%s: served %d times, requested %d times, want 1, 1", url, s, c)
				}
			}
		}
	})
}
