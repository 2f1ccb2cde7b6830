package nodetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Killed returns the path of the kernel's core of a program that is killed by a signal, and its
// PID.
func Killed(t *testing.T, node string, args ...string) (core string, pid int) {
	t.Helper()
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil || strings.ContainsAny(string(pattern), "|/%") {
		MustRun(t, "cores go elsewhere: "+strings.TrimSpace(string(pattern)))
	}
	folder := t.TempDir()
	limited := exec.CommandContext(t.Context(), "bash",
		append([]string{"-c", `ulimit -c unlimited; exec "$@"`, "-", node}, args...)...)
	limited.Dir = folder
	limited.Env = append(os.Environ(), "OF_THE_TEST=1")
	if err := limited.Run(); err == nil {
		t.Fatal("the program has ended by itself")
	}
	cores, _ := filepath.Glob(filepath.Join(folder, "core*"))
	if len(cores) != 1 {
		MustRun(t, "no core was written")
	}
	return cores[0], limited.Process.Pid
}
