package nodesnoop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// TestEndsWithoutResponse has requests that end otherwise, on each version.
func TestEndsWithoutResponse(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		t.Run("probe", func(t *testing.T) {
			s := startServer(t, node, serving{})
			testEnds(t, s, begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}}), nil)
		})
		t.Run("received", func(t *testing.T) {
			s := startServer(t, node, serving{})
			w := beginTaken(t, s)
			testEnds(t, s, w.watch, w.warm)
			w.ended(bpf.NodesnoopReadsREADS_TAKEN)
		})
	})
}

// testEnds expects the events of those requests, too, which were answered.
func testEnds(t *testing.T, s *server, w *watch, before []exchange) {
	t.Helper()
	port := s.facts.Ports[0][0]
	ask := func(q query) *client {
		c := dial(t, "tcp", at(port), false)
		if _, err := io.WriteString(c, q.text()); err != nil {
			t.Fatal(err)
		}
		return c
	}
	destroyed := ask(query{method: "GET", url: "/destroy"})
	_, _ = io.Copy(io.Discard, destroyed)
	upgraded := ask(query{method: "GET", url: "/upgrade", fields: "Connection: Upgrade\r\nUpgrade: test\r\n"})
	if _, err := upgraded.reader.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(upgraded, "GET /not HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, upgraded.reader)
	aborted := ask(query{method: "GET", url: "/never"})
	for deadline := time.Now().Add(time.Minute); len(s.logs(t)) < len(before)+2; { // the handler has it
		if time.Now().After(deadline) {
			t.Fatal("the request has not come")
		}
	}
	if err := aborted.Close(); err != nil {
		t.Fatal(err)
	}
	fifo := path.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	closeWhileBlocked(t, ask(query{method: "GET", url: "/blocked" + fifo}), fifo)
	for _, garbage := range []string{"FOO\r\n\r\n", "GET /x HTTP/9.9\r\n\r\n", "\x16\x03\x01\x00", "GET /" + strings.Repeat("g", 1<<15), "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"} {
		c := dial(t, "tcp", at(port), false)
		_, _ = io.WriteString(c, garbage)
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	if _, err := dial(t, "tcp", at(port), false).send(query{method: "GET", url: "/hello"}); err != nil {
		t.Fatal(err)
	}
	w.wait(len(before) + 5)
	want := map[string]string{"/blocked" + fifo: "200 aborted", "/destroy": "0 closed", "/upgrade": "101 upgrade", "/never": "0 aborted", "/hello": "200 done"}
	for _, x := range before {
		want[x.url] = "200 done"
	}
	got := make(map[string]string)
	for _, e := range w.end() {
		got[e.URL] = fmt.Sprintf("%d %v", e.Status, e.Outcome)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ends (-want +got):\n%s", diff)
	}
}

// closeWhileBlocked closes a connection while its server waits to read a FIFO, which it will do when it has
// the request. It learns of the end when it writes.
func closeWhileBlocked(t *testing.T, c *client, fifo string) {
	t.Helper()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestHostileClientsAreBounded has clients that send half of a request and wait, pipeline
// without end, and send heads that are too large. Those of others are seen meanwhile, and
// what is not followed is counted.
func TestHostileClientsAreBounded(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
	address := at(s.facts.Ports[0][0])
	for i := range 50 {
		slow := dial(t, "tcp", address, false)
		if _, err := io.WriteString(slow, "GET /slow"+strconv.Itoa(i)+" HTTP/1.1\r\nHost:"); err != nil {
			t.Fatal(err)
		}
	}
	const pipelined = 600
	flood := dial(t, "tcp", address, false)
	go func() {
		_, _ = io.WriteString(flood, strings.Repeat("GET /never HTTP/1.1\r\nHost: x\r\n\r\n", pipelined))
	}()
	for deadline := time.Now().Add(time.Minute); s.countLogged(t) < pipelined; {
		if time.Now().After(deadline) {
			t.Fatal("the requests have not come")
		}
	}
	large := dial(t, "tcp", address, false)
	_, _ = io.WriteString(large, "GET /hello?large HTTP/1.1\r\n"+strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 40)+"\r\n")
	_, _ = io.Copy(io.Discard, large)
	if _, err := dial(t, "tcp", address, false).send(query{method: "GET", url: "/hello?well"}); err != nil {
		t.Fatal(err)
	}
	if err := flood.Close(); err != nil {
		t.Fatal(err)
	}
	w.wait(1 + maxPipelined)
	w.cancel()
	<-w.ended
	got := make(map[string]int)
	for _, e := range w.events {
		got[fmt.Sprintf("%s %d %v", e.URL, e.Status, e.Outcome)]++
	}
	want := map[string]int{"/hello?well 200 done": 1, "/never 0 aborted": maxPipelined}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got, want := w.counts.Unfollowed, uint64(pipelined-maxPipelined); got != want || len(w.warned) != 1 {
		t.Errorf("not followed = %d, warnings = %v, want %d and one about that", got, w.warned, want)
	}
}

// maxPipelined is MAX_PIPELINED of the kernel half.
const maxPipelined = 256

// countLogged returns how many requests the server has logged so far.
func (s *server) countLogged(t testing.TB) int {
	t.Helper()
	s.Signal(syscall.SIGUSR2)
	if line := s.Line(); line != "logged" {
		t.Fatalf("line = %q, want logged", line)
	}
	text, err := os.ReadFile(s.Log + "." + strconv.Itoa(s.PID))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), `"begin"`)
}
