package jscore

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// TestFilesOfOnePathAreDistinguished opens cores and snapshots of processes whose programs have the
// same path and are other files. A core is not read with the file that is at that path here,
// unless it is the same; it is with the one that is given.
func TestFilesOfOnePathAreDistinguished(t *testing.T) {
	twins, folder := nodetest.Twins(t)
	for _, w := range twins {
		path := filepath.Join(t.TempDir(), "core")
		if _, err := core.Write(t.Context(), w.PID, path, core.Options{}); err != nil {
			t.Fatal(err)
		}
		live, err := Attach(t.Context(), w.PID, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer live.Close()
		checkTwin(t, &w, "of a snapshot", live)
		checkTwin(t, &w, "of a core with its own files", opened(t, path, Options{Folders: []string{w.Files}}))
		here := opened(t, path, Options{})
		if w.Files == folder {
			checkTwin(t, &w, "of a core", here)
			continue
		}
		other := slices.ContainsFunc(here.Missing(), func(m Missing) bool {
			return m.What == folder+"/node" && strings.Contains(m.Err.Error(), "build ID")
		})
		if names := named(here, here.Threads()[0]); !other || len(names) > 0 {
			t.Errorf("%s: functions = %q, missing: %v, want none and the program", w.Name, names, here.Missing())
		}
	}
}

// checkTwin checks that the process is what it is, by a dump of it.
func checkTwin(t *testing.T, w *nodetest.Twin, how string, d *Dump) {
	t.Helper()
	if len(d.Missing()) > 0 {
		t.Errorf("%s, %s: missing: %v, want nothing", w.Name, how, d.Missing())
	}
	if b := d.v8.Binary; b == nil || b.NodeVersion != "v"+w.Version {
		t.Errorf("%s, %s: V8 = %+v, want that of Node.js v%s", w.Name, how, b, w.Version)
	}
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := g.Census(t.Context(), CensusOptions{Class: w.Class()}); len(c.Groups) != 1 || c.Groups[0].Count != 1 {
		t.Errorf("%s, %s: objects of class %s = %+v, want one", w.Name, how, w.Class(), c.Groups)
	}
}
