package clitest

import (
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ustack/testdata/nodetest"
)

// A Sitting is a command that runs until it is interrupted, and how to see that
// it works.
type Sitting struct {
	Command string
	Flags   []string // before -p PID
	Started string   // a pattern: its line on stderr once it works
	Probes  bool     // probes functions of node itself: without its executable, the command fails
}

// CheckHostileFile runs the command on a process that has mapped a file made to
// break readers of ELF files. The command must say so on a line safe for a
// terminal, work nevertheless, and end with success.
func CheckHostileFile(t testing.TB, s Sitting, programs ...string) {
	t.Helper()
	target := nodetest.Start(t, Node(t, programs...), nodetest.Options{
		Script: "load.js", Args: []string{nodetest.HostileAddon(t)},
	})
	p := Start(t, s.Command, append(s.Flags[:len(s.Flags):len(s.Flags)], "-p", strconv.Itoa(target.PID))...)
	const said = `evil\\x1b]0;title\\x07\.node.*\.gnu_debugdata`
	line := p.Line(`(?s)^.*(` + said + `|` + s.Started + `).*$`)
	if strings.Contains(line, "evil") {
		p.Line(s.Started)
	} else {
		p.Line(said)
	}
	if status := p.End(syscall.SIGINT); !status.Exited() || status.ExitStatus() != 0 {
		t.Errorf("end = %v (status %d), want success", status, status.ExitStatus())
	}
}
