package jscore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// testNode checks what is written about Node.js itself: leaky.js has an interval of a
// minute, listens to a signal, and has no pending request.
func testNode(t *testing.T, l leaky) {
	handles, err := l.Handles(l.objects)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(handles.Objects, func(o NodeObject) bool { return o.Object.Class == "Signal" })
	if at < 0 {
		t.Fatalf("handles = %+v, want a Signal among them", handles.Objects)
	}
	like(t, textOf(t, handles, nil), `.*[0-9a-f]+ Signal \(signal, active, unref, wrap: [0-9a-f]+\)
.*`)
	fields, err := V8Internal(l.Heap(), handles.Addresses()[at], -1)
	if err != nil || len(fields.Values) < 2 || fields.Values[1].Address != handles.Objects[at].Address {
		t.Errorf("internal fields = %+v, %v, want %v as the second", fields, err, handles.Objects[at].Address)
	}
	requests, err := l.Requests(l.objects)
	like(t, textOf(t, requests, err), "no requests\n")
	timers := l.Timers(l.objects)
	like(t, textOf(t, timers, nil), `[0-9a-f]+ interval 60000 ms: [0-9a-f]+ tick at .*leaky.js line \d\d
`)
	info := l.NodeInfo(l.objects, true)
	if info.PID != l.Info().PID {
		t.Errorf("PID = %d, want %d", info.PID, l.Info().PID)
	}
	if !slices.ContainsFunc(info.Environment, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		t.Errorf("environment = %q, want a PATH", info.Environment)
	}
	like(t, textOf(t, info, nil), fmt.Sprintf("process: +%d\nnode: +%s\nV8: .*\nplatform: +linux x64\n.*\nenvironment: .*",
		l.Info().PID, info.Node))
	if got := l.NodeInfo(nil, false); got.Process != 0 || got.Environment != nil || len(got.CommandLine) < 2 {
		t.Errorf("info without a heap = %+v, want a command line, no process object and no environment", got)
	}
}

func TestShellWordsAreQuoted(t *testing.T) {
	got := shellWords([]string{"node", "a b", "it's", "", "--x=1", "$HOME"})
	if want := `node 'a b' 'it'\''s' '' --x=1 '$HOME'`; got != want {
		t.Errorf("words = %s, want %s", got, want)
	}
}
