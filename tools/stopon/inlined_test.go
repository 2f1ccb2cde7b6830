package stopon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// TestHitsHaveInlinedFunctionsAndLines: TurboFan inlines inner and middle in outer.
func TestHitsHaveInlinedFunctionsAndLines(t *testing.T) {
	nodetest.Root(t)
	script := filepath.Join(t.TempDir(), "inlined.js")
	text := fmt.Sprintf(`const fs = require('fs');
function inner() {
  try { fs.closeSync(9999); } catch { return 0; }
}
function middle() {
  return inner() + 1;
}
function outer() {
  return middle() + 1;
}
for (let i = 0; i < 3; i++) {
  for (const f of [inner, middle, outer]) %%PrepareFunctionForOptimization(f);
  outer();
}
%%OptimizeFunctionOnNextCall(outer);
outer();
require(%q).ready({ pid: process.pid });
setInterval(() => outer(), 20);
`, nodetest.Program("lib/ready"))
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	target := nodetest.Start(t, nodetest.Node(t, nodetest.Versions[4]), nodetest.Options{
		Flags: []string{"--allow-natives-syntax", "--no-concurrent-recompilation"}, Script: script,
	})
	hits := watch(t, target, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}}).end(1)
	if len(hits) == 0 {
		t.Fatal("no hit")
	}
	type at struct {
		Name         string
		Line, Column int
		Inlined      bool
	}
	var got []at
	for _, f := range hits[0].Frames {
		if f.Kind == symbolize.JS && f.File == script && f.Name != "(anonymous)" && f.Name != "Timeout._onTimeout" {
			got = append(got, at{f.Name, f.ExecutingLine, f.ExecutingColumn, f.Inlined})
		}
	}
	want := []at{{"inner", 3, 12, true}, {"middle", 6, 10, true}, {"outer", 9, 10, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
}
