// Package metrics serves what a command measures to Prometheus.
package metrics

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ustack/cmd/internal/cli"
)

// A Server serves metrics if it has an address.
type Server struct {
	Addr string // to be given by --metrics; empty: nothing is served

	listener net.Listener
	server   *http.Server
}

// Usage explains the flag for Addr.
const Usage = "serve histograms and counts to Prometheus at `ADDR` (:9464 is on loopback)"

// Limits for each client, so that a slow or hostile one can hold neither a connection nor the
// measurement.
const (
	path        = "/metrics"
	scrapeLimit = 10 * time.Second // for a request, and for its answer
	idleLimit   = 2 * time.Minute  // between two requests on one connection
	maxHeader   = 1 << 14          // bytes
	maxScrapes  = 4                // at the same time
)

// Check reports an address that makes no sense.
func (s *Server) Check() error {
	if s.Addr == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(s.Addr)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return cli.Usagef("--metrics: %v", err)
	}
	return nil
}

// Open listens. An address without a host means loopback.
func (s *Server) Open() (err error) {
	if s.Addr == "" {
		return nil
	}
	addr := s.Addr
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	if s.listener, err = net.Listen("tcp", addr); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// Close ends serving.
func (s *Server) Close() {
	if s.server != nil {
		_ = s.server.Close() // its connections have nothing more to say
	}
	if s.listener != nil {
		_ = s.listener.Close()
	}
}

// Serves reports whether there is an address, and Open has listened there.
func (s *Server) Serves() bool { return s.listener != nil }

// Serve serves what the collector collects from now on.
func (s *Server) Serve(collector prometheus.Collector, messages *cli.Messages) error {
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+path, promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	s.server = &http.Server{
		Handler:     guarded(mux),
		ReadTimeout: scrapeLimit, WriteTimeout: scrapeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
	}
	go func() {
		if err := s.server.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			messages.Warn(fmt.Errorf("serve metrics: %w", err))
		}
	}()
	messages.Notef("metrics at http://%v%s", s.listener.Addr(), path)
	return nil
}

// guarded refuses requests for other hosts than loopback if it is loopback that listens: a
// page of another site may have its own name lead here (DNS rebinding).
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local == nil || local.IP.IsLoopback() && !loopback(r.Host) {
			http.Error(w, "this server has another name", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host header names the loopback interface.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
}
