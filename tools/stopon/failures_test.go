package stopon

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

func TestHitsCountWhatCouldNotBeRead(t *testing.T) {
	nodetest.Root(t)
	for name, tt := range map[string]struct {
		depth int
		deep  bool // deeper than what is recorded
	}{"shallow": {1, false}, "deep": {1000, true}} {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "deepclose.js")
			text := fmt.Sprintf(`require(%q).ready({ pid: process.pid });
const fs = require('fs');
function descend(n) {
  if (n > 1) return descend(n - 1) + 1;
  try { fs.closeSync(9999); } catch { return 0; }
}
setInterval(descend, 20, %d);
`, nodetest.Program("lib/ready"), tt.depth)
			if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			target := nodetest.Start(t, nodetest.Node(t, nodetest.Versions[2]), nodetest.Options{Script: script})
			r := watch(t, target, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}})
			hits := r.end(1)
			if len(hits) == 0 {
				t.Fatal("no hit")
			}
			if got := hits[0].Failures["too_deep"] > 0; got != tt.deep {
				t.Errorf("hit counts %v, want too_deep in it: %t", hits[0].Failures, tt.deep)
			}
			if got := r.result.Failures["too_deep"] > 0; got != tt.deep {
				t.Errorf("result counts %v, want too_deep in it: %t", r.result.Failures, tt.deep)
			}
		})
	}
}

func TestFailuresAreAlwaysInJSON(t *testing.T) {
	for _, failures := range []trace.Failures{nil, {"name": 7, "stack": 2}} {
		text, err := json.Marshal(&Hit{Failures: failures})
		if err != nil {
			t.Fatal(err)
		}
		var got struct{ Failures map[string]uint64 }
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatal(err)
		}
		if got.Failures == nil || len(got.Failures) != len(failures) || got.Failures["name"] != failures["name"] {
			t.Errorf("failures = %v in %s, want %v", got.Failures, text, failures)
		}
	}
}
