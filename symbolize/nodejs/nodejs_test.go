package nodejs_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/nodejs"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/calls"
	"ustack/tools/jscore"
)

// matrix reports whether every version of Node.js is tested.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// versions are those on which Node.js's own memory is read.
func versions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"16.20.2", "22.23.3", "26.10.0"}
}

// dumped returns a snapshot of a process, and its objects.
func dumped(t *testing.T, pid int) (*jscore.Dump, *jscore.Graph) {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	g, err := d.Graph(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d, g
}

// ofClass returns those whose JavaScript objects are of a class.
func ofClass(wraps []nodejs.Wrap, class string) []nodejs.Wrap {
	return slices.DeleteFunc(slices.Clone(wraps), func(w nodejs.Wrap) bool { return w.Object.Class != class })
}

// TestLeakyProgramIsDescribed has a program with an interval of a minute that listens to a
// signal and has no pending request.
func TestLeakyProgramIsDescribed(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "leaky.js"})
			d, g := dumped(t, target.PID)
			handles, err := d.Node().Handles(g.Graph)
			if err != nil {
				t.Fatal(err)
			}
			signals := ofClass(handles, "Signal")
			if len(signals) != 1 {
				t.Fatalf("handles = %+v, want one Signal among them", handles)
			}
			if got := signals[0]; got.Type != "signal" || !got.Active || got.Referenced || got.Closing || got.FD != nil {
				t.Errorf("signal's handle = %+v, want one that is active and not referenced", got)
			}
			requests, err := d.Node().Requests(g.Graph)
			if err != nil || len(requests) != 0 {
				t.Errorf("requests = %+v, %v, want none", requests, err)
			}
			timers := d.Node().Timers(g.Graph)
			if len(timers) != 1 || timers[0].Kind != "interval" || timers[0].After != 60_000 || timers[0].Callback.Text != "tick" {
				t.Errorf("timers = %+v, want the interval of tick alone", timers)
			}
			checkInfo(t, d.Node().Info(g.Graph, true), version)
			if got := d.Node().Info(nil, false); got.Process != 0 || got.Environment != nil || len(got.CommandLine) != 2 {
				t.Errorf("info without objects = %+v, want no process object and no environment", got)
			}
		})
	}
}

// checkInfo checks the description of a process that runs leaky.js.
func checkInfo(t *testing.T, info *nodejs.Info, version string) {
	t.Helper()
	if diff := cmp.Diff(info.CommandLine, info.Argv); diff != "" || len(info.Argv) != 2 {
		t.Errorf("argv (-command line +argv):\n%s", diff)
	}
	if info.Node != "v"+version || info.Platform != "linux x64" || len(info.ExecArgv) != 0 || info.Process == 0 || len(info.Trouble) != 0 {
		t.Errorf("info = Node.js %s, %s, flags %q, process %v, trouble %q, want Node.js %s without flags or trouble",
			info.Node, info.Platform, info.ExecArgv, info.Process, info.Trouble, version)
	}
	named := func(name string) string {
		for _, v := range info.Versions {
			if v.Name == name {
				return v.Text
			}
		}
		return ""
	}
	if named("node") != version || !strings.HasPrefix(named("v8"), info.V8) {
		t.Errorf("versions = %v, want Node.js %s and V8 %s among them", info.Versions, version, info.V8)
	}
	if !slices.ContainsFunc(info.Environment, func(v string) bool { return strings.HasPrefix(v, "PATH=") }) {
		t.Errorf("environment has %d variables, want a PATH among them", len(info.Environment))
	}
}

// waitsProgram waits in every way: for a client, for a timer, and for the system.
const waitsProgram = `const dgram = require('dgram'), dns = require('dns'), net = require('net');
const server = net.createServer(() => {}).listen(0, '127.0.0.1', () => {
  const socket = dgram.createSocket('udp4').bind(0, '127.0.0.1', () => {
    socket.unref();
    function later() {}
    function often() {}
    setTimeout(later, 70e3).unref();
    setTimeout(later, 70e3);
    setInterval(often, 80e3);
    clearTimeout(setTimeout(later, 90e3));
    console.log('ready ' + JSON.stringify({ tcp: server._handle.fd, udp: socket[Object.getOwnPropertySymbols(socket).find((s) => s.description === 'state symbol')].handle.fd }));
  });
});`

// TestWhatNodeWaitsForIsFound compares handles and timers with what the program has.
func TestWhatNodeWaitsForIsFound(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, waitsProgram)
			var facts struct{ TCP, UDP int }
			target.Facts(&facts)
			d, g := dumped(t, target.PID)
			handles, err := d.Node().Handles(g.Graph)
			if err != nil {
				t.Fatal(err)
			}
			for _, tt := range []struct {
				class, kind string
				fd          int
				referenced  bool
			}{{"TCP", "tcp", facts.TCP, true}, {"UDP", "udp", facts.UDP, false}} {
				found := ofClass(handles, tt.class)
				if len(found) != 1 {
					t.Errorf("handles = %+v, want one %s among them", handles, tt.class)
					continue
				}
				got := found[0]
				if got.Type != tt.kind || !got.Active || got.Referenced != tt.referenced || got.FD == nil || *got.FD != tt.fd {
					t.Errorf("handle = %+v, want an active %s of descriptor %d", got, tt.kind, tt.fd)
				}
			}
			checkTimers(t, d.Node().Timers(g.Graph))
		})
	}
}

// checkTimers checks the timers of waitsProgram.
func checkTimers(t *testing.T, timers []nodejs.Timer) {
	t.Helper()
	type timer struct {
		Kind, Callback string
		After          float64
		Unref          bool
	}
	var got []timer
	for _, found := range timers {
		got = append(got, timer{found.Kind, string(found.Callback.Text), found.After, found.Unref})
		if !strings.Contains(found.Place, "source.js line ") || found.Start <= 0 {
			t.Errorf("timer = %+v, want when it started and where its function is", found)
		}
	}
	slices.SortFunc(got, func(a, b timer) int { return int(a.After-b.After)*2 + order(a.Unref) - order(b.Unref) })
	want := []timer{{"timeout", "later", 70e3, false}, {"timeout", "later", 70e3, true}, {"interval", "often", 80e3, false}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("timers (-want +got):\n%s", diff)
	}
}

// TestTimersAreListedOnce has a list of timers that does not lead back to the list, as one
// may not while V8 moves it.
func TestTimersAreListedOnce(t *testing.T) {
	const program = `const timer = setTimeout(function later() {}, 70e3);
timer._idleNext = timer;
console.log('ready');`
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			d, g := dumped(t, calls.StartSource(t, version, program).PID)
			timers := d.Node().Timers(g.Graph)
			if len(timers) != 1 || timers[0].Callback.Text != "later" {
				t.Errorf("%d timers, want that of later alone", len(timers))
			}
		})
	}
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}
