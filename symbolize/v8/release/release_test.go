package release

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// version parses a version of two to four numbers.
func version(t *testing.T, text string) (v Version) {
	t.Helper()
	numbers := []*int{&v.Major, &v.Minor, &v.Build, &v.Patch}
	parts := strings.Split(text, ".")
	if len(parts) < 2 || len(parts) > len(numbers) {
		t.Fatalf("version %q has %d numbers, want 2 to 4", text, len(parts))
	}
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil {
			t.Fatal(err)
		}
		*numbers[i] = n
	}
	return v
}

func TestVersionsWithoutMeasuredLayoutAreUnknown(t *testing.T) {
	for _, tt := range []struct {
		version string
		want    bool
	}{
		{"9.0.257.17", false},
		{"9.4.146.26", true},
		{"10.1.124.8", true},
		{"10.2.154.26", true},
		{"9.5.172.21", true},
		{"9.6.180.15", true},
		{"10.3", false},
		{"10.7.193.13", true},
		{"10.8.168.25", true},
		{"11.3.244.8", true},
		{"11.8.172.17", true},
		{"12.4.254.21", true},
		{"12.7", false},
		{"12.9.202.28", true},
		{"13.6.233.17", true},
		{"14.1.146.11", true},
		{"14.2", false},
		{"14.6.202.34", true},
		{"15.0", false},
	} {
		v := version(t, tt.version)
		r, err := For(v)
		if (err == nil) != tt.want || err == nil && r.Version != v {
			t.Errorf("For(%v) = %+v, %v, want success: %t", v, r, err, tt.want)
		}
		var unknown *UnknownVersionError
		if err != nil && (!errors.As(err, &unknown) || unknown.Version != v) {
			t.Errorf("For(%v): %v, want an UnknownVersionError of it", v, err)
		}
	}
}

func TestUnknownVersionErrorNamesWhatIsKnown(t *testing.T) {
	const want = "V8 15.0.1.2 has a layout not known here (known: Node.js 16.20, 17, 18, 19, 20, 21, 22, 23, 24, 25 and 26)"
	if got := (&UnknownVersionError{Version: version(t, "15.0.1.2")}).Error(); got != want {
		t.Errorf("error = %q, want %q", got, want)
	}
}

func TestNewestReleaseIsAssumedOfNewerVersionsOnly(t *testing.T) {
	for text, want := range map[string]bool{"15.0": true, "14.7.1.1": true, "14.2": false, "13.0.245.12": false, "8.0": false} {
		_, err := For(version(t, text))
		var unknown *UnknownVersionError
		if !errors.As(err, &unknown) || (unknown.Assumed != nil) != want {
			t.Errorf("For(%s): %+v, want the newest release assumed: %t", text, unknown, want)
			continue
		}
		if want && unknown.Assumed.Node != "26" {
			t.Errorf("For(%s) assumes Node.js %s, want the newest", text, unknown.Assumed.Node)
		}
	}
}

func TestReleasesAreInOrderAndKnownOnce(t *testing.T) {
	for i, r := range All() {
		if r.Version.Build != 0 || r.Version.Patch != 0 || r.Node == "" {
			t.Errorf("release %v of Node.js %q: want a major and a minor version, and a Node.js", r.Version, r.Node)
		}
		if i > 0 && All()[i-1].Version.compare(r.Version) >= 0 {
			t.Errorf("release %v follows %v", r.Version, All()[i-1].Version)
		}
		if !slices.IsSortedFunc(r.Before, func(a, b Change) int { return b.Version.compare(a.Version) }) {
			t.Errorf("release %v: changes are not newest first", r.Version)
		}
	}
}

func TestTypesAreNamedOnce(t *testing.T) {
	for _, r := range All() {
		names := map[uint16]string{}
		for name, n := range r.Types {
			if other := names[n]; other != "" {
				t.Errorf("V8 %v: type %d is both %s and %s", r.Version, n, name, other)
			}
			names[n] = name
		}
		if len(names) < 40 {
			t.Errorf("V8 %v: types named = %d, want 40 or more", r.Version, len(names))
		}
	}
}

func TestFieldsAreThoseOfTheVersion(t *testing.T) {
	for _, tt := range []struct {
		version, field string
		want           uint16
		ok             bool
	}{
		{"10.1.124.8", "JSArray.length", 24, true},
		{"12.4.254.21", "JSModuleNamespace.module", 24, true},
		{"13.6.233.17", "JSModuleNamespace.module", 32, true},
		{"9.4.146.26", "JSArrayBufferView.bit_field", 0, false},
		{"14.6.202.34", "JSArray.width", 0, false},
	} {
		r, err := For(version(t, tt.version))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := r.Fields[tt.field]; got != tt.want || ok != tt.ok {
			t.Errorf("%s in V8 %s = %d, %t, want %d, %t", tt.field, tt.version, got, ok, tt.want, tt.ok)
		}
	}
}

func TestPatchLevelsOfAReleaseMayDiffer(t *testing.T) {
	for text, want := range map[string]bool{
		"13.6.233.8": false, "13.6.233.10": false, "13.6.233.11": true, "13.6.233.17": true, "13.6.0.0": false,
	} {
		r, err := For(version(t, text))
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Sizes.FreeSpaceInWords; got != want {
			t.Errorf("V8 %s counts free space in words = %t, want %t", text, got, want)
		}
	}
}

func TestReleasesAreComplete(t *testing.T) {
	for _, r := range All() {
		for what, ok := range map[string]bool{
			"names of spaces":            len(r.Pages.Spaces) > 0 && r.Pages.Spaces[0] == "readonly",
			"scope types":                slices.Contains(r.Scopes.Types, "module"),
			"scope types with positions": r.Scopes.Positions != 0 || subset(r.Scopes.TypesWithPositions, r.Scopes.Types),
			"types of typed arrays":      len(r.Objects.ElementsTypes) >= 11 && r.Objects.ElementsKind > 0,
			"embedder fields":            r.Objects.EmbedderFields > 0,
			"isolate":                    r.Isolate.GCCount > 0 && r.Isolate.GCState > 0 && r.Isolate.VMState > 0,
			"dispatch table":             r.Functions.DispatchHandle == (r.Isolate.DispatchTable != Place{}),
			"frames":                     r.Frames.ExitReceiver > 0 && r.Frames.BuiltinExitFunction > 0 && r.Frames.RegExpArgument > 0,
			"scripts":                    r.Scripts.ID > 0 && r.Scripts.SourceURL > 0 && r.Scripts.SourceMapURL > 0,
			"positions":                  r.Code.Deopt > 0 && r.Code.Positions > 0 && r.Code.DeoptInlinings > 0,
			"bytecodes":                  r.Fields["BytecodeArray.data"] == uint16(r.Sizes.BytecodeArray),
			"WebAssembly":                r.Wasm.Module > 0 && r.Wasm.Script > 0 && r.Wasm.KindBits > 0,
		} {
			if !ok {
				t.Errorf("V8 %v: %s are missing or do not agree", r.Version, what)
			}
		}
	}
}

// subset reports whether names is not empty and all of them are among others.
func subset(names, others []string) bool {
	return len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(others, n) })
}
