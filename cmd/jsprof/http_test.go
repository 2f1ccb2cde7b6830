package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/webdriver"
)

const (
	secret    = "nobody may read this line"
	pageWait  = time.Minute // for a page, on a busy machine
	settingsF = "pprof/settings.json"
)

// A serving is a jsprof that shows the profile of a hostile program: its functions
// say that their sources are root's secret file and a FIFO.
type serving struct {
	t       *testing.T
	process *clitest.Process
	url     *url.URL // with the token
	config  string   // root's folder of settings
}

func serveHostile(t *testing.T) *serving {
	t.Helper()
	node := clitest.Node(t, programs...)
	dir := t.TempDir()
	file, fifo, config := filepath.Join(dir, "shadow.js"), filepath.Join(dir, "fifo.js"), filepath.Join(dir, "config")
	err := errors.Join(
		os.WriteFile(file, []byte(secret+"\n"+secret+"\n"), 0o600), unix.Mkfifo(fifo, 0o600),
		os.MkdirAll(filepath.Join(config, "pprof"), 0o700), unix.Mkfifo(filepath.Join(config, settingsF), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", config)
	program := filepath.Join(dir, "hostile.js")
	if err := os.WriteFile(program, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, node, nodetest.Options{Script: program, Args: []string{file, fifo}})
	p := clitest.Start(t, "jsprof", "-p", strconv.Itoa(target.PID), "-d", "1s", "--http", "127.0.0.1:0")
	address := p.Line(`^Serving the profile at (http://\S+/)\. Ctrl-C to end\.$`)
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return &serving{t, p, u, config}
}

// hostile is a program with two busy functions that name its arguments as their sources.
const hostile = `
const spin = (file, name) => (0, eval)('(function ' + name + '() { const end = Date.now() + 5; while (Date.now() < end); })' +
	'\n//# sourceURL=' + file);
const [a, b] = [spin(process.argv[2], 'readsSecret'), spin(process.argv[3], 'readsFifo')];
console.log('ready');
for (;;) { a(); b(); }
`

// get makes one request and returns the answer's status and body.
func (s *serving) get(method, path string, header http.Header) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), pageWait)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.url.Host+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	return response.StatusCode, string(body)
}

func TestChaosHostileHTTPClientReadsAndWritesNoFile(t *testing.T) {
	s := serveHostile(t)
	root := s.url.Path
	for _, path := range []string{"top", "flamegraph", "peek?f=reads", "peek?f=."} {
		status, body := s.get(http.MethodGet, root+path, nil)
		if status != http.StatusOK || !strings.Contains(body, "readsSecret") || strings.Contains(body, secret) {
			t.Errorf("%s: status = %d, or readsSecret is not named, or its file is shown", path, status)
		}
	}
	for _, path := range []string{
		"source?f=readsSecret", "source?f=readsFifo", "weblist?f=reads", "disasm?f=.", "ui/", "ui/source?f=reads",
		"//source?f=readsSecret", "./source?f=readsSecret", "top/../source?f=readsSecret", "%2e/source?f=readsSecret", "source/",
		"saveconfig?config=x&f=reads", "deleteconfig?config=x", "debug/pprof/", "..%2fetc%2fpasswd",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodHead} {
			if status, body := s.get(method, root+path, nil); status < 400 || strings.Contains(body, secret) {
				t.Errorf("%s %s: status = %d, body %.80q", method, path, status, body)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.config, "pprof"))
	if err != nil || len(entries) != 1 || entries[0].Type()&os.ModeNamedPipe == 0 {
		t.Errorf("root's settings = %v, %v, want the FIFO as it was", entries, err)
	}
	if got := s.process.End(syscall.SIGINT); got.ExitStatus() != 0 {
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
}

func TestChaosHostileHTTPClientWithoutTheTokenGetsNothing(t *testing.T) {
	s := serveHostile(t)
	root, port := s.url.Path, s.url.Port()
	for _, tt := range []struct {
		method, path, host string
		want               int
	}{
		{"GET", root + "top", "", 200},
		{"GET", root + "top", "localhost:" + port, 200},
		{"GET", root + "top", "LOCALHOST:" + port, 200},
		{"GET", root + "top", "localhost:1234", 403},
		{"GET", root + "top", "localhost", 403},
		{"GET", root + "top", "127.0.0.1:1234", 403},
		{"GET", root, "", 301},
		{"GET", "/", "", 403},
		{"GET", "/top", "", 403},
		{"GET", "/flamegraph", "", 403},
		{"GET", "/ui/", "", 403},
		{"GET", "/ui/top", "", 403},
		{"GET", "/" + strings.Repeat("A", 26) + "/top", "", 403},
		{"GET", strings.ToLower(root) + "top", "", 403},
		{"GET", strings.TrimSuffix(root, "/"), "", 403},
		{"GET", root + "top", "attacker.example:" + port, 403},
		{"GET", root + "top", "127.0.0.1.attacker.example:" + port, 403},
		{"GET", root + "top", "localhost.attacker.example", 403},
		{"GET", root + "top", "127.0.0.2:" + port, 403},
		{"GET", root + "top", "[::1]:" + port, 403},
		{"GET", root + "top", "0.0.0.0:" + port, 403},
		{"POST", root + "top", "", 405},
		{"HEAD", root + "top", "", 405},
		{"PUT", root + "top", "", 405},
		{"DELETE", root + "top", "", 405},
		{"OPTIONS", root + "top", "", 405},
	} {
		if got, _ := s.get(tt.method, tt.path, http.Header{"Host": {tt.host}}); got != tt.want {
			t.Errorf("%s %s of %q: status = %d, want %d", tt.method, tt.path, tt.host, got, tt.want)
		}
	}
	cross := http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"no-cors"}}
	if got, _ := s.get("GET", root+"top", cross); got != http.StatusForbidden {
		t.Errorf("another site's script: status = %d, want 403", got)
	}
}

