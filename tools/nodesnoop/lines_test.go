package nodesnoop

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/bpf"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// write sends what is no whole request.
func (c *client) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// TestOddRequestLinesAreSeen has lines that are not HTTP/1.1's, and that node's parser takes.
func TestOddRequestLinesAreSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginTaken(t, s)
		all := w.warm
		long := strings.Repeat("/1234567", 20)
		for i, line := range []string{"GET %s RTSP/1.0\r\n", "SOURCE %s ICE/1.0\r\n", "GET %s\r\n", "GET %s\n", "GET  %s   HTTP/1.1\r\nHost: test\r\n"} {
			for j, end := range []string{"", long} {
				for _, first := range []int{0, 80} { // bytes that come first
					url := fmt.Sprintf("/hello/%d/%d/%d%s", i, j, first, end)
					line := fmt.Sprintf(line, url) + "\r\n"
					c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
					method, _, _ := strings.Cut(line, " ")
					x := exchange{url: url, method: method, port: c.port, begun: monotonic()}
					if first > 0 && first < len(line) {
						c.write(t, line[:first])
						all = append(all, dial(t, "tcp", at(s.facts.Ports[0][0]), false).passed(t, fmt.Sprintf("/hello/passed/%d/%d", i, j))...)
						line = line[first:]
					}
					c.write(t, line)
					all = append(all, c.answered(t, x))
				}
			}
		}
		check(t, w.end(), s.logs(t), all)
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestTargetsInPiecesAreWhole has request lines that come in two reads. The second has the next request,
// too; or the first has many fields, which the parser gives to JavaScript in parts; or there is a
// tunnel after it.
func TestTargetsInPiecesAreWhole(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		for _, first := range []int{75, 330, 2000} { // bytes of the first read
			s := startServer(t, node, serving{})
			w := beginTaken(t, s)
			c, other := dial(t, "tcp", at(s.facts.Ports[0][0]), false), dial(t, "tcp", at(s.facts.Ports[0][0]), false)
			all := w.warm
			some, err := c.send(query{method: "GET", url: "/hello/fields", fields: strings.Repeat("X-Field: value\r\n", 50)})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, some...)
			long := query{method: "GET", url: "/hello/long" + strings.Repeat("/1234567", max(7, min(first/7, 250)))}
			next := query{method: "GET", url: "/hello/next"}
			in := func(text string) {
				c.write(t, text[:first])
				all = append(all, other.passed(t, fmt.Sprintf("/hello/%d", len(all)))...)
				c.write(t, text[first:])
			}
			x := exchange{url: long.url, method: "GET", port: c.port, begun: monotonic()}
			in(long.text() + next.text())
			all = append(all, c.answered(t, x))
			x.url = next.url
			all = append(all, c.answered(t, x))
			long.url, long.fields = long.url+"/upgraded", "Connection: Upgrade\r\nUpgrade: test\r\n"
			in(long.text())
			if x := c.answered(t, exchange{}); x.status != http.StatusSwitchingProtocols {
				t.Errorf("status = %d, want 101", x.status)
			}
			upgraded := 0
			events := slices.DeleteFunc(w.end(), func(e Event) bool {
				if e.URL == long.url && e.Status == http.StatusSwitchingProtocols {
					upgraded++
					return true
				}
				return false
			})
			if upgraded != 1 {
				t.Errorf("%d requests with 101, want 1", upgraded)
			}
			check(t, events, s.logs(t), all)
		}
	})
}

// TestFoldedLengthsHideNoLines has fields that say how long a body is in ways that only lenient parsers
// take. What is in the body is no request.
func TestFoldedLengthsHideNoLines(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		body := query{method: "GET", url: "/no"}.text()
		chunk := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		sized := func(field string) string { return fmt.Sprintf(field, len(body)) + body }
		for i, text := range []string{
			sized("Content-Length:\r\n %d\r\n\r\n"), sized("Content-Length : %d\r\nA: b\r\n\r\n"), "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunk,
		} {
			s := startServer(t, node, serving{Lenient: true})
			w := beginTaken(t, s)
			all := w.warm
			c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
			url := fmt.Sprintf("/posted/%d", i)
			x := exchange{url: url, method: "POST", port: c.port, begun: monotonic()}
			c.write(t, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: test\r\n%s", url, text))
			x = c.answered(t, x)
			if x.status == http.StatusOK {
				all = append(all, x)
				all = append(all, c.passed(t, "/hello")...)
			}
			check(t, w.end(), s.logs(t), all)
		}
	})
}

