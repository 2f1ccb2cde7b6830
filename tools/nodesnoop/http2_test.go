package nodesnoop

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestStreamsOfHTTP2AreSeen sends requests at the same time over one connection.
func TestStreamsOfHTTP2AreSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{TLS: certificate(t)})
		w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
		asker := http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		var all []exchange
		var mutex sync.Mutex
		var asking sync.WaitGroup
		for n, kind := range slices.Repeat([]string{"/hello", "/empty", "/missing", "/failed", "/large", "/later", "/slowly", "/posted", "/hello/" + strings.Repeat("u", 1500)}, 12) {
			x := exchange{url: fmt.Sprintf("%s?%d", kind, n), method: []string{"GET", "HEAD", "POST"}[n%3]}
			asking.Go(func() {
				trace := httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { x.port = info.Conn.LocalAddr().(*net.TCPAddr).Port }}
				r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), &trace), x.method, "https://"+at(s.facts.Ports[0][3])+x.url, strings.NewReader("body"))
				if err != nil {
					t.Error(err)
					return
				}
				response, err := asker.Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				x.status = response.StatusCode
				mutex.Lock()
				defer mutex.Unlock()
				all = append(all, x)
			})
		}
		asking.Wait()
		log := s.logs(t)
		events := make(map[string]Event)
		for _, e := range w.end() {
			events[e.URL] = e
		}
		if len(events) != len(all) {
			t.Errorf("events = %d, want %d", len(events), len(all))
		}
		for _, x := range all {
			e, l := events[x.url], log[x.url]
			if e.Kind != Server || e.Outcome != Done || e.Method != x.method || e.Status != x.status || e.Peer.Port != x.port || !e.Encrypted {
				t.Errorf("%.40s: %v, %v, %s, %d, port %d, encrypted %t, want a server's that is done, %s, %d, port %d, encrypted", x.url, e.Kind, e.Outcome, e.Method, e.Status, e.Peer.Port, e.Encrypted, x.method, x.status, x.port)
			}
			if begun := int64(e.Monotonic); begun > l.Begin || begun+int64(e.Latency) < l.Before {
				t.Errorf("%.40s: from %d to %d, want around %d to %d", x.url, begun, begun+int64(e.Latency), l.Begin, l.Before)
			}
		}
	})
}
