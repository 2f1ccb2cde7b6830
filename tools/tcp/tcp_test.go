package tcp

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

func TestMain(m *testing.M) {
	reader.Serve()
	os.Exit(m.Run())
}

// programs are the BPF programs that a Run loads.
var programs = []string{"on_state", "on_state_meanwhile", "on_retransmit", "on_system_call", "on_system_call_end", "on_file", "on_exec"}

// eachVersion runs a test on the oldest and the newest supported Node.js.
func eachVersion(t *testing.T, test func(t *testing.T, node string)) {
	t.Helper()
	nodetest.OnVersions(t, []string{"18.20.8", "26.10.0"}, programs, test)
}

// oneVersion is eachVersion for what hardly depends on the version.
func oneVersion(t *testing.T, test func(t *testing.T, node string)) {
	t.Helper()
	nodetest.OnVersions(t, []string{"22.23.3"}, programs, test)
}

// A watch is a Run in progress.
type watch struct {
	t      *testing.T
	cancel context.CancelFunc
	ended  chan struct{}
	counts Counts
	err    error

	mutex  sync.Mutex
	events []Event
	warned []error
	more   chan struct{}
}

// begin returns when everything is attached and what was open then has been found.
func begin(t *testing.T, o Options) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, cancel: cancel, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	o.Interval = 100 * time.Millisecond
	o.Warn = func(err error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.warned = append(w.warned, err)
	}
	o.Event = func(e Event) {
		w.mutex.Lock()
		w.events = append(w.events, e)
		w.mutex.Unlock()
		select {
		case w.more <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(w.ended)
		w.counts, w.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.ended
	})
	w.until(func(e *Event) bool { return e.Kind == Found && e.State == Listen })
	return w
}

const waitLimit = time.Minute // for events, on a machine busy with other tests

// until returns when there is an event that holds.
func (w *watch) until(holds func(*Event) bool) {
	w.t.Helper()
	limit := time.After(waitLimit)
	for {
		w.mutex.Lock()
		found := slices.ContainsFunc(w.events, func(e Event) bool { return holds(&e) })
		w.mutex.Unlock()
		if found {
			return
		}
		select {
		case <-w.more:
		case <-w.ended:
			w.t.Fatalf("Run: %v", w.err)
		case <-limit:
			w.t.Fatal("the event does not come")
		}
	}
}

// end ends the Run and returns its events. There must be no warning.
func (w *watch) end() []Event {
	w.t.Helper()
	w.cancel()
	<-w.ended
	if w.err != nil {
		w.t.Fatalf("Run: %v", w.err)
	}
	for _, err := range w.warned {
		w.t.Errorf("warning = %v, want none", err)
	}
	return w.events
}

// path is what the states of a socket were, and who closed it first.
func path(events []Event, is func(*Event) bool) string {
	var states []string
	var socket uint64
	closer := Nobody
	for _, e := range events {
		if e.Kind == Queues || e.Kind == Retransmitted || !is(&e) || socket != 0 && e.Socket != socket {
			continue
		}
		socket, closer = e.Socket, e.Closer
		state := e.State.String()
		if e.Errno != 0 {
			state += " " + unix.ErrnoName(e.Errno)
		}
		states = append(states, state)
	}
	return strings.Join(append(states, closer.String()), " ")
}

// TestConnectionsAreFollowedToTheirEnd has connections end in all ways. Both ends of each are of the
// process.
func TestConnectionsAreFollowedToTheirEnd(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) { testConnections(t, node, Options{Stacks: true}) })
}

// TestCopiesOfProgramsSeeNoChangeTwice runs the programs as where threads are preempted in them.
func TestCopiesOfProgramsSeeNoChangeTwice(t *testing.T) {
	oneVersion(t, func(t *testing.T, node string) { testConnections(t, node, Options{Stacks: true, preempted: true}) })
}

func testConnections(t *testing.T, node string, o Options) {
	target := nodetest.Start(t, node, nodetest.Options{Script: "connections.js"})
	var facts struct{ Server int }
	if err := json.Unmarshal(target.Ready, &facts); err != nil {
		t.Fatal(err)
	}
	o.PIDs = []int{target.PID}
	w := begin(t, o)
	target.Signal(syscall.SIGUSR2)
	text, _ := strings.CutPrefix(target.Line(), "connected")
	ports := make(map[string]int)
	if err := json.Unmarshal([]byte(text), &ports); err != nil {
		t.Fatal(err)
	}
	ended, reset := endUnaccepted(t, target, facts.Server)
	for _, client := range []int{ended, reset} {
		w.until(func(e *Event) bool { return e.Kind == Accepted && ends(e, facts.Server, client) })
	}
	events := w.end()
	for client, want := range map[int]string{ended: "CLOSE_WAIT remote", reset: "CLOSE ECONNRESET remote"} {
		if got := path(events, func(e *Event) bool { return ends(e, facts.Server, client) }); got != want {
			t.Errorf("ended before it was accepted: %q, want %q", got, want)
		}
	}
	for name, want := range map[string][2]string{ // of the client, of the server
		"closeHere":  {"ESTABLISHED FIN_WAIT1 FIN_WAIT2 CLOSE local", "ESTABLISHED CLOSE_WAIT LAST_ACK CLOSE remote"},
		"closeThere": {"ESTABLISHED CLOSE_WAIT LAST_ACK CLOSE remote", "ESTABLISHED FIN_WAIT1 FIN_WAIT2 CLOSE local"},
		"resetHere":  {"ESTABLISHED CLOSE local", "ESTABLISHED CLOSE ECONNRESET remote"},
		"fill":       {"ESTABLISHED FIN_WAIT1 CLOSE ECONNRESET local", "ESTABLISHED CLOSE local"},
	} {
		client := path(events, func(e *Event) bool { return ends(e, ports[name], facts.Server) })
		server := path(events, func(e *Event) bool { return ends(e, facts.Server, ports[name]) })
		if client != want[0] || server != want[1] {
			t.Errorf("%s: client %q, server %q, want %q", name, client, server, want)
		}
	}
	refused := path(events, func(e *Event) bool { return e.Peer == "127.0.0.1:1" })
	if want := "SYN_SENT CLOSE ECONNREFUSED "; refused != want {
		t.Errorf("refused: %q, want %q", refused, want)
	}
	checkCallers(t, events, target.PID)
	checkQueues(t, events, ports["fill"], facts.Server)
}

