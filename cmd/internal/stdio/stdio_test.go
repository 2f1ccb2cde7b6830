package stdio_test

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestClosedStreamsAreErrors(t *testing.T) {
	program := filepath.Join(t.TempDir(), "jsprof")
	build := exec.Command("go", "build", "-ldflags", "-E ustack_entry", "-o", program, "ustack/cmd/jsprof")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
	}
	for _, tt := range []struct {
		redirections string
		stderr       string
		ok           bool
	}{
		{redirections: "", ok: true},
		{redirections: ">/dev/null 2>/dev/null", ok: true},
		{redirections: "1<>/dev/null 2<>/dev/null", ok: true},
		{redirections: ">&-", stderr: "standard output is closed"},
		{redirections: "2>&-"},
		{redirections: ">&- 2>&-"},
	} {
		t.Run(tt.redirections, func(t *testing.T) {
			var stderr bytes.Buffer
			run := exec.Command("sh", "-c", program+" --version "+tt.redirections)
			run.Stdout, run.Stderr = new(bytes.Buffer), &stderr
			err := run.Run()
			if (err == nil) != tt.ok {
				t.Errorf("exit: %v, want success %t", err, tt.ok)
			}
			if !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("stderr = %q, want %q in it", stderr.String(), tt.stderr)
			}
		})
	}
}
