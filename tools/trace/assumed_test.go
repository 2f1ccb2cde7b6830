package trace

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ustack/bpf"
	"ustack/symbolize/process"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
	"ustack/testdata/nodetest"
)

// newerNode is a Node.js whose V8 reports version 15.0, which has no release.
func newerNode(t *testing.T) string {
	t.Helper()
	return nodetest.NodeOfV8(t, "26.10.0", 15, 0)
}

// startNewer starts a program on newerNode, and returns it and its file as a table would
// describe them.
func startNewer(t *testing.T, o nodetest.Options) *target {
	t.Helper()
	node := newerNode(t)
	n := nodetest.Start(t, node, o)
	p, err := process.Open(n.PID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	file, err := os.Open(node)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	b := &binary{path: node, file: file}
	if err := b.read(); err != nil {
		t.Fatal(err)
	}
	if b.assumed == nil || b.v8 == nil {
		t.Fatalf("the file of V8 15.0: assumed = %v, V8 = %v, want both", b.assumed, b.v8)
	}
	return &target{process: p, binary: b, code: []mapping{{Mapping: process.Mapping{Start: 1, End: 2}}}}
}

// TestNewerV8IsVerified verifies the newest layout on processes that run meanwhile.
func TestNewerV8IsVerified(t *testing.T) {
	const times = 5
	for _, o := range []nodetest.Options{
		{Script: "census.js", Args: []string{"1000", "0", "-"}}, // idle
		{Script: "purecpu.js"},
		{Script: "churn.js", Flags: []string{"--max-semi-space-size=1"}},
	} {
		t.Run(o.Script, func(t *testing.T) {
			p := startNewer(t, o)
			for range times {
				p.verified, p.verifications = false, 0
				table := NewTable(Maps{})
				for range 2 { // the second time, it is known
					if ready, err := table.verify(p); !ready || err != nil {
						t.Fatalf("verify = %v, %v, want true", ready, err)
					}
				}
				const want = "it is read as that of Node.js 26"
				if got := table.Diagnostics(); len(got) != 1 || !strings.Contains(got[0].Error(), want) || p.verifications != 1 {
					t.Fatalf("diagnostics = %v after %d verifications, want one with %q after one", got, p.verifications, want)
				}
			}
		})
	}
}

// TestNewerV8IsVerifiedOnceItHasStarted verifies a process that has no memory for code yet.
func TestNewerV8IsVerifiedOnceItHasStarted(t *testing.T) {
	p, table := startNewer(t, nodetest.Options{Script: "purecpu.js"}), NewTable(Maps{})
	started := p.code
	p.code = []mapping{{Mapping: file(0x1000, 0x2000, "/bin/node")}}
	if ready, err := table.verify(p); ready || err != nil || p.verifications > 0 || len(table.Diagnostics()) > 0 {
		t.Errorf("before it has started: ready %v, error %v, %d verifications", ready, err, p.verifications)
	}
	p.code = started
	if ready, err := table.verify(p); !ready || err != nil {
		t.Errorf("once it has started: ready %v, error %v, want true", ready, err)
	}
}

// refusedBy has the checks that refuse a layout in which a field of the release is shifted,
// by group or by field.
var refusedBy = map[string]string{
	"Isolate":                         "code of V8",
	"Frames":                          "code of V8",
	"Functions.Code":                  "code of functions",
	"Functions.DispatchHandle":        "code of functions",
	"Functions.SharedData":            "functions of Node.js",
	"Functions.BuiltinID":             "builtins",
	"Functions.TemplateShared":        "code of V8",
	"Functions.MemberInitializerKind": "kinds of functions",
	"Code.StartIsPointer":             "code of functions",
	"Code":                            "code of V8",
	"Strings":                         "code of V8",
	"Scripts":                         "code of V8",
	"Scripts.ID":                      "functions of Node.js",
	"Scopes":                          "functions of Node.js",
	"Scopes.MaxInlined":               "code of V8",
	"Scopes.ModuleVariables":          "code of V8",
	"Scopes.Types":                    "code of V8",
	"Wasm":                            "code of V8",
	"Pages":                           "pages",
}

// notRefused has the fields that nothing in a process without such objects can tell.
var notRefused = map[string]string{
	"Pages.Flags":                     "no tool reads them of a process that runs",
	"Frames.RegExpArgument":           "a slot of frames of regular expressions: its object has a type, so another is not taken for it",
	"Functions.DebugInfoScript":       "absent in the newest release: without it, a function under a debugger has no script",
	"Functions.StaticInitializerKind": "Node.js itself has no initializers of static fields",
	"Wasm.KindBits":                   "tiers of WebAssembly, which Node.js itself has not",
}

// TestNewerV8IsRefusedIfAFieldIsShifted verifies layouts in each of which one field of the
// release differs from the process's.
func TestNewerV8IsRefusedIfAFieldIsShifted(t *testing.T) {
	p := startNewer(t, nodetest.Options{Script: "purecpu.js"})
	used := 0
	for _, path := range releaseFields() {
		name := fieldPath(path)
		r := *p.binary.assumed.Assumed
		if !shift(reflect.ValueOf(&r).Elem().FieldByIndex(path), path) {
			continue
		}
		b, err := v8.InspectAs(p.binary.elf, &r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b.Layout == p.binary.v8.Layout && !strings.HasPrefix(name, "Pages") { // the file itself has it
			continue
		}
		used++
		shifted := *p.binary
		shifted.v8 = b
		other, table := &target{process: p.process, binary: &shifted, code: p.code}, NewTable(Maps{})
		ready, err := table.verify(other)
		if _, ok := notRefused[name]; ok {
			continue
		}
		group, _, _ := strings.Cut(name, ".")
		want := refusedBy[name]
		if want == "" {
			want = refusedBy[group]
		}
		if err == nil || ready || want == "" || !strings.Contains(err.Error(), "Node.js 26: "+want+":") {
			t.Errorf("%s shifted: ready %v, %v, want refused by %q", name, ready, err, want)
		}
		if got := table.Diagnostics(); len(got) > 0 {
			t.Errorf("%s shifted: diagnostics = %v, want none", name, got)
		}
	}
	if least := len(refusedBy) + len(notRefused); used < least {
		t.Errorf("%d fields of a release are used, want %d and more", used, least)
	}
}

// releaseFields returns the indexes of the fields of a release that a layout depends on.
func releaseFields() [][]int {
	var fields [][]int
	var add func(t reflect.Type, path []int)
	add = func(t reflect.Type, path []int) {
		if t.Kind() != reflect.Struct {
			fields = append(fields, path)
			return
		}
		for i := range t.NumField() {
			add(t.Field(i).Type, append(slices.Clone(path), i))
		}
	}
	of := reflect.TypeFor[release.Release]()
	for _, group := range []string{"Isolate", "Frames", "Functions", "Code", "Strings", "Scripts", "Scopes", "Wasm", "Pages"} {
		f, _ := of.FieldByName(group)
		add(f.Type, f.Index)
	}
	return fields
}

// fieldPath returns a field's name with those of the structs it is in.
func fieldPath(path []int) string {
	var names []string
	for i := range path {
		names = append(names, reflect.TypeFor[release.Release]().FieldByIndex(path[:i+1]).Name)
	}
	return strings.Join(names, ".")
}

// shift changes a field's value: an offset by a word, the number of a word or of a kind by
// one, a list by one place. It reports whether the field has a value to change.
func shift(field reflect.Value, path []int) bool {
	by := int64(1)
	switch name := fieldPath(path); {
	case strings.HasPrefix(name, "Scopes."), strings.HasSuffix(name, "Kind"), strings.HasSuffix(name, "Bits"):
	case name == "Code.Maglev", name == "Code.Turbofan":
	default:
		by = 8
	}
	switch {
	case field.CanInt():
		field.SetInt(field.Int() + by)
	case field.CanUint():
		field.SetUint(field.Uint() + uint64(by))
	case field.Kind() == reflect.Bool:
		field.SetBool(!field.Bool())
	case field.Kind() == reflect.Slice && field.Len() > 0:
		list := slices.Clone(field.Interface().([]string))
		field.Set(reflect.ValueOf(append(list[1:], list[0])))
	default:
		return false
	}
	return true
}

// TestNewerV8IsAddedOrRefused adds a process to a table as the tools do, once with the
// layout that it has and once with one that it has not.
func TestNewerV8IsAddedOrRefused(t *testing.T) {
	node := nodetest.Start(t, newerNode(t), nodetest.Options{Script: "purecpu.js"})
	for _, tt := range []struct {
		name, want string
		shift      uint16
		v8         uint32
	}{
		{"its own layout", "it is read as that of Node.js 26", 0, 1},
		{"another layout", "functions of Node.js", 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := *newest(t)
			made.Version.Minor++
			made.Scopes.Positions += tt.shift
			t.Cleanup(release.Register(made))
			s := openSampled(t, Options{}, Tool{})
			err := s.Table.AddV8(node.PID)
			diagnostics := errors.Join(append(s.Table.Diagnostics(), err)...)
			if (err == nil) != (tt.v8 == 1) || diagnostics == nil || !strings.Contains(diagnostics.Error(), tt.want) {
				t.Errorf("add: %v, diagnostics %v, want %q", err, diagnostics, tt.want)
			}
			if err := s.Table.Add(node.PID); err != nil {
				t.Fatal(err)
			}
			var d bpf.TraceProcess
			if err := s.objects.Processes.Lookup(uint32(node.PID), &d); err != nil {
				t.Fatal(err)
			}
			if d.HasV8 != tt.v8 || d.RangeCount == 0 {
				t.Errorf("the kernel knows of V8: %d, of %d ranges of code; want %d, and some", d.HasV8, d.RangeCount, tt.v8)
			}
		})
	}
}

// newest returns the newest release.
func newest(t *testing.T) *release.Release {
	t.Helper()
	all := release.All()
	return all[len(all)-1]
}
