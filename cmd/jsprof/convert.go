package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/outfile"
	"ustack/tools/profile"
	"ustack/tools/profile/read"
)

// A conversion reads a stored profile, and writes it in a format.
type conversion struct {
	stored  stored
	output  string
	format  string
	present presentation
}

func convertCommand() *cobra.Command {
	c := new(conversion)
	cmd := &cobra.Command{
		Use:   "convert [flags] [FILE]",
		Short: "write a stored profile in another format, or a part of it",
		Args:  cobra.MaximumNArgs(1),
		Example: strings.Join([]string{
			"  jsprof convert v8.cpuprofile                  the functions with the most time",
			"  jsprof convert cpu.pb.gz -o flame.html        a flame graph",
			"  perf script | jsprof convert -o perf.svg      what perf record has taken",
			"  jsprof convert a.json --exclude GC -o a.folded",
		}, "\n"),
		RunE: c.run,
	}
	flags := cmd.Flags()
	c.stored.register(cmd)
	flags.StringVarP(&c.output, "output", "o", "", "write to `FILE`, in the format of its extension (-: standard output)")
	flags.StringVar(&c.format, "format", "", "write as `FORMAT`: "+strings.Join(formats(), ", "))
	c.present.register(flags)
	cli.Choices(cmd, "format", formats())
	return cmd
}

// stdio is the name of a file that stands for standard input or output.
const stdio = "-"

func (c *conversion) run(cmd *cobra.Command, args []string) error {
	if err := errors.Join(c.present.check(), c.stored.check()); err != nil {
		return err
	}
	if c.output == stdio {
		c.output = ""
	}
	format, err := chosen(c.format, c.output)
	if err != nil {
		return err
	}
	name := stdio
	if len(args) > 0 {
		name = args[0]
	}
	write := func(fill func(io.Writer) error) error { return fill(cmd.OutOrStdout()) }
	o := c.present.options()
	if c.output != "" {
		file, err := outfile.Open(c.output, outfile.Options{})
		if err != nil {
			return err
		}
		defer file.Close()
		write = file.Write
	} else {
		o.Color = cli.Color(cmd.OutOrStdout())
	}
	p, err := c.stored.read(cmd, name)
	if err != nil {
		return err
	}
	if err := format.Takes(p.ValueType); err != nil {
		return err
	}
	if p, err = c.present.apply(p); err != nil {
		return err
	}
	return write(func(w io.Writer) error { return format.Write(w, p, o) })
}

// chosen returns the format of that name, or else of that file; the table without both.
func chosen(name, file string) (profile.Format, error) {
	format, err := profile.Formats[0], error(nil)
	switch {
	case name != "":
		format, err = profile.Lookup(name)
	case file != "":
		format, err = profile.FormatOf(file)
	}
	if err != nil {
		return format, cli.Usagef("%v", err)
	}
	return format, nil
}

// stored says how a stored profile is read.
type stored struct {
	read.Options
}

func (s *stored) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&s.Format, "from", "", "read as `FORMAT`: "+strings.Join(read.Formats(), ", ")+" (default: by the contents)")
	flags.StringVar(&s.Values, "values", "", "of a file with several types of values, read `TYPE`")
	cli.Choices(cmd, "from", read.Formats())
}

// check reports flags that make no sense.
func (s *stored) check() error {
	if s.Format == "" {
		return nil
	}
	for _, name := range read.Formats() {
		if name == s.Format {
			return nil
		}
	}
	return cli.Usagef("--from %s: no such format (use one of %s)", s.Format, strings.Join(read.Formats(), ", "))
}

// read reads the profile in a file, or from standard input.
func (s *stored) read(cmd *cobra.Command, name string) (*profile.Profile, error) {
	in, shown := os.Stdin, name
	if name == stdio {
		shown = "standard input"
		if cli.Terminal(in) {
			return nil, cli.Usagef("nothing to read (name a file)")
		}
	} else {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read profile: %w", err)
		}
		defer file.Close()
		in = file
	}
	f, err := interruptible(cmd.Context(), func() (*read.File, error) { return read.Profile(in, s.Options) })
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", shown, err)
	}
	if len(f.Types) > 1 && s.Values == "" {
		cli.NewMessages(cmd.Root()).Notef("%s: read %s; it also has %s (--values chooses)", shown, f.Types[0], strings.Join(f.Types[1:], ", "))
	}
	return f.Profile, nil
}

// interruptible returns what get returns, or when ctx ends, its error. Then get may
// still run: the process is to exit.
func interruptible[T any](ctx context.Context, get func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := get()
		done <- result{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
