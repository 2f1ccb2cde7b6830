package main

import (
	"os"
	"strings"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/tools/check"
)

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, new(flags).command(), "jscore.1")
}

func TestManPageHasEveryCommand(t *testing.T) {
	page, err := os.ReadFile("jscore.1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, line := range strings.Split(string(page), "\n") {
		if words := strings.Fields(line); len(words) > 2 && words[0] == ".It" && words[1] == "Ic" {
			got = append(got, words[2])
		}
	}
	documented := strings.Join(got, " ") + " "
	for _, c := range commands() {
		if strings.Count(documented, c.name+" ") == 0 {
			t.Errorf("the manual does not list %s", c.name)
		}
	}
	for _, name := range got {
		if _, err := commands().lookup(name); err != nil {
			t.Errorf("the manual lists %s: %v", name, err)
		}
	}
}

func TestCommandsExplainThemselvesOnATerminal(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range commands() {
		var text strings.Builder
		if err := c.help().write(&text); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(text.String(), "\n") {
			if len(line) > 80 && !strings.HasPrefix(line, c.name) {
				t.Errorf("help %s has a line of %d columns: %q", c.name, len(line), line)
			}
		}
		for _, name := range append([]string{c.name}, c.aliases...) {
			if seen[name] {
				t.Errorf("%s is the name of two commands", name)
			}
			seen[name] = true
		}
		if c.short == "" || c.bind == nil {
			t.Errorf("%s has no help, or does nothing", c.name)
		}
	}
}

func TestHistoryIsKeptWhereStateIs(t *testing.T) {
	folder := t.TempDir()
	for _, tt := range []struct{ state, home, want string }{
		{folder, "/nonexistent", folder + "/jscore/history"},
		{"", folder, folder + "/.local/state/jscore/history"},
		{"relative", folder, ""},
		{"", "", ""},
	} {
		getenv := map[string]string{"XDG_STATE_HOME": tt.state, "HOME": tt.home}
		if got := historyFile(func(name string) string { return getenv[name] }); got != tt.want {
			t.Errorf("history of %+v = %q, want %q", tt, got, tt.want)
		}
	}
}

func TestCapabilitiesOfTheManualAreEnough(t *testing.T) {
	needed := []check.Capability{check.Ptrace, check.DACOverride}
	clitest.CheckCapabilities(t, needed, "jscore", "-p", "{pid}", "status")
}

func TestCheckSaysWhatWorks(t *testing.T) { clitest.CheckCheck(t, "jscore", "ptrace") }

func TestReleasesDenoIsNotUnderstood(t *testing.T) {
	clitest.CheckDeno(t, "jscore", "--json", "jsstack")
}
