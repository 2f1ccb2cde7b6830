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

func TestEveryProcessIsInTheRootGroupAlone(t *testing.T) {
	for group, want := range map[string]bool{"/": true, cgroupMount: true, "/none": false, cgroupMount + "/none": false} {
		if got := InCgroup(os.Getpid(), group); got != want {
			t.Errorf("InCgroup(%q) = %v, want %v", group, got, want)
		}
	}
}
