package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"ustack/cmd/internal/cli"
	"ustack/tools/profile"
)

// Limits for each client, so that a slow or hostile one can neither hold a
// connection forever nor have many pages made at once.
const (
	readLimit   = 10 * time.Second // for a whole request
	writeLimit  = 2 * time.Minute  // for a page to be made and sent
	idleLimit   = time.Minute      // between two requests on one connection
	headerLimit = 1 << 16          // bytes of a request's header, which includes pprof's filters
	pageLimit   = 4                // pages made at the same time
)

// listen opens addr for serve. An address without a host means loopback: a
// profile reveals much about a program.
func listen(addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, cli.Usagef("--http: %v", err)
	}
	if host == "" {
		addr = "127.0.0.1" + addr
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("serve the profile: %w", err)
	}
	return listener, nil
}

// serve serves pprof's web pages about profiles until ctx is done. addr is the value
// of --http for which listener was opened.
func serve(ctx context.Context, listener net.Listener, addr string, all []*profile.Profile) error {
	pages, err := pprofPages(all)
	if err != nil {
		return fmt.Errorf("serve the profile: %w", err)
	}
	host, _, _ := net.SplitHostPort(addr) // already parsed by listen
	g := &guard{host: host, token: rand.Text(), pages: pages, slots: make(chan struct{}, pageLimit)}
	server := http.Server{
		Handler:     g,
		ReadTimeout: readLimit, WriteTimeout: writeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: headerLimit,
	}
	if ctx.Err() == nil { // otherwise Ctrl-C ended the sampling, and a second one ends the process
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
	}
	fmt.Fprintf(os.Stderr, "Serving the profile at http://%s/%s/. Ctrl-C to end.\n", listener.Addr(), g.token)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the profile: %w", err)
	}
	return nil
}

// A guard serves pages only for GET requests with the token, from browsers that
// address this server: the check of the Host header stops other sites' pages
// that resolve their own name to this address (DNS rebinding).
type guard struct {
	host  string // as the user named it; may be empty
	token string // the first element of each page's path
	pages map[string]http.Handler
	slots chan struct{} // full when no more pages may be made concurrently
}

// ServeHTTP answers with a page, or with the reason for refusing it.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	token, name, ok := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	page := g.pages["/"+name]
	switch {
	case !g.named(r):
		http.Error(w, "this server has another name", http.StatusForbidden)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "only GET is served", http.StatusMethodNotAllowed)
	case !ok || subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) != 1 || foreign(r):
		http.Error(w, "open the address that jsprof printed", http.StatusForbidden)
	case page == nil:
		http.Error(w, "no such page (what reads or writes files is not served)", http.StatusNotFound)
	default:
		g.answer(w, r, page)
	}
}

// headers keep a page's contents, and its address with the token, from others.
// A profile's names come from hostile programs: should one ever run as a script
// in a page, the policy keeps it from sending the page to anybody.
var headers = map[string]string{
	"Cache-Control":                "no-store",
	"Content-Security-Policy":      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Referrer-Policy":              "no-referrer",
	"X-Content-Type-Options":       "nosniff",
	"X-Frame-Options":              "DENY",
}

// named reports whether r's Host header is the listener's: the port at which r
// arrived, with the name that the user gave, the address at which r arrived, or
// localhost if that is loopback.
func (g *guard) named(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if local == nil {
		return false
	}
	host, port := r.Host, "80" // browsers omit this default
	if name, number, err := net.SplitHostPort(host); err == nil {
		host, port = name, number
	}
	if port != strconv.Itoa(local.Port) {
		return false
	}
	host = strings.Trim(host, "[]")
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap() == local.AddrPort().Addr().Unmap()
	}
	if g.host != "" && strings.EqualFold(host, g.host) {
		return true
	}
	return strings.EqualFold(host, "localhost") && local.IP.IsLoopback()
}

// foreign reports whether another site's page made r, according to the browser.
// Following a link does not count, but embedding one of our pages in a frame
// does.
func foreign(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Dest") != "document"
}

// answer sends a page once it is complete.
func (g *guard) answer(w http.ResponseWriter, r *http.Request, page http.Handler) {
	made := response{header: w.Header()}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }() // also after a panic
		page.ServeHTTP(&made, r)
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many pages at once", http.StatusServiceUnavailable)
		return
	}
	if made.status != 0 {
		w.WriteHeader(made.status)
	}
	_, _ = w.Write(bytes.Replace(made.body.Bytes(), []byte("</head>"), []byte(hideUnserved+"</head>"), 1)) // the client may have disconnected
}

// A response is what a handler wrote, before it is sent.
type response struct {
	header http.Header
	status int // 0 for success
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(b []byte) (int, error) { return r.body.Write(b) }
