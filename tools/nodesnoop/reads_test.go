package nodesnoop

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/loader"
)

// eagerProof is one request in a tick.
var eagerProof = proof{each: time.Hour, ports: 1, all: 1}

// A takenWatch is a watch of servers whose requests are found in what their sockets receive.
type takenWatch struct {
	*watch
	warm []exchange // requests that it took

	mutex sync.Mutex
	reads map[int]bpf.NodesnoopReads
}

// beginTaken returns when the requests of all of the server's processes are found so.
func beginTaken(t *testing.T, s *server) *takenWatch {
	t.Helper()
	w := beginEager(t, s)
	w.untilTaken(s)
	return w
}

// beginEager returns when the probe still finds them, but will be replaced when there are some.
func beginEager(t *testing.T, s *server) *takenWatch {
	t.Helper()
	if !loader.SeesSockets() {
		t.Skip("this kernel does not say when a socket has received something")
	}
	if strings.Contains(t.Name(), "node16") {
		t.Skip("Node.js 16 does not say whether its parser is between two messages")
	}
	w := &takenWatch{reads: make(map[int]bpf.NodesnoopReads)}
	w.watch = begin(t, Options{
		Selection: s.selection(), Kinds: Kinds{Server: true}, proof: eagerProof,
		reads: func(pid int, reads bpf.NodesnoopReads) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.reads[pid] = reads
		},
	})
	return w
}

// untilTaken sends requests until the probe is replaced.
func (w *takenWatch) untilTaken(s *server) {
	w.t.Helper()
	deadline := time.Now().Add(waitLimit)
	serving := max(s.Children, 1) // a cluster's first process does not
	for n := 0; len(w.all()) < serving; n++ {
		if time.Now().After(deadline) {
			w.t.Fatalf("reads = %v, want those of %d processes taken", w.all(), serving)
		}
		var addresses []string
		for _, ports := range s.facts.Ports {
			addresses = append(addresses, at(ports[0]))
		}
		for i, address := range addresses {
			c := dial(w.t, "tcp", address, false)
			for range 20 { // of a tick
				some, err := c.send(query{method: "GET", url: fmt.Sprintf("/hello/warm/%d/%d/%d", n, i, len(w.warm))})
				if err != nil {
					w.t.Fatal(err)
				}
				w.warm = append(w.warm, some...)
			}
		}
	}
}

// all returns how the requests of all processes are found that do not use the probe only.
func (w *takenWatch) all() map[int]bpf.NodesnoopReads {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return maps.Clone(w.reads)
}

// ended checks how they are found in the end.
func (w *takenWatch) ended(want bpf.NodesnoopReads) {
	w.t.Helper()
	for pid, got := range w.all() {
		if got != want {
			w.t.Errorf("reads of %d = %d, want %d", pid, got, want)
		}
	}
}

// TestEveryRequestIsSeenInWhatIsReceived has requests of all kinds that need no probe.
func TestEveryRequestIsSeenInWhatIsReceived(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginTaken(t, s)
		ports := s.facts.Ports[0]
		all := append(w.warm, load(t, "tcp", []string{at(ports[0])}, false, 8, 12, 1)...)
		all = append(all, load(t, "tcp6", []string{net.JoinHostPort("::1", strconv.Itoa(ports[1]))}, false, 1, 1, 1)...)
		check(t, w.end(), s.logs(t), all)
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestClustersAreSeenInWhatIsReceived has several processes serve.
func TestClustersAreSeenInWhatIsReceived(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{Children: 3})
	w := beginTaken(t, s)
	all := append(w.warm, load(t, "tcp", []string{at(s.facts.Ports[0][0])}, false, 16, 2, 1)...)
	check(t, w.end(), s.logs(t), all)
	w.ended(bpf.NodesnoopReadsREADS_TAKEN)
}

