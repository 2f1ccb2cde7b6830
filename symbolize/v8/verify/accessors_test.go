package verify

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// newestNode is the Node.js of the newest release.
const newestNode = "26.10.0"

// newest returns the newest release, for a test to change.
func newest() release.Release {
	all := release.All()
	return *all[len(all)-1]
}

// inspected returns what an official binary says if its V8 is laid out as r says.
func inspected(t testing.TB, f *elfsym.File, r release.Release) *v8.Binary {
	t.Helper()
	b, err := v8.InspectAs(f, &r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCodeOfV8ConfirmsItsLayout(t *testing.T) {
	f := nodetest.OpenELF(t, nodetest.Node(t, newestNode))
	got, err := checkCode(inspected(t, f, newest()), f)
	if err != nil {
		t.Fatal(err)
	}
	want := slices.Sorted(slices.Values(notInCode))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
}

func TestShiftedFieldIsNotWhatTheCodeAccesses(t *testing.T) {
	f := nodetest.OpenELF(t, nodetest.Node(t, newestNode))
	b := inspected(t, f, newest())
	for name, tt := range map[string]struct {
		shift func(l *v8.Layout)
		want  string
	}{
		"VMState":             {func(l *v8.Layout) { l.VMState += 8 }, "the state of collections"},
		"GCState":             {func(l *v8.Layout) { l.GCState += 8 }, "the state of collections"},
		"BuiltinExitFunction": {func(l *v8.Layout) { l.BuiltinExitFunction += 8 }, "frames of functions in C++"},
		"APIExitFunction":     {func(l *v8.Layout) { l.APIExitFunction += 8 }, "frames of functions in C++"},
		"TemplateShared":      {func(l *v8.Layout) { l.TemplateShared += 8 }, "frames of functions in C++"},
		"ExternalData":        {func(l *v8.Layout) { l.ExternalData += 8 }, "texts of an embedder"},
		"ScriptSourceURL":     {func(l *v8.Layout) { l.ScriptSourceURL += 8 }, "names of evaluated scripts"},
		"ScriptSourceMapURL":  {func(l *v8.Layout) { l.ScriptSourceMapURL += 8 }, "source maps"},
		"ScriptType":          {func(l *v8.Layout) { l.ScriptType += 0x80 }, "lines of scripts"},
		"ScriptLineOffset":    {func(l *v8.Layout) { l.ScriptLineOffset += 0x80 }, "lines of scripts"},
		"ScriptColumnOffset":  {func(l *v8.Layout) { l.ScriptColumnOffset += 0x80 }, "lines of scripts"},
		"one line and column": {func(l *v8.Layout) { l.ScriptLineOffset = l.ScriptColumnOffset }, "the same offset"},
		"WasmInstance":        {func(l *v8.Layout) { l.WasmInstance += 8 }, "frames of WebAssembly"},
		"WasmModule":          {func(l *v8.Layout) { l.WasmModule += 8 }, "frames of WebAssembly"},
		"WasmScript":          {func(l *v8.Layout) { l.WasmScript += 8 }, "frames of WebAssembly"},
		"KindBaseline":        {func(l *v8.Layout) { l.KindBaseline++ }, `not "BASELINE"`},
		"KindMaglev":          {func(l *v8.Layout) { l.KindMaglev++ }, `not "MAGLEV"`},
		"KindTurbofan":        {func(l *v8.Layout) { l.KindTurbofan-- }, `not "TURBOFAN_JS"`},
	} {
		shifted := *b
		tt.shift(&shifted.Layout)
		if shifted.Layout == b.Layout {
			t.Errorf("%s is not shifted", name)
		}
		if _, err := checkCode(&shifted, f); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s shifted: %v, want %q", name, err, tt.want)
		}
	}
}

func TestOtherFormOfScopesIsNotWhatTheCodeDecodes(t *testing.T) {
	f := nodetest.OpenELF(t, nodetest.Node(t, newestNode))
	for name, change := range map[string]func(*release.Scopes){
		"limit of names in line": func(s *release.Scopes) { s.MaxInlined++ },
		"variables of modules":   func(s *release.Scopes) { s.ModuleVariables = !s.ModuleVariables },
		"types": func(s *release.Scopes) {
			s.Types = append(slices.Clone(s.Types[1:]), s.Types[0])
		},
	} {
		r := newest()
		change(&r.Scopes)
		const want = "scopes with many variables"
		if _, err := checkCode(inspected(t, f, r), f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("other %s: %v, want %q", name, err, want)
		}
	}
}

// TestFileWithoutAccessorsConfirmsNothing: what a file lacks is not verified, and no error.
func TestFileWithoutAccessorsConfirmsNothing(t *testing.T) {
	b := inspected(t, nodetest.OpenELF(t, nodetest.Node(t, newestNode)), newest())
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	got, err := checkCode(b, nodetest.OpenELF(t, path))
	if err != nil {
		t.Fatal(err)
	}
	want := append(slices.Clone(notInCode), "scopes with many variables", "tiers")
	for _, a := range accessors(&b.Layout, 0) {
		want = append(want, a.of)
	}
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" {
		t.Errorf("unverified (-want +got):\n%s", diff)
	}
}
