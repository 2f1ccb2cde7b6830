package profile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
)

// two is a profile of two processes, of which one is known.
func two() *Profile {
	frames := []symbolize.Frame{{Kind: symbolize.JS, Name: "work", File: "/srv/a.js", Line: 3, Column: 5}}
	return &Profile{
		Node: "v22.23.3", V8: "12.4", Hz: 99, Total: 40,
		Processes: []Process{{PID: 1, Title: "sh 1"}, {PID: 1, Title: "node 1 a;b.js", Node: "v18.20.8", V8: "10.2"}},
		Stacks: []Stack{
			{Value: 10, PID: 1, TID: 1, Frames: frames},
			{Value: 30, PID: 2, TID: 2, Frames: frames},
		},
	}
}

// TestProcessesAreKeptApart checks the formats that people read, and that the
// program which a process has come to is the one that is named.
func TestProcessesAreKeptApart(t *testing.T) {
	for format, want := range map[string][]string{
		"top": {
			"2 processes, 40 samples at 99 Hz", "75.0%  process 2\n",
			"25.0%  node 1 a;b.js, Node.js v18.20.8, V8 10.2\n",
			" 100.0%        10 100.0%  100.0%  work", " 100.0%        30 100.0%  100.0%  work",
		},
		"collapsed":  {"node 1 a:b.js, Node.js v18.20.8, V8 10.2;work /srv/a.js:3:5 10\n", "process 2;work /srv/a.js:3:5 30\n"},
		"svg":        {`data-name="process 2"`, `data-name="node 1 a;b.js, Node.js v18.20.8, V8 10.2"`},
		"html":       {`"process 2"`, `"node 1 a;b.js, Node.js v18.20.8, V8 10.2"`},
		"speedscope": {`"name":"1/1, Node.js v18.20.8, V8 10.2, 99 Hz"`, `"name":"2/2, 99 Hz"`},
		"json": {
			`"processes":[{"pid":2,"title":"process 2","node":"","v8":"","samples":30},` +
				`{"pid":1,"title":"node 1 a;b.js","node":"v18.20.8","v8":"10.2","samples":10}]`,
		},
	} {
		f, err := Lookup(format)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := f.Write(&out, two(), Options{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s has no %q in\n%.2000s", format, want, out.String())
			}
		}
	}
}

func TestPprofNamesVersions(t *testing.T) {
	one := two()
	one.Stacks = one.Stacks[:1]
	for name, test := range map[string]struct {
		of   *Profile
		want []string
	}{
		"one process":   {one, []string{"Node.js v22.23.3, V8 12.4, 40 samples at 99 Hz"}},
		"two processes": {two(), []string{"2 processes, 40 samples at 99 Hz, 2 threads", "process 2", "node 1 a;b.js, Node.js v18.20.8, V8 10.2"}},
	} {
		if diff := cmp.Diff(test.want, pprofOf([]*Profile{test.of}).Comments); diff != "" {
			t.Errorf("%s: comments (-want +got):\n%s", name, diff)
		}
	}
}

func TestOneProcessIsNoRoot(t *testing.T) {
	p := two()
	p.Stacks = p.Stacks[:1]
	if got := len(p.rooted().Stacks[0].Frames); got != 1 {
		t.Errorf("frames = %d, want 1", got)
	}
}