// TestRequestsAreSeenOnceWhileReadsChange has requests come without pause: one kind of them cannot be
// found in what is received.
func TestRequestsAreSeenOnceWhileReadsChange(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	w := beginTaken(t, s)
	address := []string{at(s.facts.Ports[0][0])}
	var others []exchange
	var loading sync.WaitGroup
	loading.Go(func() { others = load(t, "tcp", address, false, 8, 40, 1) })
	w.wait(len(w.warm) + 1000)
	w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	all := load(t, "tcp4", address, false, 2, 4, 7)
	loading.Wait()
	check(t, w.end(), s.logs(t), append(append(all, others...), w.warm...))
	w.ended(bpf.NodesnoopReadsREADS_LEFT)
}

// TestHostileClientsAreSeenForWhatTheyAre sends to a server what is no request, or is one that only its
// parser understands, where requests are found in what is received. The others are seen all the same.
func TestHostileClientsAreSeenForWhatTheyAre(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	w := beginTaken(t, s)
	address := at(s.facts.Ports[0][0])
	fields := "Host: x\r\n"
	get := func(url string) string { return "GET " + url + " HTTP/1.1\r\n" + fields + "\r\n" }
	for _, text := range []string{
		"GET /no HTTP/1.1\r\n" + fields + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"GET /no HTTP/1.1\r\n" + fields + "A b\r\n\r\n",
		"GET /no HTTP/1.1\r\n" + fields + "A: \x01\r\n\r\n",
		"GET /n o HTTP/1.1\r\n" + fields + "\r\n",
		"NONE /no HTTP/1.1\r\n" + fields + "\r\n",
		"GET /no HTTP/1.1\r\n" + fields + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
		"GET /no HTTP/1.1\r\n" + fields + "Content-Length: x\r\n\r\n",
		"GET /no HTTP/1.1\nHost: x\n A: b\n\n",
		get("/no")[1:],
		"\x00" + get("/no"),
		strings.Repeat("GET ", 5000),
	} {
		c := dial(t, "tcp", address, false)
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		_ = c.Conn.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	// A body that looks like requests, in one piece and in several.
	body := strings.Repeat(get("/no"), 20)
	c := dial(t, "tcp", address, false)
	all, err := c.send(query{method: "POST", url: "/posted/body", body: body})
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, w.warm...)
	for i, after := range []int{0, 1, 30, 70} { // bytes of the body in the first piece
		url := fmt.Sprintf("/posted/pieces%d", i)
		head := fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n", url, fields, len(body))
		x := exchange{url: url, method: "POST", port: c.port, begun: monotonic()}
		if _, err := io.WriteString(c, head+body[:after]); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(waitLimit); s.countLogged(t) < len(all)+1; {
			if time.Now().After(deadline) {
				t.Fatal("the request has not come")
			}
		}
		if _, err := io.WriteString(c, body[after:]); err != nil {
			t.Fatal(err)
		}
		all = append(all, c.answered(t, x))
	}
	check(t, w.end(), s.logs(t), all)
	w.ended(bpf.NodesnoopReadsREADS_TAKEN)
}

// TestManyRequestsOfOneReadAreSeen sends as many at once as are kept of a connection.
func TestManyRequestsOfOneReadAreSeen(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	w := beginTaken(t, s)
	var queries []query
	for i := range 256 {
		queries = append(queries, query{method: "GET", url: fmt.Sprintf("/hello/%d", i)})
	}
	all, err := dial(t, "tcp", at(s.facts.Ports[0][0]), false).send(queries...)
	if err != nil {
		t.Fatal(err)
	}
	check(t, w.end(), s.logs(t), append(all, w.warm...))
	w.ended(bpf.NodesnoopReadsREADS_LEFT)
}