// endUnaccepted makes connections to the server while it is stopped, of which it ends one and resets
// another one. It returns their ports.
func endUnaccepted(t *testing.T, target *nodetest.Target, server int) (ended, reset int) {
	t.Helper()
	target.Signal(syscall.SIGSTOP)
	defer target.Signal(syscall.SIGCONT)
	for _, port := range []*int{&ended, &reset} {
		c, err := net.DialTCP("tcp4", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: server})
		if err != nil {
			t.Fatal(err)
		}
		*port = c.LocalAddr().(*net.TCPAddr).Port
		if port == &reset {
			err = c.SetLinger(0)
		}
		if err = errors.Join(err, c.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return ended, reset
}

// ends reports whether the event's socket has these ports.
func ends(e *Event, local, peer int) bool { return port(e.Local) == local && port(e.Peer) == peer }

func port(address string) int {
	a, _ := netip.ParseAddrPort(address)
	return int(a.Port())
}

// checkCallers checks that what the functions do has them on its stack, and that no packet has one.
func checkCallers(t *testing.T, events []Event, pid int) {
	t.Helper()
	found := make(map[string]State)
	for _, e := range events {
		if (e.TID != 0) != (len(e.Frames) > 0 || e.Kind == Accepted) || e.PID != pid {
			t.Errorf("event %+v has a thread without a stack, or the other way round", e)
		}
		for _, f := range e.Frames {
			if strings.HasSuffix(f.Name, "HereNow") || strings.HasSuffix(f.Name, "ThereNow") {
				found[f.Name] = e.State
			}
		}
	}
	if found["closeHereNow"] != State(4) || found["resetHereNow"] != Close {
		t.Errorf("functions on stacks = %v, want closeHereNow at FIN_WAIT1 and resetHereNow at CLOSE", found)
	}
}

// checkQueues checks that what waited to be sent and to be read was reported.
func checkQueues(t *testing.T, events []Event, client, server int) {
	t.Helper()
	var unsent, unread, waited bool
	for _, e := range events {
		unsent = unsent || e.Kind == Queues && ends(&e, client, server) && e.SendQueue > 0
		unread = unread || e.Kind == Queues && ends(&e, server, client) && e.ReceiveQueue > 0
		waited = waited || e.Kind == Accepted && e.Waited > 0 && e.Waited < waitLimit
	}
	if !unsent || !unread || !waited {
		t.Errorf("queues reported: unsent %t, unread %t, until accepted %t, want all", unsent, unread, waited)
	}
}

// TestRetransmissionsAreSeen connects to a socket that takes no more connections: the requests are
// dropped, and sent again after a second.
func TestRetransmissionsAreSeen(t *testing.T) {
	eachVersion(t, func(t *testing.T, node string) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			t.Fatal(err)
		}
		if err := unix.Listen(fd, 0); err != nil {
			t.Fatal(err)
		}
		name, err := unix.Getsockname(fd)
		if err != nil {
			t.Fatal(err)
		}
		full := name.(*unix.SockaddrInet4).Port
		target := nodetest.Start(t, node, nodetest.Options{Script: "connections.js", Args: []string{strconv.Itoa(full)}})
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
		target.Signal(syscall.SIGUSR2)
		w.until(func(e *Event) bool {
			return e.Kind == Retransmitted && e.State.String() == "SYN_SENT" && port(e.Peer) == full && e.TID == 0
		})
		for _, e := range w.end() {
			if e.PID != target.PID {
				t.Errorf("event of process %d: this test's own sockets are not its target's", e.PID)
			}
		}
	})
}

// TestSocketsOfOthersAreNotShown has another process connect meanwhile.
func TestSocketsOfOthersAreNotShown(t *testing.T) {
	oneVersion(t, func(t *testing.T, node string) {
		target := nodetest.Start(t, node, nodetest.Options{Script: "connections.js"})
		other := nodetest.Start(t, node, nodetest.Options{Script: "connections.js"})
		w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}})
		other.Signal(syscall.SIGUSR2)
		other.Line()
		if events := w.end(); len(events) != 1 || w.counts.Sockets != 1 {
			t.Errorf("%d events of %d sockets, want one that listens: %+v", len(events), w.counts.Sockets, events)
		}
	})
}
