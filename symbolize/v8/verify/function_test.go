package verify

import (
	"testing"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

func TestDeclarations(t *testing.T) {
	for _, tt := range []struct {
		text, name string
		want       bool
	}{
		{"function name", "name", true},
		{"async function name", "name", true},
		{"function *name", "name", true},
		{"function* name", "name", true},
		{"name = function", "name", true},
		{"name = async function*", "name", true},
		{"name: function", "name", true},
		{"'a name': function", "a name", true},
		{`"a name": async function`, "a name", true},
		{"static async *name", "name", true},
		{"get name", "name", true},
		{"#name", "#name", true},
		{"['name']", "name", true},
		{"'name'", "name", true},
		{"  name \n", "name", true},
		{"function other", "name", false},
		{"other = function", "name", false},
		{"function name2", "name", false},
		{"name = other", "name", false},
		{"", "name", false},
		{"function", "", true},
		{"async function *", "", true},
		{"[Symbol.iterator]", "", true},
		{"function name", "", false},
		{"", "", false},
	} {
		if got := declares(tt.text, tt.name); got != tt.want {
			t.Errorf("declares(%q, %q) = %v, want %v", tt.text, tt.name, got, tt.want)
		}
	}
}

// TestFunctionsHaveTheirForms compares the forms of functions with those that a program
// says, in each release.
func TestFunctionsHaveTheirForms(t *testing.T) {
	nodetest.EachNode(t, func(t *testing.T, path string) {
		f := nodetest.OpenELF(t, path)
		b, err := v8.Inspect(f)
		if err != nil {
			t.Fatal(err)
		}
		p := nodetest.Pause(t, path, "--allow-natives-syntax", "testdata/forms.js")
		h, err := v8.NewHeap(p.Memory, b)
		if err != nil {
			t.Fatal(err)
		}
		type function struct{ Form string }
		n := nodetest.Described(t, p, func(want function, addr uint64) {
			fn, err := h.Object(v8.Ref(addr))
			if err != nil {
				t.Fatal(err)
			}
			form, err := formOf(h, fn)
			if err != nil || (form == bodied) != (want.Form == "bodied") || (form == otherForm) != (want.Form == "other") {
				t.Errorf("form of the function at %#x = %d, %v, want %s", addr, form, err, want.Form)
			}
			if _, ok, err := checkFunction(h, fn); ok || err != nil { // it is the program's
				t.Errorf("the function at %#x is of Node.js: %v, %v", addr, ok, err)
			}
			if id, ok, err := builtinOf(h, fn); ok || err != nil {
				t.Errorf("the function at %#x is builtin %d: %v, %v", addr, id, ok, err)
			}
			if shared, err := h.SharedOf(fn); err != nil || checkData(h, shared) != nil {
				t.Errorf("data of the function at %#x: %v, %v", addr, err, checkData(h, shared))
			}
			script, err := h.Function(fn)
			if err != nil || checkScript(h, v8.Value(script.Script)) != nil {
				t.Errorf("script of the function at %#x: %v, %v", addr, err, checkScript(h, v8.Value(script.Script)))
			}
			if err := checkScript(h, fn.Ref()); err == nil {
				t.Errorf("the function at %#x is a script", addr)
			}
		})
		if n < 10 {
			t.Errorf("functions = %d, want 10", n)
		}
	})
}
