package cli

import (
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"ustack/tools/sourcemaps"
)

// SourceMaps are the flags that say where source maps are looked for.
type SourceMaps struct{ sourcemaps.Options }

// Register gives cmd the flags.
func (s *SourceMaps) Register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var((*negated)(&s.Off), "source-maps", "show names and lines of the sources that scripts were made from")
	flags.Lookup("source-maps").NoOptDefVal = "true"
	flags.BoolVar(&s.Off, "no-source-maps", false, "show those of the scripts that run")
	flags.Var((*folder)(&s.Folder), "maps", "look for source maps in `DIR` first")
}

// negated is a flag that makes a variable false.
type negated bool

func (n *negated) String() string   { return strconv.FormatBool(!bool(*n)) }
func (n *negated) Type() string     { return "bool" }
func (n *negated) IsBoolFlag() bool { return true }

func (n *negated) Set(text string) error {
	on, err := strconv.ParseBool(text)
	*n = negated(!on)
	return err
}

// folder is a directory that exists.
type folder string

func (f *folder) String() string { return string(*f) }
func (f *folder) Type() string   { return "DIR" }

func (f *folder) Set(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", name)
	}
	*f = folder(name)
	return nil
}
