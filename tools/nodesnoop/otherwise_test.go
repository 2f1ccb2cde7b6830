package nodesnoop

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"testing"
	"time"

	"ustack/bpf"
)

// TestRequestsThatAreReadOtherwiseEndReads has connections whose requests cannot be found in what is
// received: they are encrypted, or JavaScript reads them first. Those that came before the probe was
// attached again are counted.
func TestRequestsThatAreReadOtherwiseEndReads(t *testing.T) {
	node := prepare(t, anyVersion)
	encrypted, shared := serving{TLS: certificate(t)}, serving{Shared: true}
	for name, of := range map[string]struct {
		how  serving
		url  string
		dial func(t *testing.T, ports []int) *client
	}{
		"encrypted":                          {encrypted, "/hello", func(t *testing.T, ports []int) *client { return dial(t, "tcp", at(ports[2]), true) }},
		"encrypted, its beginning in pieces": {encrypted, "/hello", dialInPieces},
		"shared":                             {shared, "/hello", func(t *testing.T, ports []int) *client { return dial(t, "tcp", at(ports[2]), false) }},
		"also by JavaScript":                 {serving{}, "/reads", func(t *testing.T, ports []int) *client { return dial(t, "tcp", at(ports[0]), false) }},
		"in a tunnel":                        {serving{}, "/hello", dialTunnel},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, node, of.how)
			w := beginTaken(t, s)
			all := w.warm
			deadline := time.Now().Add(waitLimit)
			for left := 3; left > 0; { // connections after the probe is attached again
				if time.Now().After(deadline) {
					t.Fatal("the probe is not attached again")
				}
				if slices.Contains(slices.Collect(maps.Values(w.all())), bpf.NodesnoopReadsREADS_LEFT) {
					left--
				}
				c := of.dial(t, s.facts.Ports[0])
				for range 3 {
					some, err := c.send(query{method: "GET", url: fmt.Sprintf("%s/other/%d", of.url, len(all))})
					if err != nil {
						t.Fatal(err)
					}
					all = append(all, some...)
				}
			}
			seen := make(map[string]bool)
			for _, e := range w.endWarned("what connection they came from is not known") {
				seen[e.URL] = true
			}
			lost := 0
			for i, x := range all {
				if !seen[x.url] {
					lost++
				}
				if !seen[x.url] && i >= len(all)-9 {
					t.Errorf("%s: not seen, after the probe was attached", x.url)
				}
			}
			if counted := int(w.counts.Unattributed); lost > counted {
				t.Errorf("%d requests not seen, %d counted", lost, counted)
			}
		})
	}
}

// TestConnectionsThatAreReadOtherwiseKeepTheProbe has such connections while the probe is attached: they
// have requests, or may have some.
func TestConnectionsThatAreReadOtherwiseKeepTheProbe(t *testing.T) {
	node := prepare(t, anyVersion)
	encrypted := serving{TLS: certificate(t)}
	for name, of := range map[string]struct {
		how          serving
		before, last int // requests on the other port, before the watch and at its end
	}{
		"encrypted": {how: encrypted}, "shared": {how: serving{Shared: true}}, "older than the watch": {encrypted, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, node, of.how)
			ports := s.facts.Ports[0]
			older := dial(t, "tcp", at(ports[2]), of.how.TLS != "")
			for i := range of.before {
				if _, err := older.send(query{method: "GET", url: fmt.Sprintf("/hello/before/%d", i)}); err != nil {
					t.Fatal(err)
				}
			}
			w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}, proof: eagerProof, reads: func(_ int, reads bpf.NodesnoopReads) {
				if reads == bpf.NodesnoopReadsREADS_TAKEN {
					t.Error("requests are found in what is received")
				}
			}})
			var all []exchange
			if of.before == 0 {
				all = load(t, "tcp", []string{at(ports[2])}, of.how.TLS != "", 1, 1, 1)
			}
			all = append(all, load(t, "tcp4", []string{at(ports[0])}, false, 4, 20, 1)...)
			for i := range of.last {
				some, err := older.send(query{method: "GET", url: fmt.Sprintf("/hello/last/%d", i)})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, some...)
			}
			log := s.logs(t)
			for i := range of.before {
				delete(log, fmt.Sprintf("/hello/before/%d", i))
			}
			check(t, w.end(), log, all)
		})
	}
}

// dialTunnel makes a tunnel to the server itself.
func dialTunnel(t *testing.T, ports []int) *client {
	t.Helper()
	c := dial(t, "tcp", at(ports[0]), false)
	if _, err := c.send(connecting); err != nil {
		t.Fatal(err)
	}
	return c
}

// dialInPieces begins TLS with a few bytes of the first record, which the server reads alone.
func dialInPieces(t *testing.T, ports []int) *client {
	t.Helper()
	c, other := dial(t, "tcp", at(ports[2]), false), dial(t, "tcp", at(ports[0]), false)
	c.Conn = tls.Client(&inPieces{Conn: c.Conn, between: func() { other.passed(t, "/hello/between") }}, &tls.Config{InsecureSkipVerify: true})
	c.counted.Reader = c.Conn
	return c
}

// inPieces writes some bytes, and the others after something else was done.
type inPieces struct {
	net.Conn
	between func()
	begun   bool
}

func (c *inPieces) Write(p []byte) (int, error) {
	const some = 5
	if c.begun || len(p) <= some {
		return c.Conn.Write(p)
	}
	c.begun = true
	n, err := c.Conn.Write(p[:some])
	if err != nil {
		return n, err
	}
	c.between()
	n, err = c.Conn.Write(p[some:])
	return some + n, err
}
