package addonlat

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
)

// TestCommandsAddonsAreLoadedAfterTheAttach: nothing of node is there yet when
// its probes are put in, and the add-ons are loaded later still.
func TestCommandsAddonsAreLoadedAfterTheAttach(t *testing.T) {
	node := prepare(t)
	addon := nodetest.Addon(t, node, "napi.c", nodetest.NoFramePointers)
	script := filepath.Join(t.TempDir(), "late.js")
	text := fmt.Sprintf(`
let left = 31;
const { sleep } = require(%q);
(function next() { if (left-- > 0) sleep(500, next); })();
`, addon)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	m := begin(t, Options{Command: []string{node, script}, Stdout: devNull(t)})
	r := m.wait()
	m.silent()
	if diff := cmp.Diff(map[string]uint64{keys["napi.c"]["sleep"]: 31}, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
}

func TestAddonLoadedLaterIsNamed(t *testing.T) {
	node := prepare(t)
	addon := nodetest.Addon(t, node, "rawuv.cc", nodetest.FramePointers)
	script := filepath.Join(t.TempDir(), "late.js")
	text := fmt.Sprintf(`
process.once('SIGUSR2', () => {
  let left = 31;
  const { sleep } = require(%q);
  (function next() { if (left-- > 0) sleep(500, next); else require('fs').writeSync(1, 'done\n'); })();
});
setInterval(() => {}, 1 << 30);
require('fs').writeSync(1, 'ready\n');
`, addon)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, node, nodetest.Options{Script: script})
	m := begin(t, Options{PIDs: []int{target.PID}})
	target.Signal(syscall.SIGUSR2)
	target.Line()
	r := m.end()
	m.silent()
	if diff := cmp.Diff(map[string]uint64{keys["rawuv.cc"]["sleep"]: 31}, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
}

// TestStrippedNodeShowsWhatItCan: without .symtab only the exported functions of
// libuv are found, so jobs are seen to be submitted and no more.
func TestStrippedNodeShowsWhatItCan(t *testing.T) {
	node := prepare(t)
	stripped := filepath.Join(t.TempDir(), "node")
	if out, err := exec.CommandContext(t.Context(), "strip", "-o", stripped, node).CombinedOutput(); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("strip: %v: %s", err, out))
	}
	jobs := nodetest.StartJobs(t, stripped, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 23}},
	})
	m := begin(t, Options{PIDs: []int{jobs.PID}})
	jobs.Begin()
	jobs.Done()
	r := m.end()
	if len(m.warned) != 1 || !strings.Contains(m.warned[0].Error(), "stripped") {
		t.Errorf("warnings = %v, want one that says what is missing", m.warned)
	}
	if p := pool(t, r); p.Submitted != 23 {
		t.Errorf("submitted = %d, want 23", p.Submitted)
	}
}
