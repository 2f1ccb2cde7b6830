package jscore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testNode checks the report on Node.js itself: leaky.js has an interval of a minute,
// listens to a signal, and has no pending request.
func testNode(t *testing.T, l leaky) {
	handles, err := l.Handles(l.objects)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(handles.Objects, func(o NodeObject) bool { return o.Object.Class == "Signal" })
	if at < 0 {
		t.Fatalf("handles = %+v, want a Signal among them", handles.Objects)
	}
	if got := handles.Objects[at]; got.Type != "signal" || !got.Active || got.Referenced || got.Closing {
		t.Errorf("signal's handle = %+v, want one that is active and not referenced", got)
	}
	like(t, textOf(t, handles, nil), `.*[0-9a-f]+ Signal \(signal, active, unref, wrap: [0-9a-f]+\)
.*`)
	fields, err := V8Internal(l.Heap(), handles.Addresses()[at], -1)
	if err != nil || len(fields.Values) < 2 || fields.Values[1].Address != handles.Objects[at].Wrap {
		t.Errorf("internal fields = %+v, %v, want %v as the second", fields, err, handles.Objects[at].Wrap)
	}
	requests, err := l.Requests(l.objects)
	like(t, textOf(t, requests, err), "no requests\n")
	timers := l.Timers(l.objects)
	like(t, textOf(t, timers, nil), `[0-9a-f]+ interval 60000 ms: [0-9a-f]+ tick at .*leaky.js line \d\d
`)
	testNodeInfo(t, l)
}

func testNodeInfo(t *testing.T, l leaky) {
	info := l.NodeInfo(l.objects, true)
	if diff := cmp.Diff(info.CommandLine, info.Argv); diff != "" || len(info.Argv) != 2 {
		t.Errorf("argv (-command line +argv):\n%s", diff)
	}
	if info.PID != l.Info().PID || len(info.ExecArgv) != 0 || info.Process == 0 || len(info.Trouble) != 0 {
		t.Errorf("info = %+v, want process %d without flags or trouble", info, l.Info().PID)
	}
	if !slices.Contains(info.Versions, NamedText{"v8", info.V8 + info.versionSuffix()}) {
		t.Errorf("versions = %v, want V8 %s among them", info.Versions, info.V8)
	}
	if !slices.ContainsFunc(info.Environment, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		t.Errorf("environment = %q, want a PATH", info.Environment)
	}
	like(t, textOf(t, info, nil), fmt.Sprintf("process: +%d\nnode: +%s\nV8: .*\nplatform: +linux x64\n.*\nenvironment: .*",
		l.Info().PID, info.Node))
	if got := l.NodeInfo(nil, false); got.Process != 0 || got.Environment != nil || len(got.CommandLine) != 2 {
		t.Errorf("info without a heap = %+v, want no process object and no environment", got)
	}
}

// versionSuffix is what Node.js appends to V8's version for its own patches.
func (n *NodeInfo) versionSuffix() string {
	for _, v := range n.Versions {
		if v.Name == "v8" {
			return strings.TrimPrefix(v.Text, n.V8)
		}
	}
	return ""
}

func TestShellWordsAreQuoted(t *testing.T) {
	got := shellWords([]string{"node", "a b", "it's", "", "--x=1", "$HOME"})
	if want := `node 'a b' 'it'\''s' '' --x=1 '$HOME'`; got != want {
		t.Errorf("words = %s, want %s", got, want)
	}
}
