package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/trace"
)

// TestSamplingBeginsAnewInBounds: what is learned of processes is kept for as long, and of as
// many, as the limits say.
func TestSamplingBeginsAnewInBounds(t *testing.T) {
	everything, one := trace.Selection{All: true}, trace.Selection{PIDs: []int{1}}
	for _, tt := range []struct {
		name      string
		selection trace.Selection
		age       time.Duration
		ended     int
		held      uint64
		want      bool
	}{
		{"new", everything, 0, 0, 0, false},
		{"old", everything, renewAge, 0, 0, true},
		{"almost old", everything, renewAge - time.Second, renewEnded - 1, renewBytes - 1, false},
		{"many have ended", everything, 0, renewEnded, 0, true},
		{"much is held", everything, leastAge, 0, renewBytes, true},
		{"much is held too soon", everything, leastAge - time.Second, 0, renewBytes, false},
		{"of named processes", one, 2 * renewAge, 2 * renewEnded, 2 * renewBytes, false},
		{"of a command", trace.Selection{Command: []string{"node"}}, 2 * renewAge, 2 * renewEnded, 2 * renewBytes, false},
		{"of a container", trace.Selection{Container: "web"}, 0, renewEnded, 0, true},
	} {
		r := run{stream: &stream{flags: &flags{targets: cli.Targets{Selection: tt.selection}}}}
		if got := r.due(tt.age, tt.ended, tt.held); got != tt.want {
			t.Errorf("%s: due = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestWarningsOfContinuousSamplingAreBounded(t *testing.T) {
	var printed strings.Builder
	cmd := &cobra.Command{Use: "jsprof"}
	cmd.SetErr(&printed)
	r := run{stream: &stream{messages: cli.NewMessages(cmd)}, warned: make(map[string]bool)}
	for pid := range 3 * maxWarnings {
		r.warn(fmt.Errorf("process %d: %w", pid, v8.ErrNotV8))
		r.warn(fmt.Errorf("process %d cannot be read", pid))
	}
	lines := strings.Split(strings.TrimSuffix(printed.String(), "\n"), "\n")
	if want := maxWarnings + 1; len(lines) != want || !strings.Contains(lines[want-1], "more warnings than these 1024 are not printed") {
		t.Errorf("lines = %d, the last %q, want %d", len(lines), lines[len(lines)-1], want)
	}
	if n := strings.Count(printed.String(), v8.ErrNotV8.Error()); n != 1 || !strings.Contains(lines[0], "others like it are not reported") {
		t.Errorf("processes without V8 are reported %d times, first by %q, want once", n, lines[0])
	}
}