// TestRefusedConnectionsHaveNoRequests has a server that keeps connections whose parser has refused something:
// it takes no other request on them.
func TestRefusedConnectionsHaveNoRequests(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{Forgiving: true})
		w := beginTaken(t, s)
		all := w.warm
		for i, garbage := range []string{"\x00", "NONE /no HTTP/1.1\r\n\r\n", "GET /n o HTTP/1.1\r\n\r\n", "GET /no HTTP/1.1\r\nA b\r\n\r\n"} {
			for _, kept := range []bool{false, true} {
				c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
				if kept {
					all = append(all, c.passed(t, fmt.Sprintf("/hello/%d", i))...)
				}
				for _, text := range []string{garbage, query{method: "GET", url: "/no"}.text(), query{method: "GET", url: "/no"}.text()} {
					c.write(t, text)
					if x := c.answered(t, exchange{}); x.status != http.StatusBadRequest {
						t.Errorf("status = %d, want 400", x.status)
					}
				}
			}
		}
		check(t, w.end(), s.logs(t), all)
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestConnectionsReturnToHTTP has a server that is the other end of a tunnel itself.
func TestConnectionsReturnToHTTP(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
		c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
		all := c.passed(t, "/hello/before")
		for i := range 2 {
			if _, err := c.send(connecting); err != nil {
				t.Fatal(err)
			}
			all = append(all, c.passed(t, fmt.Sprintf("/hello/in/%d", i))...)
		}
		events := w.end()
		others := slices.DeleteFunc(slices.Clone(events), func(e Event) bool { return e.Method == connecting.method && e.Status == http.StatusOK })
		if n := len(events) - len(others); n != 2 {
			t.Errorf("%d connected, want 2", n)
		}
		check(t, others, s.logs(t), all)
	})
}

// connecting asks for a tunnel.
var connecting = query{method: "CONNECT", url: "host:1"}

// TestOtherProtocolsLinesAreNoRequests has a client write lines that resemble those of HTTP, and lines of
// HTTP in pieces.
func TestOtherProtocolsLinesAreNoRequests(t *testing.T) {
	node := prepare(t, anyVersion)
	long := strings.Repeat("/1234567", 30)
	texts := [][]string{
		{"RETR /file\r\n"},
		{"RETR " + long[:80], long + "\r\n"},
		{"DESCRIBE rtsp://host/ RTSP/1.0\r\n\r\n"},
		{"GET /whole HTTP/1.1\r\n\r\n"},
		{"GET " + long[:80], long, "/end HTT", "P/1.1\r\n\r\n"},
		{"GET /pie", "ces HTTP/1.1\r\n\r\n"},
	}
	want := []string{"GET /pieces", "GET /whole", "GET " + long[:80] + long + "/end"}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		}
	}()
	args, err := json.Marshal(texts)
	if err != nil {
		t.Fatal(err)
	}
	for name, preempted := range map[string]bool{"tracepoint": false, "probes": true} {
		t.Run(name, func(t *testing.T) {
			target := nodetest.Start(t, node, nodetest.Options{Script: "talks.js", Args: []string{strconv.Itoa(listener.Addr().(*net.TCPAddr).Port), string(args)}})
			w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Client: true}, preempted: preempted})
			target.Signal(syscall.SIGUSR2)
			if line := target.Line(); line != "talked" {
				t.Fatalf("line = %q, want talked", line)
			}
			var got []string
			for _, e := range w.end() {
				got = append(got, e.Method+" "+e.URL)
			}
			slices.Sort(got)
			slices.Sort(want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}
