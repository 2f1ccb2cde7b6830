package clitest

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

const (
	endLimit  = time.Second      // for an interrupted command to end
	endTries  = 3                // on a busy machine, the best of so many tries counts
	hangLimit = 20 * time.Second // after which a command is considered to hang
)

// A servedFile says which of a process's files is on a separate file system,
// and starts such a process.
type servedFile struct {
	name  string
	start func(t *testing.T, node string) (*nodetest.FileServer, *nodetest.Target)
}

var (
	servedAddon      = servedFile{"add-on", MapServed}
	servedExecutable = servedFile{"executable", runServed}
)

// CheckDeadFileServer runs the command on a process with a file on a file
// system that no longer responds: from the start, or once the command is
// running. The command must say so and work nevertheless, and the first Ctrl-C
// must end it.
func CheckDeadFileServer(t *testing.T, s Sitting, programs ...string) {
	t.Helper()
	node := Node(t, programs...)
	die, hang := (*nodetest.FileServer).Die, (*nodetest.FileServer).Hang
	cases := []struct {
		file   servedFile
		name   string
		die    func(*nodetest.FileServer)
		before bool // the command begins
	}{
		{servedAddon, "it stops answering before", die, true},
		{servedAddon, "it is stopped meanwhile", hang, false},
		{servedExecutable, "it stops answering before", die, true},
		{servedAddon, "it is stopped before", hang, true},
		{servedAddon, "it stops answering meanwhile", die, false},
		{servedExecutable, "it is stopped meanwhile", hang, false},
	}
	for _, c := range cases[:nodetest.Rounds(3, len(cases))] {
		t.Run(c.file.name+"/"+c.name, func(t *testing.T) {
			server, target := c.file.start(t, node)
			if c.before {
				c.die(server)
			}
			var took time.Duration
			for try := range endTries {
				p := Start(t, s.Command, append(s.Flags[:len(s.Flags):len(s.Flags)], "-p", strconv.Itoa(target.PID))...)
				if c.before { // in either order
					p.Line(`does not answer|` + s.Started)
					p.Line(`does not answer|` + s.Started)
				} else {
					p.Line(s.Started)
				}
				if !c.before && try == 0 {
					c.die(server)
				}
				want := 0
				if s.Probes && c.file.name == servedExecutable.name && c.before {
					want = 1
				}
				if took = interrupt(t, p, want); took <= endLimit {
					return
				}
				c.before = true // for what comes next
			}
			t.Errorf("the command ended %v after SIGINT, want at most %v", took, endLimit)
		})
	}
}

// interrupt interrupts the command, checks its exit status, and returns how long it
// takes to end.
func interrupt(t testing.TB, p *Process, want int) time.Duration {
	t.Helper()
	begun := time.Now()
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- p.End(syscall.SIGINT) }()
	select {
	case status := <-ended:
		if !status.Exited() || status.ExitStatus() != want {
			t.Errorf("end = %v (status %d), want status %d", status, status.ExitStatus(), want)
		}
	case <-time.After(hangLimit):
		t.Fatalf("the command has not ended %v after SIGINT", hangLimit)
	}
	return time.Since(begun)
}

// MapServed starts a program that has mapped an add-on from a separate file
// system.
func MapServed(t *testing.T, node string) (*nodetest.FileServer, *nodetest.Target) {
	t.Helper()
	server := nodetest.ServeFile(t, nodetest.PlainAddon(t))
	target := nodetest.Start(t, node, nodetest.Options{Script: "load.js", Args: []string{server.Path}, MayFail: true})
	server.Drop()
	return server, target
}

// runServed starts a program whose node is on a separate file system.
func runServed(t *testing.T, node string) (*nodetest.FileServer, *nodetest.Target) {
	t.Helper()
	server := nodetest.ServeFile(t, node)
	target := nodetest.Start(t, server.Path, nodetest.Options{Script: "mixed.js", MayFail: true})
	// All of the program's code must be in memory once nobody serves it any
	// longer.
	if _, err := os.ReadFile(server.Path); err != nil {
		t.Fatal(err)
	}
	return server, target
}
