// Package cli is what every command shares: how it is set up and helps, what
// signals do, how it says that something is wrong and with what status it ends.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit statuses.
const (
	OK     = 0
	Failed = 1 // it did not do what was asked
	Usage  = 2 // what was asked makes no sense
)

// ErrUsage is what a command's error wraps when its arguments are at fault.
var ErrUsage = errors.New("usage")

// Usagef returns an error that wraps ErrUsage and reads as formatted.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Is(target error) bool { return target == ErrUsage }
func (e *usageError) Unwrap() error        { return e.error }

// Main runs cmd with the process's arguments and ends the process.
func Main(cmd *cobra.Command) {
	os.Exit(Execute(cmd, os.Args[1:]))
}

// Execute runs cmd with args and returns its exit status. The context of the
// command is cancelled by SIGINT or SIGTERM, and to end early because of that
// is success. A second signal ends the process at once.
func Execute(cmd *cobra.Command, args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go cancelOnSignal(ctx, cancel, signals)
	Setup(cmd)
	started := false
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			started = true
			return run(cmd, args)
		}
	}
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(ctx)
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return OK
	case !started, errors.Is(err, ErrUsage):
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v (%s --help explains)\n", cmd.Name(), err, cmd.Name())
		return Usage
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %v\n", cmd.Name(), err)
	return Failed
}

// cancelOnSignal waits for the first signal or the end of ctx. It gives signals
// their own effect back before it cancels: whoever sees ctx end may rely on it.
func cancelOnSignal(ctx context.Context, cancel func(), signals chan os.Signal) {
	defer cancel()
	defer signal.Stop(signals)
	select {
	case <-signals:
	case <-ctx.Done():
	}
}

// Setup gives cmd what all commands have: --help, --version and --completion,
// help in one form, and errors left to Execute. To set up twice is no error.
func Setup(cmd *cobra.Command) {
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.DisableFlagsInUseLine = true
	cmd.Version = version()
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetUsageTemplate(usage)
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	cmd.Flags().Lookup("help").Usage = "print this help"
	cmd.Flags().Lookup("version").Usage = "print the version"
	cmd.Flags().SortFlags = false
	if cmd.Flags().Lookup("completion") == nil {
		addCompletion(cmd)
	}
}

// addCompletion adds --completion, which stands in for the whole command.
func addCompletion(cmd *cobra.Command) {
	cmd.Flags().Var(new(shell), "completion", "print a completion script for bash, zsh or fish")
	Choices(cmd, "completion", shells)
	run := cmd.RunE
	validate := cmd.Args
	asked := func(cmd *cobra.Command) bool { return cmd.Flags().Changed("completion") }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if asked(cmd) || validate == nil {
			return nil
		}
		return validate(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asked(cmd) {
			return complete(cmd.Flags().Lookup("completion").Value.String(), cmd)
		}
		return run(cmd, args)
	}
}

// Choices has shells complete the value of cmd's flag to one of words.
func Choices(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // there is no such flag, or it has choices already
	}
}

var shells = []string{"bash", "zsh", "fish"}

// A shell is the value of --completion.
type shell string

func (s *shell) String() string { return string(*s) }
func (s *shell) Type() string   { return "SHELL" }

func (s *shell) Set(name string) error {
	if !slices.Contains(shells, name) {
		return errors.New("not bash, zsh or fish")
	}
	*s = shell(name)
	return nil
}

func complete(name string, cmd *cobra.Command) error {
	out := cmd.OutOrStdout()
	switch name {
	case "bash":
		return cmd.GenBashCompletionV2(out, true)
	case "zsh":
		return cmd.GenZshCompletion(out)
	}
	return cmd.GenFishCompletion(out, true)
}

// version is that of the module, or of its commit where it is built from a checkout.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

const usage = `Usage:
  {{.UseLine}}

Flags:
{{.Flags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}
`
