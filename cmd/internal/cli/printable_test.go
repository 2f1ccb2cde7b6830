package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ustack/symbolize/contain"
)

func fault() (err error) {
	defer contain.Panic(&err, "read %s", "/tmp/\x1b]0;title\a.node")
	return []error{}[1]
}

func TestMessagesAreSafeForATerminal(t *testing.T) {
	for _, flags := range [][]string{nil, {"-v"}} {
		var b strings.Builder
		cmd := &cobra.Command{Use: "small", RunE: func(cmd *cobra.Command, _ []string) error {
			NewMessages(cmd).Warn(fault())
			return errors.Join(fault(), errors.New("and\u009bmore"))
		}}
		cmd.SetErr(&b)
		if status := Execute(cmd, flags); status != Failed {
			t.Errorf("status = %d, want %d", status, Failed)
		}
		if strings.ContainsAny(b.String(), "\x1b\a\u009b") || strings.Count(b.String(), `/tmp/\x1b]0;title\x07.node`) != 2 {
			t.Errorf("messages = %q, want the path twice, made printable", &b)
		}
		if got, want := strings.Contains(b.String(), "cli.fault"), flags != nil; got != want {
			t.Errorf("flags %v: where it happened was printed: %t, want %t", flags, got, want)
		}
	}
}
