package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/check"
	"ustack/tools/core"
	"ustack/tools/jscore"
)

// flags are the command's own.
type flags struct {
	running cli.Running
	core    string
	maps    cli.SourceMaps
	open    jscore.Options
	lines   []string
	isolate isolate
	json    bool
	color   choice
	noPager bool
	maxStop cli.Duration

	status int // of the commands run
}

const long = `Jscore shows what a Node.js program was doing and what is in its heap, from a
core or from a snapshot of the live process, which keeps running. COMMAND is a
line of jscore's own commands, as is the value of -e: "help" lists them. Without
either, lines are read from a prompt or from standard input.`

func (f *flags) command() *cobra.Command {
	f.color = "auto"
	cmd := &cobra.Command{
		Use:   "jscore [flags] {CORE | -p PID | --container NAME} [COMMAND [ARG...]]",
		Short: "Debug a Node.js program from a core or a snapshot",
		Long:  long,
		Example: strings.Join([]string{
			"  jscore core                            a prompt",
			"  jscore core status                     what happened, in one screen",
			"  jscore core jsstack -v                 where, with arguments and source",
			"  jscore core findjsobjects              what the heap is full of",
			"  jscore core 'findjsobjects -c Server | jsprint -d 3'",
			"  jscore -p 4242 --json jsfunctions      a live process, for programs",
			"  jscore --container web jsstack         the process of Node.js in a container",
			"  jscore core help findjsobjects         about one of the commands",
		}, "\n"),
		Args: f.check,
		RunE: f.run,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // arguments after CORE are for its commands
	flags.SortFlags = false
	f.running.RegisterOne(cmd, "take a snapshot of")
	flags.Var(&f.maxStop, "max-stop", "of a live process: never stop it for longer (default 10s)")
	flags.StringArrayVarP(&f.lines, "execute", "e", nil, "run `LINE` of commands (may be repeated)")
	flags.Var(&f.isolate, "isolate", "show only `WHICH` isolate: main, a number of v8isolates, or a thread's TID")
	flags.StringVar(&f.open.Exe, "exe", "", "use `FILE` as the program that the process ran")
	flags.StringVar(&f.open.Root, "sysroot", "", "use the files of a core's process that are below `DIR`, not this machine's")
	flags.StringArrayVar(&f.open.Folders, "symbols", nil, "search `DIR` for programs and libraries, by build ID")
	flags.BoolVar(&f.json, "json", false, "print JSON, one document for each command")
	flags.Var(&f.color, "color", "color what goes to a terminal: auto, always or never")
	flags.BoolVar(&f.noPager, "no-pager", false, "do not pipe long output into $PAGER")
	f.maps.Register(cmd)
	cli.AddCheck(cmd)
	cli.Setup(cmd)
	flags.Lookup("verbose").Usage = "print where an internal error happened" // jscore has no counters of the kernel to print
	cli.Choices(cmd, "color", choices)
	cmd.AddCommand(watchCommand())
	return cmd
}

var choices = []string{"auto", "always", "never"}

// A choice is one of choices.
type choice string

func (c *choice) String() string { return string(*c) }
func (c *choice) Type() string   { return "WHEN" }

func (c *choice) Set(word string) error {
	for _, known := range choices {
		if word == known {
			*c = choice(word)
			return nil
		}
	}
	return errors.New("not auto, always or never")
}

// An isolate is main, or a number: its own or its thread's.
type isolate string

func (i *isolate) String() string { return string(*i) }
func (i *isolate) Type() string   { return "WHICH" }

func (i *isolate) Set(word string) error {
	if _, err := strconv.ParseUint(word, 10, 31); err != nil && word != "main" {
		return errors.New("neither main nor a number")
	}
	*i = isolate(word)
	return nil
}

// check checks that exactly one process is given.
func (f *flags) check(_ *cobra.Command, args []string) error {
	switch {
	case f.running.Given() && f.open.Root != "":
		return cli.Usagef("--sysroot goes with a core: a running process's own files are used")
	case f.running.Given():
		return f.running.Check()
	case len(args) == 0:
		return cli.Usagef("no core or process given (name a core, or a process by -p PID or --container NAME)")
	}
	return nil
}

func (f *flags) run(cmd *cobra.Command, args []string) (err error) {
	messages := cli.NewMessages(cmd)
	if args, err = f.target(cmd, args); err != nil {
		return err
	}
	dump, err := f.load(cmd)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dump.Close()) }()
	if taken := dump.Taken(); taken != nil {
		note(messages, taken)
	}
	for _, missing := range dump.Missing() {
		messages.Notef("%s", missing)
	}
	if f.isolate != "" {
		if err := dump.SelectIsolate(string(f.isolate)); err != nil {
			return err
		}
	}
	s := &session{dump: dump, options: f.open, commands: commands(), messages: messages, output: f.output(cmd)}
	defer func() { f.status = s.status }()
	return f.session(cmd, s, args)
}

