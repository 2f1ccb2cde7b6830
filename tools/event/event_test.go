package event

import "testing"

func TestFunctions(t *testing.T) {
	for text, want := range map[string]Function{
		"libc.so.6:malloc":       {Object: "libc.so.6", Symbol: "malloc"},
		"malloc":                 {Symbol: "malloc"},
		"node::fs::Open":         {Symbol: "node::fs::Open"},
		"node:node::fs::Open":    {Object: "node", Symbol: "node::fs::Open"},
		"/usr/bin/node:uv_chdir": {Object: "/usr/bin/node", Symbol: "uv_chdir"},
		"node:":                  {Object: "node"},
	} {
		if got := ParseFunction(text); got != want {
			t.Errorf("ParseFunction(%q) = %+v, want %+v", text, got, want)
		}
	}
}
