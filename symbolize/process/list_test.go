package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRunsByItsNameOrItsFiles(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := Listed{PID: os.Getpid(), Comm: "MainThread"}
	for name, want := range map[string]bool{"MainThread": true, filepath.Base(exe): true, "none": false, exe: false} {
		if got := l.Runs(name); got != want {
			t.Errorf("Runs(%q) = %v, want %v", name, got, want)
		}
	}
}
