package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
)

// TestMain makes the test binary a command for the tests of signals.
func TestMain(m *testing.M) {
	if os.Getenv("CLI_TEST_COMMAND") != "" {
		Main(signalled())
	}
	os.Exit(m.Run())
}

// signalled waits for the end of its context, and with --stubborn for ever.
func signalled() *cobra.Command {
	cmd := &cobra.Command{Use: "signalled"}
	stubborn := cmd.Flags().Bool("stubborn", false, "do not end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		fmt.Println("ready")
		<-cmd.Context().Done()
		fmt.Println("cancelled")
		if *stubborn {
			select {}
		}
		return context.Cause(cmd.Context())
	}
	return cmd
}

// run executes a small command and returns its status and what it printed.
func run(t *testing.T, result error, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := &cobra.Command{
		Use:     "small [flags] -p PID",
		Short:   "Do little",
		Example: "  small -p 1",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), "ran")
			return result
		},
	}
	cmd.Flags().VarP(new(PIDs), "pid", "p", "processes to watch")
	var out, errs strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	status = Execute(cmd, args)
	return status, out.String(), errs.String()
}

func TestExitStatus(t *testing.T) {
	for _, test := range []struct {
		name   string
		result error
		args   []string
		want   int
		stderr string
	}{
		{"success", nil, nil, OK, ""},
		{"failure", errors.New("no room"), nil, Failed, "small: no room\n"},
		{"of what it started", ExitStatus(143), nil, 143, ""},
		{"usage found late", Usagef("%d is odd", 3), nil, Usage, "small: 3 is odd (small --help explains)\n"},
		{"wrapped usage", fmt.Errorf("start: %w", Usagef("odd")), nil, Usage, "small: start: odd (small --help explains)\n"},
		{"unknown flag", nil, []string{"--none"}, Usage, "small: unknown flag: --none (small --help explains)\n"},
		{"bad value", nil, []string{"-p", "x"}, Usage, `small: invalid argument "x" for "-p, --pid" flag: "x" is not a process ID (small --help explains)` + "\n"},
		{"stray argument", nil, []string{"stray"}, Usage, `small: unknown command "stray" for "small" (small --help explains)` + "\n"},
		{"cancelled without a signal", context.Canceled, nil, Failed, "small: context canceled\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, _, stderr := run(t, test.result, test.args...)
			if status != test.want {
				t.Errorf("status = %d, want %d", status, test.want)
			}
			if stderr != test.stderr {
				t.Errorf("stderr = %q, want %q", stderr, test.stderr)
			}
		})
	}
}

func TestHelpEndsInExamplesAndFitsATerminal(t *testing.T) {
	status, help, stderr := run(t, nil, "--help")
	if status != OK || stderr != "" {
		t.Errorf("status = %d, stderr = %q, want %d and none", status, stderr, OK)
	}
	for _, want := range []string{"Usage:\n  small [flags] -p PID", "-p, --pid PID[,PID...]", "--version"} {
		if !strings.Contains(help, want) {
			t.Errorf("help = %q, want %q in it", help, want)
		}
	}
	if !strings.HasSuffix(help, "\nExamples:\n  small -p 1\n") {
		t.Errorf("help = %q, want examples at its end", help)
	}
	for _, line := range strings.Split(help, "\n") {
		if len(line) > 80 {
			t.Errorf("line of %d columns, want 80 at most: %q", len(line), line)
		}
	}
}

// TestSubcommand runs a subcommand, whose errors name it, beside its command, whose
// arguments stay its own.
func TestSubcommand(t *testing.T) {
	for _, tt := range []struct {
		args   []string
		status int
		stdout string
		stderr string
	}{
		{[]string{"part", "-n", "3"}, OK, "part 3\n", ""},
		{[]string{"part", "-n", "4"}, Failed, "", "large part: 4 is even\n"},
		{[]string{"part", "-n", "x"}, Usage, "", `large part: invalid argument "x" for "-n, --number" flag: not a whole number (large part --help explains)` + "\n"},
		{[]string{"part", "other"}, Usage, "", `large part: unknown command "other" for "large part" (large part --help explains)` + "\n"},
		{[]string{"--", "part"}, OK, "large [part]\n", ""},
		{[]string{"other"}, OK, "large [other]\n", ""},
	} {
		cmd := &cobra.Command{
			Use: "large", Args: cobra.ArbitraryArgs,
			RunE: func(cmd *cobra.Command, args []string) error { cmd.Println("large", args); return nil },
		}
		part := &cobra.Command{Use: "part", Short: "Do a part", Args: cobra.NoArgs}
		number := part.Flags().IntP("number", "n", 0, "how often")
		part.RunE = func(cmd *cobra.Command, _ []string) error {
			if *number%2 == 0 {
				return fmt.Errorf("%d is even", *number)
			}
			cmd.Println("part", *number)
			return nil
		}
		cmd.AddCommand(part)
		var out, errs strings.Builder
		cmd.SetOut(&out)
		cmd.SetErr(&errs)
		status := Execute(cmd, tt.args)
		if status != tt.status || out.String() != tt.stdout || errs.String() != tt.stderr {
			t.Errorf("%v: status %d, stdout %q, stderr %q, want %d, %q and %q", tt.args, status, &out, &errs, tt.status, tt.stdout, tt.stderr)
		}
	}
}

func TestVersionIsOneLine(t *testing.T) {
	status, stdout, _ := run(t, nil, "--version")
	if status != OK || !strings.HasPrefix(stdout, "small ") || strings.Count(stdout, "\n") != 1 {
		t.Errorf("status = %d, version = %q, want %d and one line", status, stdout, OK)
	}
}

func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		status, script, _ := run(t, nil, "--completion", shell)
		if status != OK || !strings.Contains(script, "small") || strings.Contains(script, "ran\n") {
			t.Errorf("%s: status = %d, script of %d bytes, want %d and a script alone", shell, status, len(script), OK)
		}
	}
	if status, _, stderr := run(t, nil, "--completion", "tcsh"); status != Usage || !strings.Contains(stderr, "not bash, zsh or fish") {
		t.Errorf("tcsh: status = %d, stderr = %q, want %d and the reason", status, stderr, Usage)
	}
	if status, words, _ := run(t, nil, "__complete", "--p"); status != OK || !strings.Contains(words, "--pid") {
		t.Errorf("completions of --p: status = %d, %q, want %d and --pid", status, words, OK)
	}
	if status, words, _ := run(t, nil, "__complete", "--completion", ""); status != OK || !strings.HasPrefix(words, "bash\nzsh\nfish\n") {
		t.Errorf("completions of --completion: status = %d, %q, want %d and the shells", status, words, OK)
	}
}

// start runs the test binary as a command and waits until it says ready.
func start(t *testing.T, args ...string) (*exec.Cmd, *lines) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CLI_TEST_COMMAND=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	printed := newLines(t, stdout)
	printed.want("ready")
	return cmd, printed
}

func TestSignalIsSuccess(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd, printed := start(t)
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
		printed.want("cancelled")
		if err := cmd.Wait(); err != nil {
			t.Errorf("after %v: %v, want success", sig, err)
		}
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	cmd, printed := start(t, "--stubborn")
	cmd.Process.Signal(syscall.SIGINT)
	printed.want("cancelled")
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("end = %v, want by SIGINT", cmd.ProcessState)
	}
}
