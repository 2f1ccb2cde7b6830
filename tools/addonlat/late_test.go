package addonlat

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// TestCommandsAddonsAreLoadedAfterTheAttach: node has executed nothing when its probes
// are attached, and the add-ons are loaded later still.
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
	m := begin(t, Options{Selection: trace.Selection{Command: []string{node, script}, Stdout: devNull(t)}})
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
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
	target.Signal(syscall.SIGUSR2)
	target.Line()
	r := m.end()
	m.silent()
	if diff := cmp.Diff(map[string]uint64{keys["rawuv.cc"]["sleep"]: 31}, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
}