// passed returns when the server has read what was sent to it before on other connections: c has
// been answered twice.
func (c *client) passed(t *testing.T, url string) (all []exchange) {
	t.Helper()
	for i := range 2 {
		some, err := c.send(query{method: "GET", url: fmt.Sprintf("%s/%d", url, i)})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// answered returns what the response to a request is, which has been sent in pieces.
func (c *client) answered(t *testing.T, x exchange) exchange {
	t.Helper()
	before := c.counted.n - c.reader.Buffered()
	r, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatal(err)
	}
	x.status, x.bytes = r.StatusCode, uint64(c.counted.n-c.reader.Buffered()-before)
	return x
}

// TestRequestsAreReceivedInPieces has requests come in two reads, on new connections and on others,
// and empty lines and returns before them.
func TestRequestsAreReceivedInPieces(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginTaken(t, s)
		address := at(s.facts.Ports[0][0])
		other := dial(t, "tcp", address, false)
		all := w.warm
		for i, first := range []int{1, 4, 12, 60, 64, 80, 1448, 1980} { // bytes
			lines := [][]string{{"\r\n"}, nil, {"\r\n\r\n", "\n"}, {"\r"}, {"\n\r\r"}}[i%5]
			for _, kept := range []bool{true, false} {
				c := dial(t, "tcp", address, false)
				name := fmt.Sprintf("%d/%t", first, kept)
				if kept {
					all = append(all, c.passed(t, "/hello/kept/"+name)...)
				}
				for i, line := range lines {
					if _, err := io.WriteString(c, line); err != nil {
						t.Fatal(err)
					}
					all = append(all, other.passed(t, fmt.Sprintf("/hello/line/%s/%d", name, i))...)
				}
				url := "/posted/" + name + strings.Repeat("/1234567", 240)
				q := query{method: "POST", url: url, fields: "X-A: b\r\n", body: "and a body"}
				text := q.text()
				x := exchange{url: url, method: "POST", port: c.port, begun: monotonic()}
				for i, piece := range []string{text[:first], text[first : len(text)-5], text[len(text)-5:]} {
					if _, err := io.WriteString(c, piece); err != nil {
						t.Fatal(err)
					}
					all = append(all, other.passed(t, fmt.Sprintf("/hello/%s/%d", name, i))...)
				}
				all = append(all, c.answered(t, x))
			}
		}
		check(t, w.end(), s.logs(t), all)
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestNextRequestIsBegunWithTheOneBefore has reads that end within the line of a request after a whole one,
// which is answered when the parser has come to the next.
func TestNextRequestIsBegunWithTheOneBefore(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginTaken(t, s)
		address := at(s.facts.Ports[0][0])
		c, other := dial(t, "tcp", address, false), dial(t, "tcp", address, false)
		first, next := query{method: "DELETE", url: "/later/first"}, query{method: "GET", url: "/hello/next"}
		var all []exchange
		for _, q := range []query{first, next} {
			all = append(all, exchange{url: q.url, method: q.method, port: c.port, begun: monotonic()})
		}
		text := first.text() + next.text()
		end := len(first.text()) + len("GET /h")
		if _, err := io.WriteString(c, text[:end]); err != nil {
			t.Fatal(err)
		}
		all[0] = c.answered(t, all[0])
		all = append(all, other.passed(t, "/hello/other")...)
		if _, err := io.WriteString(c, text[end:]); err != nil {
			t.Fatal(err)
		}
		all[1] = c.answered(t, all[1])
		all = append(append(all, c.passed(t, "/hello/after")...), w.warm...)
		check(t, w.end(), s.logs(t), all)
		w.ended(bpf.NodesnoopReadsREADS_LEFT)
	})
}

// TestRequestsThatAreRefusedLateAreSeen has requests that node's parser refuses when JavaScript has got
// them already.
func TestRequestsThatAreRefusedLateAreSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginTaken(t, s)
		want := len(w.warm)
		for _, coding := range []string{"cunked", "gzip"} {
			for _, rest := range []string{"", query{method: "GET", url: "/hello/body"}.text()} {
				c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
				url := fmt.Sprintf("/never/%s/%d", coding, len(rest))
				if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: test\r\nTransfer-Encoding: %s\r\n\r\n%s", url, coding, rest); err != nil {
					t.Fatal(err)
				}
				if x := c.answered(t, exchange{}); x.status != http.StatusBadRequest {
					t.Errorf("%s: status = %d, want 400", url, x.status)
				}
				want++
			}
		}
		log, events := s.logs(t), w.end()
		if len(events) != want || len(log) != want {
			t.Errorf("%d events, %d requests logged, want %d", len(events), len(log), want)
		}
		for _, e := range events {
			l, ok := log[e.URL]
			if !ok || e.Method != l.Method || e.Status != 200 && e.Method == "GET" || e.Status != 400 && e.Method == "POST" {
				t.Errorf("%s %s: %d, logged as %s", e.Method, e.URL, e.Status, l.Method)
			}
		}
	})
}

