package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// messages returns those of a command, and what is written of them.
func messages() (*Messages, *bytes.Buffer) {
	var written bytes.Buffer
	cmd := &cobra.Command{Use: "small"}
	cmd.SetErr(&written)
	return NewMessages(cmd), &written
}

func TestMessagesAreLines(t *testing.T) {
	m, got := messages()
	m.Started(0, "Watching %d.", 42)
	m.Started(Duration(1500*time.Millisecond), "Watching.")
	m.Notef("%d lost", 3)
	m.Warn(errors.New("no room"))
	want := "Watching 42. Ctrl-C to end.\nWatching. For 1.5s, or until Ctrl-C.\nsmall: 3 lost\nsmall: no room\n"
	if got.String() != want {
		t.Errorf("messages = %q, want %q", got, want)
	}
}

func TestProgressGivesWayToLines(t *testing.T) {
	m, got := messages()
	m.terminal = true
	m.Progressf("%d %%", 50)
	m.Notef("slow")
	m.Progressf("%d %%", 60)
	m.Clear()
	m.Clear()
	if want := "\r\x1b[K50 %\r\x1b[Ksmall: slow\n\r\x1b[K60 %\r\x1b[K"; got.String() != want {
		t.Errorf("messages = %q, want %q", got, want)
	}
}

func TestNoProgressWithoutATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := new(cobra.Command)
	cmd.SetErr(file)
	m := NewMessages(cmd)
	m.Progressf("%d %%", 50)
	m.Clear()
	if got := contents(t, file.Name()); got != "" {
		t.Errorf("progress in a file = %q, want none", got)
	}
}

var errStrange = errors.New("strange")

func TestHeldWarningsWaitForRelease(t *testing.T) {
	m, got := messages()
	m.Hold(errStrange)
	for pid := 1; pid <= 3; pid++ {
		m.Warn(fmt.Errorf("process %d: %w", pid, errStrange))
	}
	m.Warn(errors.New("no room"))
	if want := "small: no room\n"; got.String() != want {
		t.Errorf("before release: messages = %q, want %q", got, want)
	}
	got.Reset()
	m.Release()
	m.Release()
	if want := "small: process 1: strange\nsmall: processes like it: 2 more\n"; got.String() != want {
		t.Errorf("released = %q, want %q", got, want)
	}
	got.Reset()
	m.Warn(errStrange)
	if want := "small: strange\n"; got.String() != want {
		t.Errorf("after release: messages = %q, want %q", got, want)
	}
}

func TestMessagesFromManyAreWhole(t *testing.T) {
	m, got := messages()
	m.terminal = true
	m.Hold(errStrange)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			m.Warn(errors.New("whole"))
			m.Warn(errStrange)
			m.Progressf("half")
		})
	}
	wait.Wait()
	m.Clear()
	if lines := strings.Count(got.String(), "small: whole\n"); lines != 8 {
		t.Errorf("lines = %d, want 8 in %q", lines, got)
	}
}

func TestFailuresAreDetails(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  string
	}{
		{nil, ""},
		{[]string{"-v"}, "small: could not be read: name 7, stack 11\n"},
	} {
		var b strings.Builder
		cmd := &cobra.Command{Use: "small", RunE: func(cmd *cobra.Command, _ []string) error {
			m := NewMessages(cmd)
			m.Failures(nil)
			m.Failures(map[string]uint64{"stack": 11, "name": 7})
			return nil
		}}
		cmd.SetErr(&b)
		if status := Execute(cmd, tt.flags); status != 0 || b.String() != tt.want {
			t.Errorf("%v: status %d, printed %q, want 0, %q", tt.flags, status, &b, tt.want)
		}
	}
}
