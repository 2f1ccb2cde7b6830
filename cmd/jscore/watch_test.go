package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"ustack/cmd/internal/cli"
)

// watched runs "jscore watch" with arguments, and returns its status and what it said.
func watched(t *testing.T, args ...string) (status int, said string) {
	t.Helper()
	cmd := new(flags).command()
	cmd.SetContext(context.Background())
	var out, errs bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	return cli.Execute(cmd, append([]string{"watch"}, args...)), errs.String()
}

func TestWatchChecksItsFlags(t *testing.T) {
	self := fmt.Sprint(os.Getpid())
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "no process given"},
		{[]string{"-p", self, "--every", "10ms"}, "--every must be 1s or longer"},
		{[]string{"-p", self, "-n", "1"}, "-n must be 2 or more"},
		{[]string{"-p", self, "-n", "-2"}, "-n must be 2 or more"},
		{[]string{"-p", self, "core"}, "unknown command"},
	} {
		status, said := watched(t, tt.args...)
		if status != cli.Usage || !strings.Contains(said, tt.want) {
			t.Errorf("watch %q: status %d, said %q, want %d and %q", tt.args, status, said, cli.Usage, tt.want)
		}
	}
}
