package nodesnoop

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/loader"
)

// check joins events, the server's log and the client's exchanges by URL. Nothing may be
// different or missing in one of them.
func check(t testing.TB, events []Event, log map[string]logged, exchanges []exchange) {
	t.Helper()
	byURL := make(map[string]Event)
	for _, e := range events {
		if _, twice := byURL[e.URL]; twice {
			t.Errorf("%s: two events", e.URL)
		}
		byURL[e.URL] = e
	}
	if len(events) != len(exchanges) || len(log) != len(exchanges) {
		t.Errorf("%d events, %d requests logged, %d sent, want the same", len(events), len(log), len(exchanges))
	}
	wrong := 0
	for _, x := range exchanges {
		e, ok := byURL[x.url]
		l, logged := log[x.url]
		if !ok || !logged {
			t.Errorf("%.60s: seen = %t, logged = %t", x.url, ok, logged)
			wrong++
		} else if err := differ(e, l, x); err != nil {
			t.Errorf("%.60s: %v", x.url, err)
			wrong++
		}
		if wrong > 20 {
			t.Fatal("and so on")
		}
	}
}

// differ returns how an event is not what the server and its client have seen: it lasts no
// shorter than the server's handler, and no longer than until node knows that all is written.
// The client may have read it a moment before the kernel has returned from the write.
func differ(e Event, l logged, x exchange) error {
	ended := int64(e.Monotonic + e.Latency)
	switch {
	case e.Kind != Server || e.Outcome != Done || e.EndLost:
		return fmt.Errorf("kind, outcome, lost = %v, %v, %t, want a server's that is done", e.Kind, e.Outcome, e.EndLost)
	case e.Method != x.method || l.Method != x.method:
		return fmt.Errorf("method = %s, want %s", e.Method, x.method)
	case e.Status != x.status || l.Status != x.status:
		return fmt.Errorf("status = %d, want %d", e.Status, x.status)
	case e.Bytes != x.bytes:
		return fmt.Errorf("bytes = %d, want %d", e.Bytes, x.bytes)
	case e.Peer.Port != x.port || e.PID != l.PID:
		return fmt.Errorf("port, PID = %d, %d, want %d, %d", e.Peer.Port, e.PID, x.port, l.PID)
	case int64(e.Monotonic) > l.Begin || int64(e.Monotonic) < x.begun:
		return fmt.Errorf("begun %d ns after its handler, %d ns after it was sent", int64(e.Monotonic)-l.Begin, int64(e.Monotonic)-x.begun)
	case ended < l.Before || e.TTFB > e.Latency || e.Busy < 0 || e.Busy > e.Latency || e.GC > e.Latency:
		return fmt.Errorf("ended %d ns before end() was called; latency, first byte, busy, collections = %v, %v, %v, %v", l.Before-ended, e.Latency, e.TTFB, e.Busy, e.GC)
	case ended > l.Finish:
		return fmt.Errorf("ended %d ns after it was written", ended-l.Finish)
	}
	return nil
}

// TestResponsesInManyBuffersAreFollowed has responses of some hundred buffers, and one of so many that its
// end is not found: what comes after it on the connection is.
func TestResponsesInManyBuffersAreFollowed(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{TLS: certificate(t)})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
	ports := s.facts.Ports[0]
	many, lost := query{method: "GET", url: "/many/100"}, query{method: "GET", url: "/many/3000"}
	var all []exchange
	for i, c := range []*client{dial(t, "tcp", at(ports[0]), false), dial(t, "tcp", at(ports[2]), true)} {
		for j, q := range []query{many, {method: "GET", url: "/hello"}, lost, {method: "GET", url: "/hello"}} {
			q.url += fmt.Sprintf("/%d/%d", i, j)
			some, err := c.send(q)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, some...)
		}
	}
	events, log := w.endWarned("messages were not found"), s.logs(t)
	for _, e := range events {
		if e.Status != http.StatusOK || e.Outcome != Done {
			t.Errorf("%s: %d, %v, want 200 and done", e.URL, e.Status, e.Outcome)
		}
	}
	isLost := func(url string) bool { return strings.HasPrefix(url, lost.url+"/") }
	found := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return isLost(e.URL) })
	if n := len(events) - len(found); n != 2 {
		t.Errorf("%d responses without an end, want 2", n)
	}
	maps.DeleteFunc(log, func(url string, _ logged) bool { return isLost(url) })
	check(t, found, log, slices.DeleteFunc(all, func(x exchange) bool { return isLost(x.url) }))
}

