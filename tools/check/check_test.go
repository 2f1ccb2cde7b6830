package check

import (
	"errors"
	"strings"
	"testing"
)

func TestPrintIsATableAndAnAnswer(t *testing.T) {
	r := Report{Tool: "jsprof", Version: "1.2.3", Checks: []Result{
		{Name: "kernel", OK: true, Needed: true, Detail: "6.1.0"},
		{Name: "CAP_SYSLOG", For: "--kernel", Detail: "not held\n\t(run as root)"},
	}}
	var out strings.Builder
	if err := r.Print(&out); err != nil {
		t.Fatal(err)
	}
	want := `WORKS  WHAT        NEEDED FOR  FOUND
yes    kernel      everything  6.1.0
NO     CAP_SYSLOG  --kernel    not held (run as root)
jsprof 1.2.3 does not work on this machine, as it is run now.
`
	if got := out.String(); got != want {
		t.Errorf("printed:\n%s\nwant:\n%s", got, want)
	}
	r.Works = true
	out.Reset()
	if err := r.Print(&out); err != nil || !strings.HasSuffix(out.String(), "\njsprof 1.2.3 works on this machine.\n") {
		t.Errorf("printed: %v\n%s", err, out.String())
	}
}

// full is a writer without room.
type full struct{}

var errFull = errors.New("no room")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestPrintReportsAFailedWrite(t *testing.T) {
	if err := (Report{}).Print(full{}); !errors.Is(err, errFull) {
		t.Errorf("error = %v, want %v", err, errFull)
	}
}

func TestToolsWorkIfAllThatTheyNeedDoes(t *testing.T) {
	for _, tool := range all {
		r := Tool(tool)
		if r.Tool != tool || len(r.Checks) < 5 {
			t.Errorf("%s: report of %q with %d checks, want some", tool, r.Tool, len(r.Checks))
		}
		works := true
		for _, c := range r.Checks {
			works = works && (c.OK || !c.Needed)
			if c.Name == "" || c.Detail == "" {
				t.Errorf("%s: %+v, want a name and what was found", tool, c)
			}
			if c.Needed && c.For != "" {
				t.Errorf("%s: %s is needed for everything and for %s", tool, c.Name, c.For)
			}
		}
		if r.Works != works {
			t.Errorf("%s: works = %v, want %v", tool, r.Works, works)
		}
	}
	if r := Tool("sh"); len(r.Checks) > 0 {
		t.Errorf("checks of another tool = %+v, want none", r.Checks)
	}
}
