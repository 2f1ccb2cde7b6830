package clitest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"ustack/cmd/internal/cli"
)

const page = `.Dd January 1, 2026
.Dt SMALL 1
.Os
.Sh NAME
.Nm small
.Nd do little
.Sh SYNOPSIS
.Sh DESCRIPTION
.Bl -tag -width Ds
.It Fl p , Fl -pid Ar PID Ns Op , Ns Ar PID
.It Fl -js-only
.It Fl h , Fl -help
.It Fl v , Fl -verbose
.It Fl -version
.It Fl -completion Ar SHELL
.El
.Sh EXIT STATUS
.Sh EXAMPLES
.Sh OVERHEAD
.Sh SEE ALSO
.Sh CAVEATS
`

func small() *cobra.Command {
	cmd := &cobra.Command{Use: "small", RunE: func(*cobra.Command, []string) error { return nil }}
	cmd.Flags().VarP(new(cli.PIDs), "pid", "p", "processes")
	cmd.Flags().Bool("js-only", false, "only JavaScript")
	cmd.Flags().Bool("secret", false, "not for people")
	cmd.Flags().Lookup("secret").Hidden = true
	return cmd
}

// complaints is a test that fails without failing ours.
type complaints struct {
	testing.TB
	errors int
}

func (c *complaints) Errorf(string, ...any) { c.errors++ }

func TestManPage(t *testing.T) {
	for _, test := range []struct {
		name, old, new string
		want           int
	}{
		{"as it should be", "", "", 0},
		{"flag missing", ".It Fl -js-only\n", "", 1},
		{"flag too many", ".El\n", ".It Fl x\n.El\n", 1},
		{"flag without its letter", "Fl p , Fl -pid", "Fl -pid", 1},
		{"flag listed twice", ".El\n", ".It Fl -js-only\n.El\n", 1},
		{"another command", ".Nm small", ".Nm large", 1},
		{"section missing", ".Sh OVERHEAD\n", "", 1},
		{"sections in another order", ".Sh EXAMPLES\n.Sh OVERHEAD\n", ".Sh OVERHEAD\n.Sh EXAMPLES\n", 1},
		{"section twice", ".Sh CAVEATS\n", ".Sh CAVEATS\n.Sh CAVEATS\n", 1},
		{"another section", ".Sh CAVEATS\n", ".Sh HISTORY\n.Sh CAVEATS\n", 0},
		{"a flag that is hidden", ".El\n", ".It Fl -secret\n.El\n", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "small.1")
			if err := os.WriteFile(path, []byte(strings.Replace(page, test.old, test.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			got := &complaints{TB: t}
			CheckManPage(got, small(), path)
			if got.errors != test.want {
				t.Errorf("complaints = %d, want %d", got.errors, test.want)
			}
		})
	}
}

func TestManPageOfSubcommands(t *testing.T) {
	const section = ".Sh PART OF IT\n.It Fl p , Fl -pid Ar PID\n.It Fl -json\n"
	for _, test := range []struct {
		name, section string
		want          int
	}{
		{"as it should be", section, 0},
		{"none", "", 1},
		{"flag missing", strings.Replace(section, ".It Fl -json\n", "", 1), 1},
		{"flag too many", section + ".It Fl x\n", 1},
		{"of another name", strings.Replace(section, "PART", "PIECE", 1), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "small.1")
			text := strings.Replace(page, ".Sh EXIT STATUS", test.section+".Sh EXIT STATUS", 1)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			part := &cobra.Command{Use: "part", RunE: func(*cobra.Command, []string) error { return nil }}
			part.Flags().VarP(new(cli.PIDs), "pid", "p", "processes")
			part.Flags().Bool("json", false, "for programs")
			cmd := small()
			cmd.AddCommand(part)
			got := &complaints{TB: t}
			if CheckManPage(got, cmd, path); got.errors != test.want {
				t.Errorf("complaints = %d, want %d", got.errors, test.want)
			}
		})
	}
}

func TestFlagsOfACommand(t *testing.T) {
	want := []string{"--completion", "--js-only", "--version", "-h --help", "-p --pid", "-v --verbose"}
	if diff := cmp.Diff(want, flagsOf(small())); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

func TestManPageOfAnotherName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.1")
	if got := fatal(t, func(t testing.TB) { CheckManPage(t, small(), path) }); !strings.Contains(got, "no such file") {
		t.Errorf("no page: %q, want none", got)
	}
	if err := os.WriteFile(path, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	got := &complaints{TB: t}
	if CheckManPage(got, small(), path); got.errors != 1 {
		t.Errorf("complaints = %d, want 1 about the file's name", got.errors)
	}
}

func TestListedFlags(t *testing.T) {
	for line, want := range map[string][]string{
		".It Fl p , Fl -pid Ar PID":   {"-p --pid"},
		".It Fl -min Ar N Ns Cm %":    {"--min"},
		".It Fl b\n.It Fl a Ar X":     {"-a", "-b"},
		".It Ar PROGRAM":              nil,
		".It":                         nil,
		".It Fl":                      nil,
		"Fl -pid in a sentence":       nil,
		".It Cm list":                 nil,
		".It Fl -all Pq default : no": {"--all"},
	} {
		if diff := cmp.Diff(want, listed(line)); diff != "" {
			t.Errorf("flags of %q (-want +got):\n%s", line, diff)
		}
	}
}
