package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"

	"ustack/symbolize/v8"
	"ustack/tools/trace"
)

// choose runs a command that selects processes, and returns which.
func choose(args ...string) (targets Targets, status int, stderr string) {
	cmd := &cobra.Command{
		Use: "small " + TargetsUse,
		RunE: func(cmd *cobra.Command, _ []string) error {
			targets.Messages(cmd).Started(0, "Looking at %v.", &targets)
			return nil
		},
	}
	targets.Register(cmd, "watch")
	var errs strings.Builder
	cmd.SetErr(&errs)
	status = Execute(cmd, args)
	return targets, status, errs.String()
}

func TestTargetsAreChosenInOneWay(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want Targets
		name string
	}{
		{[]string{"-p", "1,2", "-p3"}, Targets{Selection: trace.Selection{PIDs: []int{1, 2, 3}}}, "1,2,3"},
		{[]string{"--comm", "node"}, Targets{Selection: trace.Selection{Comm: "node"}}, "every node"},
		{[]string{"--container", "web"}, Targets{Selection: trace.Selection{Container: "web"}}, "every process of container web"},
		{[]string{"--all"}, Targets{Selection: trace.Selection{All: true}}, "every process with V8"},
		{[]string{"--", "node", "-p", "1"}, Targets{Selection: trace.Selection{Command: []string{"node", "-p", "1"}}}, "the command"},
	} {
		got, status, stderr := choose(tt.args...)
		if want := "Looking at " + tt.name + ". Ctrl-C to end.\n"; status != OK || stderr != want {
			t.Errorf("%q: status = %d, stderr = %q, want %d, %q", tt.args, status, stderr, OK, want)
		}
		options := []cmp.Option{cmpopts.IgnoreUnexported(Targets{}, trace.Selection{}), cmpopts.EquateEmpty()}
		if diff := cmp.Diff(tt.want, got, options...); diff != "" {
			t.Errorf("%q: targets (-want +got):\n%s", tt.args, diff)
		}
	}
}

func TestTargetsThatMakeNoSense(t *testing.T) {
	const one = "give only one of -p, --comm, --cgroup, --container, --all and a command"
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "nothing to watch (name a process: -p PID, --comm NAME, --cgroup PATH, --container NAME, --all, or -- COMMAND)"},
		{[]string{"--"}, "nothing to watch (name a process: -p PID, --comm NAME, --cgroup PATH, --container NAME, --all, or -- COMMAND)"},
		{[]string{"-p", "1", "--all"}, one},
		{[]string{"--comm", "node", "--all"}, one},
		{[]string{"--container", "web", "--all"}, one},
		{[]string{"-p", "1", "--", "true"}, one},
		{[]string{"4242"}, `stray argument "4242" (name a process by -p PID, start a command by -- COMMAND)`},
		{[]string{"node", "--", "app.js"}, `stray argument "node" (name a process by -p PID, start a command by -- COMMAND)`},
	} {
		_, status, stderr := choose(tt.args...)
		if want := "small: " + tt.want + " (small --help explains)\n"; status != Usage || stderr != want {
			t.Errorf("%q: status = %d, stderr = %q, want %d, %q", tt.args, status, stderr, Usage, want)
		}
	}
}

func TestHelpAndCompletionNeedNoTargets(t *testing.T) {
	for _, arg := range []string{"--help", "--version", "--completion=bash"} {
		if _, status, stderr := choose(arg); status != OK || stderr != "" {
			t.Errorf("%s: status = %d, stderr = %q, want %d and none", arg, status, stderr, OK)
		}
	}
}

func TestOnlyLaunchersMayLackV8(t *testing.T) {
	for _, tt := range []struct {
		targets Targets
		want    string
	}{
		{Targets{Selection: trace.Selection{PIDs: []int{1}}}, "small: process 1: " + v8.ErrNotV8.Error() + "\n"},
		{Targets{Selection: trace.Selection{Comm: "sh"}}, "small: process 1: " + v8.ErrNotV8.Error() + "\n"},
		{Targets{Selection: trace.Selection{Command: []string{"sh"}}}, ""},
	} {
		var errs strings.Builder
		cmd := &cobra.Command{Use: "small"}
		cmd.SetErr(&errs)
		tt.targets.Messages(cmd).Warn(fmt.Errorf("process 1: %w", v8.ErrNotV8))
		if got := errs.String(); got != tt.want {
			t.Errorf("%v: messages = %q, want %q", &tt.targets, got, tt.want)
		}
	}
}
