package stopon

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// starting is a program whose start takes until there is a file, and 300 ms more.
// Then its event loop stalls, for as long.
const starting = `
const fs = require('fs');
function busy(milliseconds) { for (const end = Date.now() + milliseconds; Date.now() < end;); }
function startUp() {
  while (!fs.existsSync(process.argv[2])) busy(1);
  busy(300);
}
function guilty() { busy(300); }
fs.writeSync(1, 'ready\n');
startUp();
setTimeout(() => { guilty(); setInterval(() => {}, 1000); }, 10);
`

// TestStartIsNoStall watches a process that was started before, but has not polled yet.
func TestStartIsNoStall(t *testing.T) {
	nodetest.Root(t)
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			script, file := filepath.Join(t.TempDir(), "starting.js"), filepath.Join(t.TempDir(), "go")
			if err := os.WriteFile(script, []byte(starting), 0o600); err != nil {
				t.Fatal(err)
			}
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: script, Args: []string{file}})
			if hasPolled(target.PID) {
				t.Error("it has polled, as far as can be seen, want not yet")
			}
			r := watch(t, target, Options{Stall: 100 * time.Millisecond})
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			stalls := r.endWhen(func(hits []*Hit) bool {
				return slices.ContainsFunc(hits, func(h *Hit) bool { return slices.Contains(javascript(h), "guilty") })
			})
			for _, h := range stalls {
				if slices.Contains(javascript(h), "startUp") {
					t.Errorf("%s in %v, want none before the first poll", h.Event, javascript(h))
				}
			}
			if !hasPolled(target.PID) {
				t.Error("it has not polled, as far as can be seen, want it to have")
			}
		})
	}
}
