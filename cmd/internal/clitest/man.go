// Package clitest tests what every command must do: what its manual says, how
// it is run and ended, and how it behaves without disk space or privileges.
package clitest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
)

// sections are what a page must have, in this order.
var sections = []string{
	"NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "OVERHEAD", "SEE ALSO", "CAVEATS",
}

// CheckManPage checks that the mdoc page at path is about the command, has the
// required sections and lists every flag of the command, each once, and no
// other. Those of a subcommand are in a section whose heading begins with its name; it may
// leave out those that the command has, too.
func CheckManPage(t testing.TB, cmd *cobra.Command, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if got, want := filepath.Base(path), cmd.Name()+".1"; got != want {
		t.Errorf("name of the page = %s, want %s", got, want)
	}
	if !slices.Contains(strings.Split(page, "\n"), ".Nm "+cmd.Name()) {
		t.Errorf("%s is not about %s: no line .Nm %s", path, cmd.Name(), cmd.Name())
	}
	flags := flagsOf(cmd)
	rest := page
	for _, sub := range cmd.Commands() {
		section := sectionOf(page, strings.ToUpper(sub.Name()))
		rest = strings.Replace(rest, section, "", 1)
		own := slices.DeleteFunc(flagsOf(sub), func(flag string) bool {
			return slices.Contains(flags, flag) && !slices.Contains(listed(section), flag)
		})
		if diff := cmp.Diff(own, listed(section)); diff != "" {
			t.Errorf("flags of %s %s in %s (-command +page):\n%s", cmd.Name(), sub.Name(), path, diff)
		}
	}
	if diff := cmp.Diff(flags, listed(rest)); diff != "" {
		t.Errorf("flags in %s (-command +page):\n%s", path, diff)
	}
	if diff := cmp.Diff(sections, headings(page)); diff != "" {
		t.Errorf("sections of %s (-want +got):\n%s", path, diff)
	}
}

// sectionOf returns the section of a page whose heading begins with a word; empty if there
// is none.
func sectionOf(page, word string) string {
	at := strings.Index(page, "\n.Sh "+word)
	if at < 0 {
		return ""
	}
	section := page[at+1:]
	if end := strings.Index(section, "\n.Sh "); end >= 0 {
		section = section[:end+1]
	}
	return section
}

// flagsOf returns the command's flags, sorted, as "-p --pid" or "--pid".
func flagsOf(cmd *cobra.Command) []string {
	cli.Setup(cmd.Root())
	var flags []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + " " + name
		}
		flags = append(flags, name)
	})
	slices.Sort(flags)
	return flags
}

// listed returns the flags in a page's list items, in the same form. An item is
// ".It Fl p , Fl -pid Ar PID".
func listed(page string) []string {
	var flags []string
	for _, line := range strings.Split(page, "\n") {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != ".It" || words[1] != "Fl" {
			continue
		}
		var names []string
		for i, word := range words[:len(words)-1] {
			if word == "Fl" {
				names = append(names, "-"+words[i+1])
			}
		}
		flags = append(flags, strings.Join(names, " "))
	}
	slices.Sort(flags)
	return flags
}

// headings returns the required section headings of a page, in the page's
// order.
func headings(page string) []string {
	var found []string
	for _, line := range strings.Split(page, "\n") {
		heading, ok := strings.CutPrefix(line, ".Sh ")
		if ok && slices.Contains(sections, heading) {
			found = append(found, heading)
		}
	}
	return found
}
