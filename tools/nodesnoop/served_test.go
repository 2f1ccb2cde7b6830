package nodesnoop

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// serving says how served.js is to serve.
type serving struct {
	Log      string `json:"log"`
	TLS      string `json:"tls,omitempty"`
	Socket   string `json:"socket,omitempty"`
	Workers  int    `json:"workers,omitempty"`
	Children int    `json:"children,omitempty"`
}

// A server is a running served.js.
type server struct {
	*nodetest.Target
	serving
	facts struct {
		Ports [][]int `json:"ports"` // of each thread: IPv4, IPv6, and the others
		PIDs  []int   `json:"pids"`
	}
}

func startServer(t testing.TB, node string, how serving) *server {
	t.Helper()
	how.Log = filepath.Join(t.TempDir(), "log")
	args, err := json.Marshal(how)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Target: nodetest.Start(t, node, nodetest.Options{Script: "served.js", Args: []string{string(args)}}), serving: how}
	s.Facts(&s.facts)
	return s
}

// selection selects all processes of the server.
func (s *server) selection() trace.Selection { return trace.Selection{PIDs: s.facts.PIDs} }

// A logged request is one as the server itself has seen it. Times are in ns of
// CLOCK_MONOTONIC: when its handler began and called response.end, and when the response
// was written.
type logged struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	Port   int    `json:"port"`
	Status int    `json:"status"`
	PID    int    `json:"pid"`
	Begin  int64  `json:"begin,string"`
	Before int64  `json:"before,string"`
	Finish int64  `json:"finish,string"`
}

// logs returns what the server has logged, by URL.
func (s *server) logs(t testing.TB) map[string]logged {
	t.Helper()
	s.Signal(syscall.SIGUSR2)
	if line := s.Line(); line != "logged" {
		t.Fatalf("line = %q, want logged", line)
	}
	all := make(map[string]logged)
	for _, pid := range s.facts.PIDs {
		text, err := os.ReadFile(s.Log + "." + strconv.Itoa(pid))
		if os.IsNotExist(err) {
			continue // the process that only distributes
		}
		var entries []logged
		if err == nil {
			err = json.Unmarshal(text, &entries)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all[e.URL] = e
		}
	}
	return all
}