// note prints what taking a snapshot cost.
func note(messages *cli.Messages, taken *core.Result) {
	messages.Notef("snapshot: %.0f MB in %s, deleted at the end; the process was stopped for %.1f ms",
		float64(taken.Disk)/1e6, os.TempDir(), float64(taken.Stopped)/float64(time.Millisecond))
	if taken.Direct {
		messages.Notef("written while the process was stopped: there was too little memory for a copy of it")
	}
	if taken.Unread > 0 {
		messages.Notef("pages that could not be read are zero in it: %d", taken.Unread)
	}
}

// target takes the core's name, and the flags after it, from the arguments.
func (f *flags) target(cmd *cobra.Command, args []string) ([]string, error) {
	if f.running.Given() {
		return args, nil
	}
	f.core, args = args[0], args[1:]
	if len(args) == 0 || !strings.HasPrefix(args[0], "-") {
		return args, nil
	}
	if err := cmd.Flags().Parse(args); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	if f.running.Given() {
		return nil, cli.Usagef("give either a core or a process")
	}
	return cmd.Flags().Args(), nil
}

// load opens the core or takes the snapshot.
func (f *flags) load(cmd *cobra.Command) (*jscore.Dump, error) {
	f.open.Maps = f.maps.Options
	if !f.running.Given() {
		messages := cli.NewMessages(cmd)
		defer messages.Clear()
		f.open.Progress = func(done, total uint64) { messages.Progressf("unpacking the core: %d %%", done*100/max(total, 1)) }
		return jscore.Open(cmd.Context(), f.core, f.open)
	}
	pid, err := f.running.One()
	if err != nil {
		return nil, err
	}
	if err := check.Process(pid, check.Dump); err != nil {
		return nil, cli.SeeCheck(cmd, err)
	}
	o := f.open
	o.MaxStop = time.Duration(f.maxStop)
	return jscore.Attach(cmd.Context(), pid, o)
}

func (f *flags) output(cmd *cobra.Command) output {
	o := output{stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr(), json: f.json, pager: !f.noPager}
	o.color = f.color == "always" || f.color == "auto" && cli.Color(o.stdout)
	return o
}

// session runs the given commands, or else those from the prompt or standard
// input.
func (f *flags) session(cmd *cobra.Command, s *session, args []string) error {
	lines := f.lines
	lines = append(lines, s.commands.lines(args)...)
	if len(lines) > 0 {
		for _, line := range lines {
			s.line(cmd.Context(), line)
		}
		return cmd.Context().Err()
	}
	if in, ok := cmd.InOrStdin().(*os.File); ok && terminal(in) {
		return s.prompt(cmd.Context(), in)
	}
	return s.script(cmd.Context(), cmd.InOrStdin())
}

// script runs the lines of r.
func (s *session) script(ctx context.Context, r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine+1)
	for ctx.Err() == nil && !s.over && lines.Scan() {
		s.line(ctx, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read commands: %w", err)
	}
	return ctx.Err()
}
