package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// name runs a command for processes that run, and returns what it prints.
func name(register func(*Running, *cobra.Command, string), args ...string) (stdout, stderr string) {
	cmd := &cobra.Command{Use: "small " + RunningUse}
	var r Running
	register(&r, cmd, "watch")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := r.Check(); err != nil {
			return err
		}
		cmd.Println(&r)
		return nil
	}
	var out, errs strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	Execute(cmd, args)
	return out.String(), errs.String()
}

func TestRunningProcessesAreNamedInOneWay(t *testing.T) {
	several, one := (*Running).Register, (*Running).RegisterOne
	for _, tt := range []struct {
		register       func(*Running, *cobra.Command, string)
		args           string
		stdout, stderr string
	}{
		{several, "-p 1,2", "-p 1,2\n", ""},
		{several, "--container web", "--container web\n", ""},
		{one, "-p 1", "-p 1\n", ""},
		{one, "--container web", "--container web\n", ""},
		{several, "", "", "no process given (name one by -p PID or --container NAME)"},
		{one, "", "", "no process given (name one by -p PID or --container NAME)"},
		{one, "-p 1 -p 2", "", "give only one process, not -p 1,2"},
		{several, "-p 1 --container web", "", "give only one of -p and --container"},
		{one, "-p 1 --container web", "", "give only one of -p and --container"},
	} {
		stdout, stderr := name(tt.register, strings.Fields(tt.args)...)
		if tt.stderr != "" {
			tt.stderr = "small: " + tt.stderr + " (small --help explains)\n"
		}
		if stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("%q: stdout %q, stderr %q, want %q and %q", tt.args, stdout, stderr, tt.stdout, tt.stderr)
		}
	}
}

func TestTitlesAreBounded(t *testing.T) {
	all := make([]int, maxTitles+3)
	for i := range all {
		all[i] = os.Getpid()
	}
	got := titles(all)
	if strings.Count(got, ", ") != maxTitles || !strings.HasSuffix(got, ", and 3 more") {
		t.Errorf("titles = %q, want %d and that there are 3 more", got, maxTitles)
	}
	const ended = 1 << 30
	if got := titles([]int{ended}); got != "1073741824" {
		t.Errorf("title of a process that has ended = %q, want its number", got)
	}
}
