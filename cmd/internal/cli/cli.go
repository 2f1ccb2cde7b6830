// Package cli is what all commands share: setup and help, signal handling,
// error messages and exit statuses.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/stdio"
	"ustack/symbolize/reader"
	"ustack/tools/check"
)

// Exit statuses.
const (
	OK     = 0
	Failed = 1 // it did not do what was requested
	Usage  = 2 // the arguments make no sense
)

// An ExitStatus is the error of a command that did what was requested, and
// whose status is the answer or that of a program which it has started. It is
// not printed.
type ExitStatus int

func (s ExitStatus) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// ErrUsage is wrapped by a command's error if its arguments are at fault.
var ErrUsage = errors.New("usage")

// Usagef returns a formatted error that wraps ErrUsage.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Is(target error) bool { return target == ErrUsage }
func (e *usageError) Unwrap() error        { return e.error }

// Main runs cmd with the process's arguments and exits.
func Main(cmd *cobra.Command) {
	reader.Serve()
	if name := stdio.Closed(); name != "" {
		NewMessages(cmd).Notef("%s is closed (to discard it, send it to /dev/null)", name)
		os.Exit(Failed)
	}
	os.Exit(Execute(cmd, os.Args[1:]))
}

// Execute runs cmd with args and returns its exit status. SIGINT or SIGTERM
// cancels the command's context, and ending early because of that is success. A
// second signal ends the process at once. If the error is an ExitStatus, that
// is the status.
func Execute(cmd *cobra.Command, args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go cancelOnSignal(ctx, cancel, signals)
	Setup(cmd)
	started := false
	for _, c := range append(cmd.Commands(), cmd) {
		if run := c.RunE; run != nil {
			c.RunE = func(cmd *cobra.Command, args []string) error {
				started = true
				return run(cmd, args)
			}
		}
	}
	cmd.SetArgs(args)
	cmd, err := cmd.ExecuteContextC(ctx)
	var status ExitStatus
	switch {
	case err == nil, errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return OK
	case errors.As(err, &status) && ctx.Err() != nil: // the signal is probably the cause
		return OK
	case errors.As(err, &status):
		return int(status)
	case !started, errors.Is(err, ErrUsage):
		NewMessages(cmd).Notef("%s (%s --help explains)", withoutParsers(oneLine(err)), cmd.CommandPath())
		return Usage
	}
	NewMessages(cmd).Warn(err)
	return Failed
}

// parser is what package strconv says of a text that is no number.
var parser = regexp.MustCompile(`strconv\.(\w+): parsing ".*": (invalid syntax|value out of range)$`)

// withoutParsers returns a message with what is wrong with a number in words for people.
func withoutParsers(message string) string {
	found := parser.FindStringSubmatch(message)
	if found == nil {
		return message
	}
	want := "not a whole number"
	switch {
	case found[2] == "value out of range":
		want = "too large or too small"
	case found[1] == "ParseUint":
		want = "not a whole number of 0 or more"
	case found[1] == "ParseFloat":
		want = "not a number"
	case found[1] == "ParseBool":
		want = "not true or false"
	}
	return strings.TrimSuffix(message, found[0]) + want
}

// cancelOnSignal waits for the first signal or the end of ctx. It restores the
// signals' default effect before it cancels: whoever sees ctx end may rely on
// that.
func cancelOnSignal(ctx context.Context, cancel func(), signals chan os.Signal) {
	defer cancel()
	defer signal.Stop(signals)
	select {
	case <-signals:
	case <-ctx.Done():
	}
}

// Setup gives cmd what all commands have: --help, --version and --completion, a
// common form of help, and errors left to Execute. Its subcommands get the same, but the
// last two flags. It may be called twice.
func Setup(cmd *cobra.Command) {
	cmd.Version = version()
	cmd.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	cmd.SetUsageTemplate(usage)
	cmd.CompletionOptions.DisableDefaultCmd = true
	setup(cmd)
	cmd.InitDefaultVersionFlag()
	cmd.Flags().Lookup("version").Usage = "print the version"
	if cmd.Flags().Lookup("completion") == nil {
		addCompletion(cmd)
	}
	for _, c := range cmd.Commands() {
		setup(c)
	}
}

// setup gives cmd what subcommands have, too.
func setup(cmd *cobra.Command) {
	cmd.SilenceErrors = true
	cmd.SilenceUsage = true
	cmd.DisableFlagsInUseLine = true
	if cmd.Flags().Lookup(verboseFlag) == nil {
		cmd.Flags().BoolP(verboseFlag, "v", false, "print where an internal error happened, and how often parts of stacks could not be read")
	}
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "print this help"
	cmd.Flags().SortFlags = false
}

const verboseFlag = "verbose"

// verbose reports whether the causes of internal errors are to be printed.
func verbose(cmd *cobra.Command) bool {
	flag := cmd.Flags().Lookup(verboseFlag)
	return flag != nil && flag.Value.String() == "true"
}

// addCompletion adds --completion, which runs instead of the command.
func addCompletion(cmd *cobra.Command) {
	cmd.Flags().Var(new(shell), "completion", "print a completion script for bash, zsh or fish")
	Choices(cmd, "completion", shells)
	standIn(cmd, "completion", func(cmd *cobra.Command) error {
		return complete(cmd.Flags().Lookup("completion").Value.String(), cmd)
	})
}

// AddCheck adds --check, which runs instead of the command: it prints which
// parts of the command work on this machine.
func AddCheck(cmd *cobra.Command) {
	cmd.Flags().Bool("check", false, "report what works on this machine, and why the rest does not")
	standIn(cmd, "check", func(cmd *cobra.Command) error {
		report := check.Tool(cmd.Name())
		report.Version = version()
		print := report.Print
		if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
			print = func(w io.Writer) error { return json.NewEncoder(w).Encode(report) }
		}
		if err := print(cmd.OutOrStdout()); err != nil {
			return fmt.Errorf("print what works: %w", err)
		}
		if !report.Works {
			return ExitStatus(Failed)
		}
		return nil
	})
}

// standIn runs act instead of the command if the flag is given.
func standIn(cmd *cobra.Command, flag string, act func(*cobra.Command) error) {
	run := cmd.RunE
	validate := cmd.Args
	asked := func(cmd *cobra.Command) bool { return cmd.Flags().Changed(flag) }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if asked(cmd) || validate == nil {
			return nil
		}
		return validate(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if asked(cmd) {
			return act(cmd)
		}
		return run(cmd, args)
	}
}

// Choices makes shells complete the value of cmd's flag to one of words.
func Choices(cmd *cobra.Command, flag string, words []string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag does not exist, or already has choices
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

// release is the version that make sets when it builds.
var release string

// version returns the version that make has set, or else that of the module, or
// of its commit if built from a checkout.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

const usage = `Usage:
  {{.UseLine}}{{if .HasAvailableSubCommands}}

Commands:{{range .Commands}}{{if .IsAvailableCommand}}
  {{$.CommandPath}} {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

Flags:
{{.Flags.FlagUsagesWrapped 80 | trimTrailingWhitespaces}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}
`
