package jsscope

import (
	"strings"
	"testing"
	"unicode/utf16"
)

// registers returns the names of a function's registers, in order, with "-" for those
// without a name.
func registers(v *Variables) string {
	names := make([]string, v.Registers)
	var visit func(s *scope)
	visit = func(s *scope) {
		for _, variable := range s.variables {
			if variable.register >= 0 {
				names[variable.register] = variable.name
			}
		}
		for _, inner := range s.inner {
			if inner.kind != functionScope {
				visit(inner)
			}
		}
	}
	visit(v.root)
	for i := range names {
		if names[i] == "" {
			names[i] = "-"
		}
	}
	return strings.Join(names, " ")
}

// TestRegistersAreThoseOfV8 compares with what node --print-bytecode prints.
func TestRegistersAreThoseOfV8(t *testing.T) {
	for _, tt := range []struct{ kind, text, parameters, registers, shared string }{
		{"function", "(a, b) { return a + b }", "a b", "", ""},
		{
			"function", "(p, {q, r}, s = 3, ...rest) { let u = f(); { const v = f(); { let w = f(); } } { let x = f(); } for (const k of [1,2]) { let y = f(); } }",
			"p  s rest", "p q r s rest - - u k k y x v w", "",
		},
		{
			"function", "() { let unused; let z = f(1); var un2; class A { } class B { m() { return B } } let C = class D {}; function g() {} let last = f(z); return last; }",
			"", "unused z A B C last", "",
		},
		{
			"function", "() { let a = f(); for (let i = 0, j = 1; i < 2; i++) { const h = () => i; f(h); } let d = f(); for (const q = 1; f() > 2; ) { let z = () => q; } return a + d; }",
			"", "a - - - - d - - q z i j j h", "",
		},
		{"arrow", "(u, v) => { let sum = u + v + cap.a; switch (u) { case 1: { let s1 = 'one'; last(s1, sum); } } return sum }", "u v", "sum s1", ""},
		{"async arrow", "(k, p = 3, ...r) => { let a = 1; for (let i of [1]) { let d = 3 } var v = 2; }", "k p r", "k p r - - - a v i i d", ""},
		{"arrow", "(k) => { { for (var i of [1]) { } var v = 2; } { let u = 4; } }", "k", "i v - u", ""},
		{"function", "() { let a = 1; switch (f()) { case 1: let u = 3; default: { let d = 4 } } let b = 5; }", "", "a - b u d", ""},
		{"function", "() { let a = 1; for (;;) { var v = 2; let un; var un2; break; } let b = 5; }", "", "a v b un", ""},
		{"function", "() { if (f()) { function z() {} let d = 2; } { function y() {} let d = 3; } let b = 5; }", "", "b z y y d z d", ""},
		{"arrow", "x => y => x + y", "x", "", "x"},
		{
			"method", "(loud, { length }, ...more) { let total = 0; for (const [i, m] of more.entries()) { const both = i + m; total += both; if (i == 1) inner.call({q: 1}, 'a', both); } return total; }",
			"loud  more", "loud length more - - total i m i m both", "",
		},
	} {
		got, err := Analyze(Function{Text: utf16.Encode([]rune(tt.text)), Kind: tt.kind})
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
			continue
		}
		for _, part := range []struct{ what, got, want string }{
			{"parameters", strings.Join(got.Parameters, " "), tt.parameters},
			{"registers", registers(got), tt.registers},
			{"shared", strings.Join(got.Shared, " "), tt.shared},
		} {
			if part.got != part.want {
				t.Errorf("%s: %s = %q, want %q", tt.text, part.what, part.got, part.want)
			}
		}
	}
}

func TestVariablesAreVisibleOnceTheyHaveValues(t *testing.T) {
	const text = "(a) { let b = f(); { let a = g(), c; h(); } }"
	v, err := Analyze(Function{Text: utf16.Encode([]rune(text)), Kind: "function"})
	if err != nil {
		t.Fatal(err)
	}
	for call, want := range map[string]string{"f()": "a b?", "g()": "a? c? b", "h()": "a c b"} {
		var names []string
		for _, l := range v.At(strings.Index(text, call)) {
			name := l.Name
			if l.Unset {
				name += "?"
			}
			names = append(names, name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("visible at %s = %q, want %q", call, got, want)
		}
	}
}

func TestTextIsRefused(t *testing.T) {
	for _, text := range []string{
		"() { eval(x) }", "() { with (x) { } }", "() { let a = ; }", "() {", "", "() { /* }", "() { `${ }", strings.Repeat("(", 1<<16), "() {" + strings.Repeat("[", 1<<16),
	} {
		if _, err := Analyze(Function{Text: utf16.Encode([]rune(text)), Kind: "function"}); err == nil {
			t.Errorf("%.20s: no error", text)
		}
	}
}

func FuzzAnalyze(f *testing.F) {
	for _, text := range []string{
		"(a, {b, c: [d = 1]}, ...e) { for (const [x, y] of a) { let z = () => x; } switch (a) { case 1: let u } try { } catch ({m}) { } }",
		"async (x) => { class A extends B { #p = 1; static { } get y() { return super.y } } }", "a => b => `x${a}${{b}}` / /[/]/g",
	} {
		f.Add(text, "function", 7)
		f.Add(text, "arrow", 7)
	}
	f.Fuzz(func(t *testing.T, text, kind string, at int) {
		v, err := Analyze(Function{Text: utf16.Encode([]rune(text)), Kind: kind})
		if err != nil {
			return
		}
		for _, l := range v.At(at) {
			if l.Register >= v.Registers {
				t.Errorf("%s is in register %d of %d", l.Name, l.Register, v.Registers)
			}
			v.Free(l.Name)
		}
	})
}
