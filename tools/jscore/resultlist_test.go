package jscore

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8"
)

// testLists checks what commands list for the heap of leaky.js.
func testLists(t *testing.T, l leaky) {
	sessions := l.of("Session")
	alike, err := l.objects.AllAlike(t.Context(), sessions[0], CensusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := alike.Addresses(); !slices.Equal(got, sessions) {
		t.Errorf("alike = %d objects, want the %d sessions", len(got), len(sessions))
	}
	if _, err := l.objects.AllAlike(t.Context(), 8, CensusOptions{}); err == nil {
		t.Error("objects like none have no error, want one")
	}
	all := l.objects.Instances(t.Context(), CensusOptions{Class: "Session"}).Addresses()
	for _, session := range sessions {
		if !slices.Contains(all, session) {
			t.Errorf("instances lack %x", uint64(session))
		}
	}
	spaces, err := l.V8Spaces()
	like(t, textOf(t, spaces, err), "SPACE +PAGES +BYTES\n.*old +[0-9]+ +[0-9]+\n.*")
	dominated := dominated(t, l.objects)
	server, err := dominated.RetainedBy(l.at(""))
	if err != nil {
		t.Fatal(err)
	}
	session, err := dominated.RetainedBy(sessions[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, least := server.Objects[0].Retained, 900*session.Objects[0].Retained; got < least {
		t.Errorf("the server keeps %d bytes alive, want %d or more: those of its sessions", got, least)
	}
}

// testUgrep finds what refers to the program's server: at least a variable of the
// module and a property of the global object.
func testUgrep(t *testing.T, l leaky) {
	server := l.at("")
	places, err := l.Ugrep(t.Context(), server)
	if err != nil || len(places.Places) < 2 {
		t.Fatalf("places = %+v, %v, want two or more", places, err)
	}
	for _, address := range places.Addresses() {
		word, err := l.Word(uint64(address))
		if err != nil || v8.Value(word).Address() != server.Address() {
			t.Errorf("at %x is %x, %v, want %x", uint64(address), word, err, uint64(server))
		}
	}
	like(t, textOf(t, places, nil), "([0-9a-f]+ (anonymous memory|stack of thread [0-9]+|/.*)\n)+")
}

// testStatus checks the report on an idle process that kept running.
func testStatus(t *testing.T, l leaky) {
	status := l.Status()
	like(t, textOf(t, status, nil), fmt.Sprintf(`process:  %d, .*leaky.js
reason:   a core of a process that kept running
version:  Node.js v.*, V8 %v
threads:  \d+
isolate:  [0-9a-f]+ of thread %[1]d
heap:     [0-9.]+ MB: .*old [0-9.]+ MB.*
stack of thread %[1]d:
native: .*epoll_p?wait.*uv_run.*`, l.Info().PID, l.v8.Binary.Version))
	if got := l.WalkJSFrame(l.Threads()[0]); len(got.Values.Values) != 0 {
		t.Errorf("JavaScript frames = %v, want none: it is idle", got.Values)
	}
	if got := l.JSStacks(StackOptions{}); len(got) != len(l.Threads()) || !strings.HasPrefix(textOf(t, got, nil), "thread ") {
		t.Errorf("stacks = %d, want one for each of %d threads", len(got), len(l.Threads()))
	}
}

func TestSignalsHaveReasons(t *testing.T) {
	for _, tt := range []struct {
		signal Signal
		want   string
	}{
		{Signal{Number: 6, Sender: 42}, "SIGABRT (aborted), by the process itself"},
		{Signal{Number: 6, Sender: 43}, "SIGABRT (aborted), by process 43"},
		{Signal{Number: 11, Address: 0x18}, "SIGSEGV (segmentation fault at 18)"},
		{Signal{Number: 5}, "SIGTRAP (trace/breakpoint trap)"},
	} {
		if got := tt.signal.reason(42); got != tt.want {
			t.Errorf("reason of %+v = %q, want %q", tt.signal, got, tt.want)
		}
	}
}
