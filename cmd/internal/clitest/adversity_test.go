package clitest

import (
	"os"
	"os/exec"
	"testing"

	"ustack/testdata/nodetest"
)

func TestFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want int // complaints
	}{
		{"as it should", []string{"-p", "1", "--duration", "1", "--output", "/none/out"}, 0},
		{"another reason", []string{"-p", "1", "--duration", "1", "--output", "/"}, 1},
		{"usage", nil, 2},
		{"success", []string{"-p", "1", "--duration", "1"}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			nodetest.Root(t)
			got := &complaints{TB: t}
			out := Fails(got, exec.Command("small", tt.args...), "write /none/out: no such file")
			if got.errors != tt.want || out == "" {
				t.Errorf("complaints = %d, want %d about %q", got.errors, tt.want, out)
			}
		})
	}
}

func TestFullDisk(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"whole or not at all", []string{"small", "--all", "--duration", "1"}, 0},
		// The new file is there, empty, and why is half said; the old one has room for
		// the new text, so that there is no failure, no reason, and no old text.
		{"careless", []string{"small", "--all", "--duration", "1", "--careless"}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckFullDisk(got, "out.txt", tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}

func TestOutputPlaces(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"refused", []string{"small", "--all"}, 0},
		// It follows the link, and is refused the others by the kernel, in other words.
		{"careless", []string{"small", "--all", "--duration", "1", "--careless"}, 7},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckOutputPlaces(got, "out.txt", tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}

func TestUnprivileged(t *testing.T) {
	nodetest.Root(t)
	for _, tt := range []struct {
		name    string
		command []string
		want    int
	}{
		{"said", []string{"small", "--duration", "1"}, 0},
		{"not said", []string{"small", "--duration", "1", "--silent"}, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := &complaints{TB: t}
			CheckUnprivileged(got, os.Getpid(), tt.command...)
			if got.errors != tt.want {
				t.Errorf("complaints = %d, want %d", got.errors, tt.want)
			}
		})
	}
}
