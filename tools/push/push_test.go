package push

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	pprof "github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"ustack/tools/labels"
)

// sample returns a profile of this many samples, in one stack, with a name that cannot be
// compressed away.
func sample(n int64, name string) Profile {
	f := &pprof.Function{ID: 1, Name: name, SystemName: name, Filename: "app.js", StartLine: 3}
	l := &pprof.Location{ID: 1, Line: []pprof.Line{{Function: f, Line: 7, Column: 2}}}
	const period = 10_000_000
	return Profile{
		Labels: []labels.Label{{Name: "service.name", Short: "service_name", Value: "checkout"}},
		Data: &pprof.Profile{
			SampleType: []*pprof.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
			PeriodType: &pprof.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: period,
			Sample: []*pprof.Sample{{
				Value: []int64{n, n * period}, Location: []*pprof.Location{l},
				Label: map[string][]string{"thread": {"node"}}, NumLabel: map[string][]int64{"tid": {42}},
			}},
			Function: []*pprof.Function{f}, Location: []*pprof.Location{l},
		},
	}
}

// A server takes profiles by OTLP over HTTP.
type server struct {
	*httptest.Server
	mutex    sync.Mutex
	samples  int64
	requests int
	headers  http.Header
	answer   func(request int) int // the status of each, from 1; success if nil
}

