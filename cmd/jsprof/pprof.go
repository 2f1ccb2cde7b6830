package main

import (
	"errors"
	"flag"
	"net/http"
	"os"
	"time"

	"github.com/google/pprof/driver"
	pprof "github.com/google/pprof/profile"

	"ustack/tools/profile"
)

// served are those of pprof's pages that need only the profile. The others open
// files by names in the profile, which the profiled program chooses (/source,
// /disasm), or write the user's settings (/saveconfig, /deleteconfig).
var served = []string{"/", "/download", "/flamegraph", "/graph", "/peek", "/top"}

// hideUnserved hides the links in pprof's pages to pages that are not served.
const hideUnserved = "<style>#list, #disasm, #config, #action-source, #action-source-tab { display: none !important; }</style>"

// pprofPages returns pprof's pages about profiles by path. No page opens a file.
func pprofPages(all []*profile.Profile) (map[string]http.Handler, error) {
	// pprof reads its settings before each page. In this process, their path is
	// one at which no file can exist.
	if err := os.Setenv("XDG_CONFIG_HOME", os.DevNull); err != nil {
		return nil, err
	}
	prof, err := profile.PprofAll(all)
	if err != nil {
		return nil, err
	}
	pages := map[string]http.Handler{}
	err = driver.PProf(&driver.Options{
		// The address is not used: HTTPServer does not listen.
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

// A fetcher gives pprof this profile, whatever it requests.
type fetcher struct{ profile *pprof.Profile }

func (f fetcher) Fetch(string, time.Duration, time.Duration) (*pprof.Profile, string, error) {
	return f.profile, "", nil
}

// symbols keeps a profile's names: pprof's own symbolizer would read binaries.
type symbols struct{}

func (symbols) Symbolize(string, driver.MappingSources, *pprof.Profile) error { return nil }

// objects opens no binary, whatever path pprof requests.
type objects struct{}

var errNoFiles = errors.New("files are not read")

func (objects) Open(string, uint64, uint64, uint64, string) (driver.ObjFile, error) {
	return nil, errNoFiles
}

func (objects) Disasm(string, uint64, uint64, bool) ([]driver.Inst, error) { return nil, errNoFiles }

// quiet is pprof's user interface without a user: errors in a page are shown in
// the page.
type quiet struct{}

func (quiet) ReadLine(string) (string, error)     { return "", errors.New("no terminal") }
func (quiet) Print(...any)                        {}
func (quiet) PrintErr(...any)                     {}
func (quiet) IsTerminal() bool                    { return false }
func (quiet) WantBrowser() bool                   { return false }
func (quiet) SetAutoComplete(func(string) string) {}

// pprofFlags are pprof's flags, set from args instead of the command line.
type pprofFlags struct {
	flag.FlagSet
	args []string
}

// StringList is String, as a list of one.
func (f *pprofFlags) StringList(name, def, usage string) *[]*string {
	return &[]*string{f.String(name, def, usage)}
}

// ExtraUsage returns nothing: nobody reads pprof's usage here.
func (f *pprofFlags) ExtraUsage() string { return "" }

// AddExtraUsage does nothing, for the same reason.
func (f *pprofFlags) AddExtraUsage(string) {}

// Parse sets the flags from args and returns the other arguments.
func (f *pprofFlags) Parse(func()) []string {
	if err := f.FlagSet.Parse(f.args); err != nil {
		return nil
	}
	return f.Args()
}
