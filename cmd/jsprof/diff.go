package main

import (
	"errors"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
	"ustack/tools/outfile"
	"ustack/tools/profile"
)

// A difference reads two stored profiles, and shows what has changed.
type difference struct {
	stored   stored
	output   string
	format   string
	json     bool
	absolute bool
	present  presentation
}

func diffCommand() *cobra.Command {
	d := new(difference)
	cmd := &cobra.Command{
		Use:   "diff [flags] BEFORE AFTER",
		Short: "show which functions take another share in a second profile",
		Args:  cobra.ExactArgs(2),
		Example: strings.Join([]string{
			"  jsprof diff monday.json friday.json                 what changed, by function",
			"  jsprof diff monday.json friday.json -o changes.svg  a flame graph: red grew",
			"  jsprof diff a.pb.gz b.pb.gz --native --json         for programs",
		}, "\n"),
		RunE: d.run,
	}
	flags := cmd.Flags()
	d.stored.register(cmd)
	flags.StringVarP(&d.output, "output", "o", "", "write to `FILE`, in the format of its extension (-: standard output)")
	flags.StringVar(&d.format, "format", "", "write as `FORMAT`: "+strings.Join(comparisonFormats(), ", "))
	flags.BoolVar(&d.json, "json", false, "write as JSON: --format json")
	flags.BoolVar(&d.absolute, "absolute", false, "compare values, not shares")
	d.present.register(flags)
	cli.Choices(cmd, "format", comparisonFormats())
	return cmd
}

func comparisonFormats() []string {
	var names []string
	for _, f := range profile.ComparisonFormats {
		names = append(names, f.Name)
	}
	return names
}

// chosen returns the name of the format to write.
func (d *difference) chosen() (string, error) {
	switch {
	case d.json && d.format != "" && d.format != jsonFormat:
		return "", cli.Usagef("give only one of --json and --format %s", d.format)
	case d.json:
		return jsonFormat, nil
	}
	format, err := chosen(d.format, d.output)
	if err != nil {
		return "", err
	}
	for _, name := range comparisonFormats() {
		if name == format.Name {
			return name, nil
		}
	}
	return "", cli.Usagef("a comparison is not written as %s (use one of %s)", format.Name, strings.Join(comparisonFormats(), ", "))
}

func (d *difference) run(cmd *cobra.Command, args []string) error {
	if err := errors.Join(d.present.check(), d.stored.check()); err != nil {
		return err
	}
	if d.present.lines {
		return cli.Usagef("--lines makes another function of a line that has moved")
	}
	if d.output == stdio {
		d.output = ""
	}
	format, err := d.chosen()
	if err != nil {
		return err
	}
	if args[0] == stdio && args[1] == stdio {
		return cli.Usagef("standard input is one profile only")
	}
	o := d.present.options()
	write := func(fill func(io.Writer) error) error { return fill(cmd.OutOrStdout()) }
	if d.output != "" {
		file, err := outfile.Open(d.output, outfile.Options{})
		if err != nil {
			return err
		}
		defer file.Close()
		write = file.Write
	} else {
		o.Color = cli.Color(cmd.OutOrStdout())
	}
	c, err := d.compare(cmd, args)
	if err != nil {
		return err
	}
	return write(func(w io.Writer) error { return c.Write(w, format, o) })
}

// compare reads both profiles and compares the parts of them to show.
func (d *difference) compare(cmd *cobra.Command, names []string) (*profile.Comparison, error) {
	var both [2]*profile.Profile
	for i, name := range names {
		p, err := d.stored.read(cmd, name)
		if err != nil {
			return nil, err
		}
		if both[i], err = d.present.apply(p); err != nil {
			return nil, err
		}
		if d.present.tiers {
			both[i] = both[i].ByTier()
		}
	}
	return profile.Compare(both[0], both[1], profile.Comparing{Native: d.present.native, Absolute: d.absolute})
}