func serve(t *testing.T, answer func(request int) int) *server {
	s := &server{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		samples := taken(t, r.Body)
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.requests++
		s.headers = r.Header
		status := http.StatusOK
		if s.answer != nil {
			status = s.answer(s.requests)
		}
		if status == http.StatusOK {
			s.samples += samples
		}
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s
}

// taken returns the number of samples in a request.
func taken(t *testing.T, body io.Reader) (n int64) {
	zipped, err := gzip.NewReader(body)
	if err != nil {
		t.Error(err)
		return 0
	}
	text, err := io.ReadAll(zipped)
	if err != nil {
		t.Error(err)
	}
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(text)
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, r := range all.ResourceProfiles().All() {
		for _, s := range r.ScopeProfiles().All() {
			for _, p := range s.Profiles().All() {
				for _, sample := range p.Samples().All() {
					n += sample.Values().At(0)
				}
			}
		}
	}
	return n
}

func receiver(t *testing.T, address string, headers http.Header) *Receiver {
	t.Helper()
	r, err := Parse("otlp+"+address, headers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// checkCounts checks that what was pushed is what was sent and what was dropped.
func checkCounts(t *testing.T, c Counts, pushed, sent uint64, dropped map[string]uint64) {
	t.Helper()
	if c.Samples != sent {
		t.Errorf("samples sent = %d, want %d", c.Samples, sent)
	}
	sum := c.Samples
	for cause, loss := range c.Dropped {
		if loss.Samples != dropped[cause] {
			t.Errorf("samples dropped because %s = %d, want %d (%v)", cause, loss.Samples, dropped[cause], loss.Last)
		}
		sum += loss.Samples
	}
	if sum != pushed {
		t.Errorf("samples sent and dropped = %d, want %d", sum, pushed)
	}
}

func TestWhatFailsForNowIsSentAgain(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		s := serve(t, func(request int) int {
			if request == 1 {
				return status
			}
			return http.StatusOK
		})
		var warnings []string
		p := New(receiver(t, s.URL, http.Header{"Authorization": {"Bearer secret"}}), func(err error) { warnings = append(warnings, err.Error()) })
		p.Push(sample(11, "f"), sample(13, "g"))
		c := p.Close(t.Context())
		checkCounts(t, c, 24, 24, nil)
		if s.samples != 24 || c.Again == 0 {
			t.Errorf("after status %d: %d samples arrived with %d attempts repeated, want 24 with 1 or more", status, s.samples, c.Again)
		}
		if s.headers.Get("Authorization") != "Bearer secret" || s.headers.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("headers = %v", s.headers)
		}
		if len(warnings) != 2 || strings.Contains(strings.Join(warnings, ""), "secret") {
			t.Errorf("warnings = %q, want that it failed and that it no longer does", warnings)
		}
	}
}

// TestWhatIsRejectedIsDropped at once, and the next is sent. Redirects would take credentials
// elsewhere.
func TestWhatIsRejectedIsDropped(t *testing.T) {
	for _, status := range []int{http.StatusBadRequest, http.StatusUnauthorized, http.StatusRequestEntityTooLarge, http.StatusInternalServerError, http.StatusFound} {
		s := serve(t, func(request int) int {
			if request == 1 {
				return status
			}
			return http.StatusOK
		})
		p := New(receiver(t, s.URL, nil), func(err error) { t.Error(err) })
		p.Push(sample(11, "f"), sample(13, "g"))
		c := p.Close(t.Context())
		checkCounts(t, c, 24, 13, map[string]uint64{Rejected: 11})
		if s.requests != 2 || c.Dropped[Rejected].Last == nil {
			t.Errorf("requests after status %d = %d, want 2; reason: %v", status, s.requests, c.Dropped[Rejected].Last)
		}
	}
}

// TestQueueIsBounded pushes more than there is room for while nothing is taken.
func TestQueueIsBounded(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	p := New(receiver(t, s.URL, nil), func(error) {})
	const each, size = 17, 1 << 20
	var pushed uint64
	for range 2 * maxQueued / size {
		p.mutex.Lock()
		p.put(item{body: make([]byte, size), samples: each})
		p.mutex.Unlock()
		pushed += each
	}
	p.mutex.Lock()
	p.put(item{body: make([]byte, maxQueued+1), samples: each}) // there never is room for it
	p.mutex.Unlock()
	pushed += each
	c := p.Counts()
	if full := c.Dropped[Full].Profiles; full < maxQueued/size || c.Waiting*size > maxQueued {
		t.Errorf("dropped = %d profiles, and %d wait, want no more than %d bytes to wait", full, c.Waiting, maxQueued)
	}
	close(release)
	c = p.Close(t.Context())
	checkCounts(t, c, pushed, c.Samples, map[string]uint64{Full: c.Dropped[Full].Samples})
	if c.Samples == 0 {
		t.Error("nothing was sent once the receiver took it")
	}
}

// TestTotalsSurviveARestart: the receiver goes away and comes back at its address.
func TestTotalsSurviveARestart(t *testing.T) {
	first := serve(t, nil)
	address := first.Listener.Addr().String()
	failed := make(chan struct{}, 2)
	p := New(receiver(t, "http://"+address, nil), func(error) { failed <- struct{}{} })
	p.Push(sample(3, "f"))
	for p.Counts().Profiles == 0 {
		runtime.Gosched()
	}
	first.Close()
	p.Push(sample(5, "g"), sample(7, "h"))
	<-failed
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	second := serve(t, nil)
	second.Listener.Close()
	go http.Serve(listener, second.Config.Handler)
	defer listener.Close()
	p.Push(sample(11, "i"))
	c := p.Close(t.Context())
	checkCounts(t, c, 26, 26, nil)
	if first.samples != 3 || second.samples != 23 {
		t.Errorf("samples = %d before and %d after the restart, want 3 and 23", first.samples, second.samples)
	}
}

// TestEndDoesNotWaitForever for a receiver that is not there.
func TestEndDoesNotWaitForever(t *testing.T) {
	s := serve(t, nil)
	s.Close()
	p := New(receiver(t, s.URL, nil), func(error) {})
	p.Push(sample(3, "f"), sample(5, "g"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := p.Close(ctx)
	checkCounts(t, c, 8, 0, map[string]uint64{Unsent: 8})
	if last := c.Dropped[Unsent].Last; last == nil {
		t.Error("it is not known why")
	}
}

func TestReceiversThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"http://host:1":               "is not one of the protocols otlp+http, otlp+grpc, pyroscope+http, parca+grpc",
		"host:4318":                   "is not one of the protocols",
		"otlp+http://":                "PROTOCOL://HOST",
		"otlp+http://host?x=1":        "PROTOCOL://HOST",
		"otlp+http://user:pass@host/": "visible to all users",
		"otlp+http://host:port":       "invalid port",
	} {
		if _, err := Parse(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) = %v, want an error with %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"otlp+http://host":            "http://host:4318/v1development/profiles",
		"otlp+https://host/a/":        "https://host/a/v1development/profiles",
		"otlp+http://[::1]":           "http://[::1]:4318/v1development/profiles",
		"pyroscope+http://host:80":    "http://host:80/push.v1.PusherService/Push",
		"parca+grpcs://host:443/base": "https://host:443/base/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
	} {
		if r, err := Parse(text, nil); err != nil || r.address() != want {
			t.Errorf("Parse(%q) leads to %v, %v, want %s", text, r, err, want)
		}
	}
}

func TestHeadersAreRead(t *testing.T) {
	write := func(text string) string {
		file := filepath.Join(t.TempDir(), "headers")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	got, err := ReadHeaders(write("authorization: Basic c2VjcmV0\nX-Scope-OrgID: a b\n"))
	if err != nil || got.Get("Authorization") != "Basic c2VjcmV0" || got.Get("X-Scope-Orgid") != "a b" || len(got) != 2 {
		t.Errorf("headers = %v, %v", got, err)
	}
	if _, err := ReadHeaders(write("a secret")); err == nil || strings.Contains(err.Error(), "secret\"") || !strings.Contains(err.Error(), "Name: value") {
		t.Errorf("error = %v, want one that does not quote the line", err)
	}
	if _, err := ReadHeaders(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error = %v, want that there is no file", err)
	}
}