// TestChaosHostileHTTPClientThatStallsHoldsNobodyUp has clients that send half a
// request, or read nothing of the answer.
func TestChaosHostileHTTPClientThatStallsHoldsNobodyUp(t *testing.T) {
	s := serveHostile(t)
	for i := range nodetest.Rounds(50, 500) {
		conn, err := net.Dial("tcp", s.url.Host)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		request := "GET " + s.url.Path + "flamegraph HTTP/1.1\r\nHost: " + s.url.Host + "\r\n"
		if i%2 == 0 {
			request += "\r\n"
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	for status := 0; status != http.StatusOK; {
		if status, _ = s.get("GET", s.url.Path+"top", nil); status != http.StatusOK && status != http.StatusServiceUnavailable {
			t.Fatalf("status = %d, want 200 in the end", status)
		}
	}
	if got := s.process.End(syscall.SIGINT); got.ExitStatus() != 0 {
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
}

// TestChaosHostileHTTPClientInABrowser clicks through the pages, and then visits
// an attacker's site that knows even the token.
func TestChaosHostileHTTPClientInABrowser(t *testing.T) {
	s := serveHostile(t)
	b := webdriver.Open(t, "--host-resolver-rules=MAP attacker.example 127.0.0.1")
	b.Visit(s.url.String())
	b.Screenshot("pprof")
	for _, page := range []string{"topbtn", "flamegraph", "peek", "topbtn"} {
		b.Click(b.Middle(`document.querySelector("#view .menu-name")`))
		b.Click(b.Middle(fmt.Sprintf("document.getElementById(%q)", page)))
		b.Wait(`document.readyState === "complete" && document.body.textContent.includes("readsSecret")`)
		if got := webdriver.Eval[string](b, "location.pathname"); !strings.HasPrefix(got, s.url.Path) {
			t.Errorf("%s leads to %s, which is not below %s", page, got, s.url.Path)
		}
	}
	b.Screenshot("pprof-top")
	for _, id := range []string{"list", "disasm", "config"} {
		if webdriver.Eval[bool](b, "document.getElementById(arguments[0]).getClientRects().length > 0", id) {
			t.Errorf("the pages offer %s, which is not served", id)
		}
	}

	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "<!DOCTYPE html><script>const base = %q;%s</script>", s.url.String(), attack)
	}))
	defer attacker.Close()
	b.Visit(strings.Replace(attacker.URL, "127.0.0.1", "attacker.example", 1))
	b.Wait("window.done")
	if got := webdriver.Eval[[]string](b, "stolen"); len(got) > 0 {
		t.Errorf("another site got %q", got)
	}
	b.Visit("http://attacker.example:" + s.url.Port() + s.url.Path + "top") // its name now means us
	if got := webdriver.Eval[string](b, "document.body.textContent"); strings.Contains(got, "readsSecret") {
		t.Error("a page is served by the attacker's name")
	}
}

// attack tries what a page of another site can: it lists in stolen what succeeds.
const attack = `
const stolen = [];
const paths = ['top', 'download', 'source?f=readsSecret', 'saveconfig?config=x'];
const ways = {
	fetch: (url) => fetch(url).then((r) => r.text()),
	blind: (url) => fetch(url, { mode: 'no-cors', method: 'POST' }).then((r) => r.text()).then((t) => t || Promise.reject()),
	image: (url) => new Promise((ok, no) => Object.assign(new Image(), { onload: ok, onerror: no, src: url })),
	script: (url) => new Promise((ok, no) => document.head.append(Object.assign(document.createElement('script'), { onload: ok, onerror: no, src: url }))),
	frame: (url) => new Promise((ok, no) => {
		const f = document.createElement('iframe');
		f.onload = () => (f.contentDocument && f.contentDocument.URL !== 'about:blank' ? ok() : no());
		f.src = url;
		document.documentElement.append(f);
	}),
};
Promise.all(paths.flatMap((path) => Object.entries(ways).map(([name, way]) =>
	way(base + path).then(() => stolen.push(name + ' ' + path), () => {})))).then(() => { window.done = true; });
`
