package clitest

import (
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// aSecond is what a command may take to end once it is interrupted, with much room
// for a busy machine. Without help it would wait for ever.
const aSecond = 20 * time.Second

// CheckDeadFileServer runs the command on a process that has mapped an add-on from a
// file system that does not answer any more: already before, or once the command has
// begun. The first Ctrl-C must end it in both cases.
func CheckDeadFileServer(t *testing.T, s Sitting, programs ...string) {
	t.Helper()
	node := Node(t, programs...)
	cases := []struct {
		name   string
		die    func(*nodetest.FileServer)
		before bool // the command begins
	}{
		{"it stops answering before", (*nodetest.FileServer).Die, true},
		{"it is stopped meanwhile", (*nodetest.FileServer).Hang, false},
		{"it is stopped before", (*nodetest.FileServer).Hang, true},
		{"it stops answering meanwhile", (*nodetest.FileServer).Die, false},
	}
	for _, c := range cases[:nodetest.Rounds(2, len(cases))] {
		t.Run(c.name, func(t *testing.T) {
			server, target := MapServed(t, node)
			if c.before {
				c.die(server)
			}
			p := Start(t, s.Command, append(s.Flags[:len(s.Flags):len(s.Flags)], "-p", strconv.Itoa(target.PID))...)
			if c.before { // in either order
				p.Line(`does not answer|` + s.Started)
				p.Line(`does not answer|` + s.Started)
			} else {
				p.Line(s.Started)
				c.die(server)
			}
			endsSoon(t, p)
		})
	}
}

// MapServed starts a program that has mapped an add-on which a file system of its own
// serves.
func MapServed(t *testing.T, node string) (*nodetest.FileServer, *nodetest.Target) {
	t.Helper()
	server := nodetest.ServeFile(t, nodetest.PlainAddon(t))
	target := nodetest.Start(t, node, nodetest.Options{Script: "load.js", Args: []string{server.Path}, MayFail: true})
	server.Drop()
	return server, target
}

// endsSoon interrupts the command and checks that it ends.
func endsSoon(t *testing.T, p *Process) {
	t.Helper()
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- p.End(syscall.SIGINT) }()
	select {
	case status := <-ended:
		if !status.Exited() || status.ExitStatus() != 0 {
			t.Errorf("end = %v (status %d), want success", status, status.ExitStatus())
		}
	case <-time.After(aSecond):
		t.Fatalf("the command has not ended %v after SIGINT", aSecond)
	}
}
