package main

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

func sitting() clitest.Sitting {
	return clitest.Sitting{Command: "nodesnoop", Probes: true, Started: "^Watching "}
}

func TestChaosHostileFile(t *testing.T) {
	clitest.CheckHostileFile(t, sitting(), programs...)
}

func TestChaosDeadFileServer(t *testing.T) {
	clitest.CheckDeadFileServer(t, sitting(), programs...)
}

// TestChaosStoppedToolHarmsNothing has nodesnoop stopped, and then continued or killed. The
// process runs on meanwhile; what was seen meanwhile is shown when nodesnoop continues.
func TestChaosStoppedToolHarmsNothing(t *testing.T) {
	target := serving(t)
	echoed(target) // all its threads have started
	for _, end := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		unharmed := nodetest.Unharmed(t, target.PID)
		p := clitest.Start(t, "nodesnoop", "-p", strconv.Itoa(target.PID), "-s", "-o", "PATH")
		p.Line("^Watching ")
		p.Signal(syscall.SIGSTOP)
		rounds := nodetest.Rounds(1, 20)
		for range rounds {
			echoed(target)
		}
		unharmed()
		if end == syscall.SIGKILL {
			p.End(end)
		} else {
			p.Signal(syscall.SIGCONT)
			echoed(target)
			if got := p.End(end); got.ExitStatus() != 0 {
				t.Errorf("exit status = %d, want 0", got.ExitStatus())
			}
			if got, want := strings.Count(p.Stdout(), "/echo\n"), 50*(rounds+1); got < want {
				t.Errorf("requests = %d, want %d or more", got, want)
			}
		}
		unharmed()
	}
	echoed(target)
}