// certificate writes a key and a certificate for TLS to a folder.
func certificate(t testing.TB) (folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	for name, block := range map[string]*pem.Block{"key.pem": {Type: "PRIVATE KEY", Bytes: private}, "cert.pem": {Type: "CERTIFICATE", Bytes: cert}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// An exchange is a request and its response as its client has seen them.
type exchange struct {
	url, method string
	port        int
	status      int
	bytes       uint64 // of the response, its head's too
}

// A client sends requests over one connection.
type client struct {
	net.Conn
	counted *counter
	reader  *bufio.Reader
	port    int
}

// A counter counts the bytes that are read.
type counter struct {
	io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += n
	return n, err
}

func dial(t testing.TB, network, address string, encrypted bool) *client {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	c := &client{Conn: conn}
	if addr, ok := conn.LocalAddr().(*net.TCPAddr); ok {
		c.port = addr.Port
	}
	if encrypted {
		c.Conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	c.counted = &counter{Reader: c.Conn}
	c.reader = bufio.NewReader(c.counted)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A query is a request to be sent.
type query struct {
	method, url, fields, body string
}

func (q query) text() string {
	length := ""
	if q.body != "" {
		length = fmt.Sprintf("Content-Length: %d\r\n", len(q.body))
	}
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: test\r\n%s%s\r\n%s", q.method, q.url, q.fields, length, q.body)
}

// send sends the queries at once, and reads the responses.
func (c *client) send(queries ...query) (all []exchange, err error) {
	var text strings.Builder
	for _, q := range queries {
		text.WriteString(q.text())
	}
	if _, err := io.WriteString(c, text.String()); err != nil {
		return nil, err
	}
	for _, q := range queries {
		e := exchange{url: q.url, method: q.method, port: c.port}
		before := c.counted.n - c.reader.Buffered()
		for e.status < 200 {
			r, err := http.ReadResponse(c.reader, &http.Request{Method: q.method})
			if err != nil {
				return all, fmt.Errorf("%s %s: %w", q.method, q.url, err)
			}
			e.status = r.StatusCode
			if e.status < 200 {
				before = c.counted.n - c.reader.Buffered()
				continue
			}
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return all, err
			}
		}
		e.bytes = uint64(c.counted.n - c.reader.Buffered() - before)
		all = append(all, e)
	}
	return all, nil
}

// kinds are the queries of one round, without the number that makes their URLs unique.
var kinds = []query{
	{method: "GET", url: "/hello"},
	{method: "GET", url: "/chunks"},
	{method: "HEAD", url: "/hello/head"},
	{method: "GET", url: "/empty"},
	{method: "GET", url: "/missing"},
	{method: "GET", url: "/failed"},
	{method: "POST", url: "/posted", body: strings.Repeat("b", 3000)},
	{method: "GET", url: "/corked"},
	{method: "GET", url: "/later"},
	{method: "GET", url: "/large"},
	{method: "GET", url: "/slowly"},
	{method: "GET", url: "/trailer"},
	{method: "GET", url: "/early"},
	{method: "DELETE", url: "/hello/" + strings.Repeat("u", 2000)},
	{method: "GET", url: "/hello/fields", fields: strings.Repeat("X-Field: value\r\n", 50)},
	{method: "POST", url: "/posted/expect", fields: "Expect: 100-continue\r\n", body: "expected"},
}

// load sends rounds of all kinds over connections at the same time, several requests at
// once if pipelined. It returns all exchanges.
func load(t testing.TB, network string, addresses []string, encrypted bool, connections, rounds, pipelined int) []exchange {
	t.Helper()
	var all []exchange
	var mutex sync.Mutex
	var loading sync.WaitGroup
	for n := range connections {
		c := dial(t, network, addresses[n%len(addresses)], encrypted)
		loading.Go(func() {
			var queries []query
			for round := range rounds {
				for kind, q := range kinds {
					q.url += fmt.Sprintf("?%s%d.%d.%d.%t", network, n, round, kind, encrypted)
					queries = append(queries, q)
				}
			}
			for len(queries) > 0 {
				some, err := c.send(queries[:min(pipelined, len(queries))]...)
				queries = queries[min(pipelined, len(queries)):]
				mutex.Lock()
				all = append(all, some...)
				mutex.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loading.Wait()
	return all
}

func at(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

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

// differ returns how an event is not what the server and its client have seen.
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
	case int64(e.Monotonic) > l.Begin:
		return fmt.Errorf("begun %d ns after its handler", int64(e.Monotonic)-l.Begin)
	case ended < l.Before || e.TTFB > e.Latency || e.Busy > e.Latency || e.GC > e.Latency:
		return fmt.Errorf("ended %d ns before end() was called; latency, first byte, busy, collections = %v, %v, %v, %v", l.Before-ended, e.Latency, e.TTFB, e.Busy, e.GC)
	case ended > l.Finish:
		return fmt.Errorf("ended %d ns after it was written", ended-l.Finish)
	}
	return nil
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
	for name, how := range map[string]serving{"workers": {Workers: 3}, "cluster": {Children: 4}} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, node, how)
			w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
			var addresses []string
			for _, ports := range s.facts.Ports {
				addresses = append(addresses, at(ports[0]))
			}
			all := load(t, "tcp", addresses, false, 12, 3, 1)
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

// TestEndsWithoutResponse has requests that end otherwise, on each version.
func TestEndsWithoutResponse(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		s := startServer(t, node, serving{})
		w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
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
		for deadline := time.Now().Add(time.Minute); len(s.logs(t)) < 2; { // the handler has it
			if time.Now().After(deadline) {
				t.Fatal("the request has not come")
			}
		}
		if err := aborted.Close(); err != nil {
			t.Fatal(err)
		}
		for _, garbage := range []string{"FOO\r\n\r\n", "GET /x HTTP/9.9\r\n\r\n", "\x16\x03\x01\x00", "GET /" + strings.Repeat("g", 1<<15), "GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"} {
			c := dial(t, "tcp", at(port), false)
			_, _ = io.WriteString(c, garbage)
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c)
		}
		if _, err := dial(t, "tcp", at(port), false).send(query{method: "GET", url: "/hello"}); err != nil {
			t.Fatal(err)
		}
		w.wait(4)
		want := map[string]string{"/destroy": "0 closed", "/upgrade": "101 upgrade", "/never": "0 aborted", "/hello": "200 done"}
		got := make(map[string]string)
		for _, e := range w.end() {
			got[e.URL] = fmt.Sprintf("%d %v", e.Status, e.Outcome)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
	})
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

// TestNothingIsDoneToTheProcess looks for what a watch would leave in the process: the
// system calls that it makes are those that it makes anyway, and nothing traces it.
func TestNothingIsDoneToTheProcess(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	before := threadsAndFiles(t, s.PID)
	w := begin(t, Options{Selection: s.selection(), Kinds: Kinds{Server: true, Client: true, GC: true, Loop: true}})
	load(t, "tcp", []string{at(s.facts.Ports[0][0])}, false, 1, 1, 1)
	during := threadsAndFiles(t, s.PID)
	w.end()
	if diff := cmp.Diff(before, during); diff != "" {
		t.Errorf("threads, tracer, files and signals (-before +during):\n%s", diff)
	}
}

// threadsAndFiles returns what /proc says of a process that a tool might change.
func threadsAndFiles(t testing.TB, pid int) map[string]string {
	t.Helper()
	state := make(map[string]string)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch name {
		case "TracerPid", "Threads", "SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Seccomp":
			state[name] = value
		}
	}
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, f.Name()))
		if !strings.HasPrefix(to, "socket:") { // the test's connections
			state["fd "+f.Name()] = to
		}
	}
	return state
}

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