// TestEveryRequestIsSeen sends requests of all kinds as fast as the server takes them.
func TestEveryRequestIsSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{TLS: certificate(t)})
		w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
		ports := s.facts.Ports[0]
		all := load(t, "tcp", []string{at(ports[0])}, false, 8, 12, 1)
		all = append(all, load(t, "tcp", []string{at(ports[2])}, true, 4, 3, 1)...)
		all = append(all, load(t, "tcp6", []string{net.JoinHostPort("::1", strconv.Itoa(ports[1]))}, false, 1, 1, 1)...)
		check(t, w.end(), s.logs(t), all)
	})
}

// TestProbesAloneSeeRequests is on a kernel that does not tell when a socket has taken what was written.
func TestProbesAloneSeeRequests(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{TLS: certificate(t)})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}, preempted: true})
	ports := s.facts.Ports[0]
	all := load(t, "tcp", []string{at(ports[0])}, false, 4, 4, 7)
	all = append(all, load(t, "tcp", []string{at(ports[2])}, true, 2, 2, 5)...)
	check(t, w.end(), s.logs(t), all)
}

// TestLastByteEndsRequest has a client that begins to read when the server has long written all that
// the kernel takes.
func TestLastByteEndsRequest(t *testing.T) {
	node := prepare(t, anyVersion)
	if !loader.SeesSockets() {
		t.Skip("this kernel does not say when a socket has taken what was written")
	}
	s := startServer(t, node, serving{})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
	c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
	if _, err := io.WriteString(c, query{method: "GET", url: "/huge"}.text()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); s.logs(t)["/huge"].Before == 0; {
		if time.Now().After(deadline) {
			t.Fatal("the request has not come")
		}
	}
	begun := monotonic()
	if err := skipResponse(c.reader); err != nil {
		t.Fatal(err)
	}
	w.wait(1)
	for _, e := range w.end() {
		if ended := int64(e.Monotonic + e.Latency); ended < begun || e.Bytes < 32<<20 {
			t.Errorf("ended %v before the client read, %d bytes", time.Duration(begun-ended), e.Bytes)
		}
	}
}

// TestPipelinedRequestsAreSeen sends several requests at once.
func TestPipelinedRequestsAreSeen(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{TLS: certificate(t)})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
	ports := s.facts.Ports[0]
	all := load(t, "tcp", []string{at(ports[0])}, false, 4, 4, 7)
	all = append(all, load(t, "tcp", []string{at(ports[2])}, true, 2, 2, 5)...)
	check(t, w.end(), s.logs(t), all)
}

// TestWorkersAndClustersAreSeen has several threads and several processes serve.
func TestWorkersAndClustersAreSeen(t *testing.T) {
	node := prepare(t, anyVersion)
	for name, how := range map[string]serving{"workers": {Workers: 3}, "cluster": {Children: 8}} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, node, how)
			w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
			var addresses []string
			for _, ports := range s.facts.Ports {
				addresses = append(addresses, at(ports[0]))
			}
			all := load(t, "tcp", addresses, false, 16, 2, 1)
			events := w.end()
			check(t, events, s.logs(t), all)
			threads := make(map[int]bool)
			for _, e := range events {
				threads[e.TID] = true
			}
			if len(threads) != max(how.Workers, how.Children) {
				t.Errorf("threads = %d, want %d", len(threads), max(how.Workers, how.Children))
			}
		})
	}
}

// TestUnixSocketsAreNamed has a server on a Unix socket.
func TestUnixSocketsAreNamed(t *testing.T) {
	node := prepare(t, anyVersion)
	socket := filepath.Join(t.TempDir(), "s")
	s := startServer(t, node, serving{Socket: socket})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
	all := load(t, "unix", []string{socket}, false, 1, 1, 1)
	events := w.end()
	check(t, events, s.logs(t), all)
	for _, e := range events {
		if e.Peer.Path != socket {
			t.Errorf("peer = %+v, want %s", e.Peer, socket)
		}
	}
}
