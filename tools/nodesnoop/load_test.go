package nodesnoop

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// An exchange is a request and its response as its client has seen them.
type exchange struct {
	url, method string
	port        int
	status      int
	bytes       uint64 // of the response, its head's too
	begun       int64  // before the request was written, by CLOCK_MONOTONIC; 0: not known
	ended       int64  // after the response was read
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
	begun := monotonic()
	if _, err := io.WriteString(c, text.String()); err != nil {
		return nil, err
	}
	for _, q := range queries {
		e := exchange{url: q.url, method: q.method, port: c.port, begun: begun}
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
		e.ended = monotonic()
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
