package main

import (
	"errors"
	"flag"
	"net/http"
	"os"
	"time"

	"github.com/google/pprof/driver"
	"github.com/google/pprof/profile"

	"ustack/tools/flamegraph"
)

// served are those of pprof's pages that need nothing but the profile. The
// others open files by names that are in the profile, and so chosen by the
// profiled program (/source, /disasm), or write the user's settings
// (/saveconfig, /deleteconfig).
var served = []string{"/", "/download", "/flamegraph", "/graph", "/peek", "/top"}

// hideUnserved takes out of pprof's pages what leads to others than served.
const hideUnserved = "<style>#list, #disasm, #config, #action-source, #action-source-tab { display: none !important; }</style>"

// pprofPages returns pprof's pages about p by their paths. No page opens a file.
func pprofPages(p *flamegraph.Profile) (map[string]http.Handler, error) {
	// pprof reads its settings before each page. In this process they are where
	// there can be no file.
	if err := os.Setenv("XDG_CONFIG_HOME", os.DevNull); err != nil {
		return nil, err
	}
	prof := p.Pprof()
	if err := prof.CheckValid(); err != nil {
		return nil, err
	}
	pages := map[string]http.Handler{}
	err := driver.PProf(&driver.Options{
		// The address is not used: HTTPServer listens nowhere.
		Flagset: &pprofFlags{args: []string{"-http=localhost:0", "-no_browser", "-symbolize=none", "jsprof"}},
		Fetch:   fetcher{prof},
		Sym:     symbols{},
		Obj:     objects{},
		UI:      quiet{},
		HTTPServer: func(args *driver.HTTPServerArgs) error {
			for _, path := range served {
				if args.Handlers[path] == nil {
					return errors.New("pprof has no page " + path)
				}
				pages[path] = args.Handlers[path]
			}
			return nil
		},
	})
	return pages, err
}

// A fetcher gives pprof the profile that is at hand, whatever it asks for.
type fetcher struct{ profile *profile.Profile }

func (f fetcher) Fetch(string, time.Duration, time.Duration) (*profile.Profile, string, error) {
	return f.profile, "", nil
}

// symbols keeps the names that a profile has: pprof's own would read binaries.
type symbols struct{}

func (symbols) Symbolize(string, driver.MappingSources, *profile.Profile) error { return nil }

// objects opens no binary, wherever pprof may look for one.
type objects struct{}

var errNoFiles = errors.New("files are not read")

func (objects) Open(string, uint64, uint64, uint64, string) (driver.ObjFile, error) {
	return nil, errNoFiles
}

func (objects) Disasm(string, uint64, uint64, bool) ([]driver.Inst, error) { return nil, errNoFiles }

// quiet is pprof's user interface without a user: what goes wrong with a page is
// in the page.
type quiet struct{}

func (quiet) ReadLine(string) (string, error)     { return "", errors.New("no terminal") }
func (quiet) Print(...any)                        {}
func (quiet) PrintErr(...any)                     {}
func (quiet) IsTerminal() bool                    { return false }
func (quiet) WantBrowser() bool                   { return false }
func (quiet) SetAutoComplete(func(string) string) {}

// pprofFlags are pprof's flags, set by args instead of the command line.
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

// Parse sets the flags from args and returns what is no flag.
func (f *pprofFlags) Parse(func()) []string {
	if err := f.FlagSet.Parse(f.args); err != nil {
		return nil
	}
	return f.Args()
}
