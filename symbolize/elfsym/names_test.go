package elfsym_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// TestKnownSymbolsAreTheSame compares symbols that a file has read ahead with those that
// it reads when it is asked.
func TestKnownSymbolsAreTheSame(t *testing.T) {
	for _, path := range []string{nodetest.Node(t, newest), nodetest.Node(t, "16.20.2")} {
		plain, ahead := open(t, path), open(t, path)
		ahead.Expect("_ZN2v88internal7Isolate", "v8dbg_class_")
		ahead.Know("v8dbg_", "napi_get_")
		for _, prefix := range []string{"v8dbg_", "v8dbg_class_", "_ZN2v88internal7Isolate", "napi_get_node_version", "napi_", "uv_"} {
			want := slices.Collect(plain.Symbols(prefix))
			if diff := cmp.Diff(want, slices.Collect(ahead.Symbols(prefix))); diff != "" || len(want) == 0 {
				t.Errorf("%s: Symbols(%q) (-want +got), want some:\n%s", path, prefix, diff)
			}
			for _, s := range want {
				sameSymbol(t, plain, ahead, s.Name)
				sameSymbol(t, plain, ahead, s.Name+"_")
			}
		}
	}
}

func sameSymbol(t *testing.T, plain, ahead *elfsym.File, name string) {
	t.Helper()
	want, wantOK := plain.Symbol(name)
	if got, ok := ahead.Symbol(name); got != want || ok != wantOK {
		t.Errorf("Symbol(%q) = %v, %t, want %v, %t", name, got, ok, want, wantOK)
	}
}

// TestPrefixesMayBeginWithOthers compares the symbols of several prefixes with those of all that have one.
func TestPrefixesMayBeginWithOthers(t *testing.T) {
	f := open(t, nodetest.Node(t, newest))
	all := slices.Collect(f.Symbols("napi_", "uv_"))
	for _, prefixes := range [][]string{
		{"uv_run", "uv_", "uv_r", "uv_tcp_"}, {"napi_get_", "uv_run", "napi_"}, {"uv_run"}, {"uv_run", "uv_run"}, {"~", "uv_tty_", "!"}, nil,
	} {
		var want []elfsym.Symbol
		for _, s := range all {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s.Name, p) }) {
				want = append(want, s)
			}
		}
		if diff := cmp.Diff(want, slices.Collect(f.Symbols(prefixes...))); diff != "" || len(want) == 0 && prefixes != nil {
			t.Errorf("Symbols(%q) (-want +got), want some unless there is no prefix:\n%s", prefixes, diff)
		}
	}
}
