package check

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

// TestReportIsOfWhatTheToolUses has probes that work and that do not.
func TestReportIsOfWhatTheToolUses(t *testing.T) {
	works := func() (string, error) { return "found", nil }
	fails := func() (string, error) { return "ignored", missing("nothing there", "add it") }
	for name, tt := range map[string]struct {
		probes []probe
		works  bool
		checks []Result
	}{
		"nothing": {nil, true, nil},
		"needed":  {[]probe{{"a", used(always, "x"), works}}, true, []Result{{Name: "a", OK: true, Needed: true, Detail: "found"}}},
		"needed, not there": {
			[]probe{{"a", used(always, "x", "y"), fails}, {"b", used("-p", "x"), works}},
			false,
			[]Result{{Name: "a", Needed: true, Detail: "nothing there (add it)"}, {Name: "b", OK: true, For: "-p", Detail: "found"}},
		},
		"for one use":     {[]probe{{"a", used("-p", "x"), fails}}, true, []Result{{Name: "a", For: "-p", Detail: "nothing there (add it)"}}},
		"for information": {[]probe{{"a", used(informs, "x"), works}}, true, []Result{{Name: "a", OK: true, Detail: "found"}}},
		"of another tool": {[]probe{{"a", used(always, "y"), fails}}, true, nil},
		"of two uses":     {[]probe{{"a", with(used(always, "y"), "x", "-p"), fails}}, true, []Result{{Name: "a", For: "-p", Detail: "nothing there (add it)"}}},
	} {
		t.Run(name, func(t *testing.T) {
			want := Report{Tool: "x", Works: tt.works, Checks: tt.checks}
			if diff := cmp.Diff(want, report("x", tt.probes)); diff != "" {
				t.Errorf("report (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProbesAreNamedApartAndUsed(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range probes() {
		if seen[p.name] || len(p.uses) == 0 {
			t.Errorf("%s is a name of two probes, or no tool uses it", p.name)
		}
		seen[p.name] = true
		for tool := range p.uses {
			if !slices.Contains(all, tool) {
				t.Errorf("%s is for %s, which is no tool", p.name, tool)
			}
		}
	}
}
