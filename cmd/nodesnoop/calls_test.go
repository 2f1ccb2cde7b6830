package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/syscalls"
	"ustack/tools/tcp"
)

// The JSON formats as the manual page describes them, written down a second time on purpose: a
// field that is renamed breaks other people's programs.

type call struct {
	Time      string `json:"time"`
	PID       int    `json:"pid"`
	Thread    int    `json:"thread"`
	Name      string `json:"thread_name"`
	Syscall   string `json:"syscall"`
	State     string `json:"state"`
	Arguments []struct {
		Name  string       `json:"name"`
		Value *json.Number `json:"value"`
		Text  string       `json:"text"`
	} `json:"arguments"`
	Result   *int64   `json:"result"`
	Errno    string   `json:"errno"`
	Duration *int64   `json:"duration_ns"`
	Path     string   `json:"path"`
	Address  string   `json:"address"`
	Local    string   `json:"local"`
	Peer     string   `json:"peer"`
	Data     string   `json:"data"`
	Stack    []string `json:"stack"`
}

// checkCalls is the script's command calls FILE [COUNT]: FILE has calls, or so many.
func checkCalls(ts *testscript.TestScript, _ bool, args []string) {
	calls := clitest.Decode[call](ts, args[0])
	for _, c := range calls {
		if c.Time == "" || c.PID == 0 || c.Thread == 0 || c.Name == "" || c.Syscall == "" || c.Arguments == nil ||
			(c.State == "returned") != (c.Result != nil) || (c.Errno != "") != (c.Result != nil && *c.Result < 0) {
			ts.Fatalf("a field is missing: %+v", c)
		}
		for _, a := range c.Arguments {
			if a.Name == "" || a.Value == nil || a.Text == "" {
				ts.Fatalf("a field of an argument is missing: %+v", c)
			}
		}
	}
	if len(args) > 1 && args[1] != strconv.Itoa(len(calls)) || len(calls) == 0 {
		ts.Fatalf("calls = %d, want %v", len(calls), args[1:])
	}
}

type connection struct {
	Time          string   `json:"time"`
	PID           int      `json:"pid"`
	Thread        int      `json:"thread"`
	Event         string   `json:"event"`
	Socket        uint64   `json:"socket"`
	Local         string   `json:"local"`
	Peer          string   `json:"peer"`
	State         string   `json:"state"`
	From          string   `json:"from"`
	ReceiveQueue  *uint32  `json:"receive_queue"`
	SendQueue     *uint32  `json:"send_queue"`
	Retransmitted *uint32  `json:"retransmitted"`
	ClosedFirst   string   `json:"closed_first"`
	Errno         string   `json:"errno"`
	Waited        int64    `json:"accept_queue_ns"`
	Stack         []string `json:"stack"`
}

// checkConnections is the script's command connections FILE: FILE has all that happens to a
// connection that is closed by the client.
func checkConnections(ts *testscript.TestScript, _ bool, args []string) {
	var changes []string
	for _, c := range clitest.Decode[connection](ts, args[0]) {
		if c.Time == "" || c.PID == 0 || c.Socket == 0 || c.State == "" || c.ReceiveQueue == nil || c.SendQueue == nil ||
			c.Retransmitted == nil || (c.Event == "state") != (c.From != "") || (c.Event == "accepted") != (c.Waited > 0) {
			ts.Fatalf("a field is missing: %+v", c)
		}
		if c.Event == "state" {
			changes = append(changes, c.From+" "+c.State+" "+c.ClosedFirst)
		}
	}
	for _, want := range []string{
		"CLOSE LISTEN ", "CLOSE SYN_SENT ", "SYN_SENT ESTABLISHED ", "ESTABLISHED FIN_WAIT1 local", "ESTABLISHED CLOSE_WAIT remote",
		"CLOSE_WAIT LAST_ACK remote", "LISTEN CLOSE ",
	} {
		if !slices.Contains(changes, want) {
			ts.Fatalf("changes = %q, want %q among them", changes, want)
		}
	}
}

// TestCallsAndConnectionsAreSafe has texts that others choose, all hostile.
func TestCallsAndConnectionsAreSafe(t *testing.T) {
	const bad = "\x1b]0;x\a\u202e\n\xff"
	frames := []symbolize.Frame{{Kind: symbolize.JS, Name: bad, File: bad}}
	c := syscalls.Call{
		Call: event.Call{
			Syscall: event.SyscallNamed("openat"), Path: bad, Data: bad, Address: bad, Socket: &event.Socket{Local: bad, Peer: bad},
		},
		Thread: bad, Frames: frames, Time: time.Now(),
	}
	bound := c
	bound.Syscall = event.SyscallNamed("bind")
	e := tcp.Event{Local: bad, Peer: bad, State: 255, Errno: 9999, Kind: tcp.Changed, Frames: frames}
	for _, json := range []bool{false, true} {
		var out bytes.Buffer
		f := flags{json: json}
		for _, err := range []error{f.writeCall(&out, &c), f.writeCall(&out, &bound), f.writeConnection(&out, &e)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range strings.ToValidUTF8(out.String(), "\ufffd") {
			if c < ' ' && c != '\n' || c == 0x202e || c == 0xfffd {
				t.Errorf("output has %q", c)
			}
		}
	}
}

// TestCallsStandBelowTheirHeader compares where columns end in the header and in a line.
func TestCallsStandBelowTheirHeader(t *testing.T) {
	for _, absolute := range []bool{false, true} {
		f := flags{rows: rows{absolute: absolute}}
		f.rows.begin()
		var out bytes.Buffer
		c := syscalls.Call{Call: event.Call{Syscall: event.SyscallNamed("close")}, PID: 1234567, TID: 7654321, Time: time.Now()}
		if err := f.writeCall(&out, &c); err != nil {
			t.Fatal(err)
		}
		header, line, _ := strings.Cut(out.String(), "\n")
		for name, text := range map[string]string{"PID": "1234567", "THREAD": "7654321"} {
			if got, want := strings.Index(header, name)+len(name), strings.Index(line, text)+len(text); got != want {
				t.Errorf("%s ends at %d, want %d:\n%s", name, got, want, out.String())
			}
		}
	}
}

// TestKillOfEveryModeLeavesNothing kills it while it watches.
func TestKillOfEveryModeLeavesNothing(t *testing.T) {
	nodetest.NothingLeft(t, "on_system_call", "on_system_call_end", "on_state", "on_state_meanwhile", "on_retransmit", "on_file", "on_loop_tick", "on_woken")
	target := serving(t)
	for _, mode := range [][]string{{"--syscalls", "--stacks"}, {"--tcp", "--stacks"}, {"-g", "--loop", "--slower", "1ms", "--stacks"}} {
		p := clitest.Start(t, "nodesnoop", append([]string{"-p", strconv.Itoa(target.PID)}, mode...)...)
		p.Line("^Watching ")
		if got := p.End(syscall.SIGKILL); got.Signal() != syscall.SIGKILL {
			t.Errorf("%v: end = %v, want SIGKILL", mode, got)
		}
	}
	echoed(target)
}

func TestCapabilitiesOfTheManualAreEnoughForCallsAndConnections(t *testing.T) {
	for _, mode := range []string{"--syscalls", "--tcp"} {
		clitest.CheckCapabilities(t, capabilities, "nodesnoop", "-p", "{pid}", "-d", "0.5", mode, "--stacks")
	}
}
