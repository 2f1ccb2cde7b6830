package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"ustack/cmd/internal/cli"
	"ustack/tools/flamegraph"
)

// listen opens addr for serve. An address without a host is on loopback: a
// profile tells much of a program.
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

// serve shows p in pprof's web pages to whom listener accepts, until ctx is
// done.
func serve(ctx context.Context, listener net.Listener, p *flamegraph.Profile) error {
	server := http.Server{ReadHeaderTimeout: 10 * time.Second}
	if ctx.Err() == nil { // else Ctrl-C ended the sampling, and a second one ends the process
		stop := context.AfterFunc(ctx, func() { _ = server.Close() })
		defer stop()
	}
	err := driver.PProf(&driver.Options{
		Flagset: &pprofFlags{args: []string{"-http=" + listener.Addr().String(), "-no_browser", "jsprof"}},
		Fetch:   fetcher{p.Pprof()},
		UI:      quiet{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			mux := http.NewServeMux()
			for pattern, handler := range args.Handlers {
				mux.Handle(pattern, handler)
			}
			server.Handler = mux
			fmt.Fprintf(os.Stderr, "Serving the profile at http://%s/. Ctrl-C to end.\n", listener.Addr())
			err := server.Serve(listener)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return err
		},
	})
	if err != nil {
		return fmt.Errorf("serve the profile: %w", err)
	}
	return nil
}

// A fetcher gives pprof the profile that is at hand, whatever it asks for.
type fetcher struct{ profile *profile.Profile }

func (f fetcher) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.profile, "", nil
}

// quiet is pprof's user interface with nobody at it.
type quiet struct{}

func (quiet) ReadLine(string) (string, error)     { return "", errors.New("no terminal") }
func (quiet) Print(...any)                        {}
func (quiet) PrintErr(args ...any)                { fmt.Fprintln(os.Stderr, args...) }
func (quiet) IsTerminal() bool                    { return false }
func (quiet) WantBrowser() bool                   { return false }
func (quiet) SetAutoComplete(func(string) string) {}

// pprofFlags are pprof's flags, with arguments of ours.
type pprofFlags struct {
	flag.FlagSet
	args []string
}

// StringList is String, as a list of one.
func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}

// ExtraUsage is empty: nobody reads pprof's usage here.
func (f *pprofFlags) ExtraUsage() string { return "" }

// AddExtraUsage does nothing, likewise.
func (f *pprofFlags) AddExtraUsage(string) {}

// Parse sets the flags from our arguments and returns the rest of these.
func (f *pprofFlags) Parse(func()) []string {
	if err := f.FlagSet.Parse(f.args); err != nil {
		return nil
	}
	return f.Args()
}
