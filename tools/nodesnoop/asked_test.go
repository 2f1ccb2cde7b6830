package nodesnoop

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// asking says what asks.js is to do.
type asking struct {
	Origins []string `json:"origins"`
	HTTP2   []string `json:"http2"`
	Rounds  int      `json:"rounds"`
	Agents  int      `json:"agents"`
	Worker  bool     `json:"worker"`
}

// An asked request is one as asks.js itself has seen it.
type asked struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	Host   string `json:"host"`
	Port   int    `json:"port"` // 0: not known
	Status int    `json:"status"`
	Begin  int64  `json:"begin,string"`
	End    int64  `json:"end,string"`
}

// answer answers as the path says.
func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	flush := w.(http.Flusher).Flush
	switch strings.Split(r.URL.Path, "/")[1] {
	case "chunked":
		for range 5 {
			_, _ = io.WriteString(w, "0\r\n\r\n HTTP/1.1 200 OK\r\n\r\n")
			flush()
		}
	case "empty":
		w.WriteHeader(http.StatusNoContent)
	case "failed":
		http.Error(w, "failed", http.StatusServiceUnavailable)
	case "large":
		w.Header().Set("Content-Length", fmt.Sprint(1<<20))
		_, _ = w.Write(make([]byte, 1<<20))
	case "pieces":
		for i := range 300 {
			_, _ = fmt.Fprintf(w, "%*d", i+1, i)
			if i%50 == 0 {
				flush()
			}
		}
	case "hints":
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		_, _ = io.WriteString(w, "after hints")
	case "close":
		conn, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		_, _ = io.WriteString(buffered, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end")
		_ = buffered.Flush()
		_ = conn.Close()
	default:
		w.Header().Set("Content-Length", "5")
		_, _ = io.WriteString(w, "sized")
	}
}

// origins starts servers for requests: without TLS, with it, and with it and HTTP/2.
func origins(t testing.TB) []string {
	t.Helper()
	plain := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(plain.Close)
	folder := certificate(t)
	cert, err := tls.LoadX509KeyPair(filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	all := []string{plain.URL}
	for _, multiplexed := range []bool{false, true} {
		encrypted := httptest.NewUnstartedServer(http.HandlerFunc(answer))
		encrypted.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		encrypted.EnableHTTP2 = multiplexed
		encrypted.StartTLS()
		t.Cleanup(encrypted.Close)
		all = append(all, encrypted.URL)
	}
	return all
}

// TestEveryRequestThatIsMadeIsSeen has http.request and, where there is one, fetch make
// requests of all kinds.
func TestEveryRequestThatIsMadeIsSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		t.Run("main", func(t *testing.T) { testAsked(t, node, asking{}, Options{}) })
		t.Run("worker", func(t *testing.T) { testAsked(t, node, asking{Worker: true}, Options{}) })
		t.Run("probes", func(t *testing.T) { testAsked(t, node, asking{}, Options{preempted: true}) })
	})
}

func testAsked(t *testing.T, node string, how asking, o Options) {
	servers := origins(t)
	how.Origins, how.HTTP2, how.Rounds, how.Agents = servers[:2], servers[2:], 2, 3
	args, err := json.Marshal(how)
	if err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, node, nodetest.Options{Script: "asks.js", Args: []string{string(args)}})
	o.Selection, o.Kinds = trace.Selection{PIDs: []int{target.PID}}, Kinds{Client: true}
	w := begin(t, o)
	target.Signal(syscall.SIGUSR2)
	var log []asked
	text, _ := strings.CutPrefix(target.Line(), "asked")
	if err := json.Unmarshal([]byte(text), &log); err != nil {
		t.Fatal(err)
	}
	events := make(map[string]Event)
	for _, e := range w.end() {
		if _, twice := events[e.URL]; twice {
			t.Errorf("%s: two events", e.URL)
		}
		events[e.URL] = e
	}
	if len(events) != len(log) {
		t.Errorf("events = %d, want %d", len(events), len(log))
	}
	for _, l := range log {
		if e, ok := events[l.URL]; !ok {
			t.Errorf("%.60s: not seen", l.URL)
		} else if err := differs(e, l); err != nil {
			t.Errorf("%.60s: %v", l.URL, err)
		}
	}
}

// differs returns how an event is not what the client has seen.
func differs(e Event, l asked) error {
	begun, ended := int64(e.Monotonic), int64(e.Monotonic+e.Latency)
	switch {
	case e.Kind != Client || e.Outcome != Done || e.EndLost:
		return fmt.Errorf("kind, outcome, lost = %v, %v, %t, want a client's that is done", e.Kind, e.Outcome, e.EndLost)
	case e.Method != l.Method || e.Status != l.Status || e.Host != l.Host:
		return fmt.Errorf("method, status, host = %s, %d, %s, want %s, %d, %s", e.Method, e.Status, e.Host, l.Method, l.Status, l.Host)
	case l.Port != 0 && e.LocalPort != l.Port:
		return fmt.Errorf("port = %d, want %d", e.LocalPort, l.Port)
	case begun < l.Begin || ended > l.End:
		return fmt.Errorf("from %d to %d, want from %d to %d", begun, ended, l.Begin, l.End)
	case e.TTFB > e.Latency || e.Busy < 0 || e.Busy > e.Latency:
		return fmt.Errorf("latency, first byte, busy = %v, %v, %v", e.Latency, e.TTFB, e.Busy)
	case strings.HasPrefix(e.URL, "/large") != (e.Bytes > 1<<20):
		return fmt.Errorf("bytes = %d", e.Bytes)
	}
	return nil
}