// TestUploadsUnderWayAreNoRequests has bodies that look like requests, of requests that began before.
func TestUploadsUnderWayAreNoRequests(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		address := at(s.facts.Ports[0][0])
		fake := query{method: "GET", url: "/hello/false"}.text()
		var uploads []*client
		for range 3 {
			c := dial(t, "tcp", address, false)
			if _, err := fmt.Fprintf(c, "POST /posted/under HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n", 4*len(fake)); err != nil {
				t.Fatal(err)
			}
			uploads = append(uploads, c)
		}
		other := dial(t, "tcp", address, false)
		before := len(other.passed(t, "/hello/before")) + len(uploads)
		w := beginTaken(t, s)
		all := w.warm
		for i := range 4 {
			for _, c := range uploads {
				if _, err := io.WriteString(c, fake); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, other.passed(t, fmt.Sprintf("/hello/%d", i))...)
		}
		for i, c := range uploads {
			if err := skipResponse(c.reader); err != nil {
				t.Fatal(err)
			}
			all = append(all, c.passed(t, fmt.Sprintf("/hello/after/%d", i))...)
		}
		log := s.logs(t)
		delete(log, "/posted/under")
		for i := range before - len(uploads) {
			delete(log, fmt.Sprintf("/hello/before/%d", i))
		}
		check(t, w.end(), log, all)
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestHeadsUnderWayAreCounted has a head that comes so slowly that its beginning was not received, and the
// probe is gone at its end.
func TestHeadsUnderWayAreCounted(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := beginEager(t, s)
		all := []exchange{}
		var slow []*client
		for i := range 2 {
			c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
			if i > 0 {
				all = append(all, c.passed(t, "/hello/before")...)
			}
			c.write(t, "GET /hello/slow")
			slow = append(slow, c)
		}
		w.untilTaken(s)
		for _, c := range slow {
			c.write(t, " HTTP/1.1\r\nHost: test\r\n\r\n")
			c.answered(t, exchange{})
			all = append(all, c.passed(t, "/hello/after/"+strconv.Itoa(int(c.port)))...)
		}
		log := s.logs(t)
		delete(log, "/hello/slow")
		check(t, w.endWarned("what connection they came from is not known"), log, append(all, w.warm...))
		if got := int(w.counts.Unattributed); got != len(slow) {
			t.Errorf("%d requests counted that are not seen, want %d", got, len(slow))
		}
		w.ended(bpf.NodesnoopReadsREADS_TAKEN)
	})
}

// TestServersThatAskAreSeenInWhatIsReceived has a server that is a client, too, which is not watched.
func TestServersThatAskAreSeenInWhatIsReceived(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	w := beginTaken(t, s)
	c := dial(t, "tcp", at(s.facts.Ports[0][0]), false)
	for i := range 50 {
		if _, err := c.send(query{method: "GET", url: fmt.Sprintf("/asks/%d", i)}); err != nil {
			t.Fatal(err)
		}
	}
	log := s.logs(t)
	events := w.end()
	if len(log) != len(w.warm)+100 || len(events) != len(log) {
		t.Errorf("%d events, %d requests logged, want %d", len(events), len(log), len(w.warm)+100)
	}
	for _, e := range events {
		if _, ok := log[e.URL]; !ok || e.Status != 200 {
			t.Errorf("%s %d: logged = %t, want 200 and logged", e.URL, e.Status, ok)
		}
	}
	w.ended(bpf.NodesnoopReadsREADS_TAKEN)
}

// TestOldVersionKeepsTheProbe has the only version that does not say what is needed to do without.
func TestOldVersionKeepsTheProbe(t *testing.T) {
	s := startServer(t, prepare(t, "16.20.2"), serving{})
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}, proof: eagerProof, reads: func(_ int, reads bpf.NodesnoopReads) {
		t.Errorf("reads = %d, want them to stay", reads)
	}})
	all := load(t, "tcp", []string{at(s.facts.Ports[0][0])}, false, 4, 30, 1)
	check(t, w.end(), s.logs(t), all)
}
