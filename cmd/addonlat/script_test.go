package main

import (
	"errors"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"addonlat": main})
}

func TestManPageHasEveryFlag(t *testing.T) {
	clitest.CheckManPage(t, command(), "addonlat.1")
}

// TestScripts runs testdata/*.txtar. Their commands beyond testscript's own:
//
//	exits STATUS COMMAND...     run a command that ends with just that status
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("run %s: %v", args[1], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status = %d, want %d", got, want)
	}
}
