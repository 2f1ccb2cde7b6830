package nodesnoop

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/testdata/nodetest"
)

// programs are the kernel's names of the programs that must not be left behind.
var programs = []string{
	"on_headers", "on_flush", "on_try_write", "on_tls_write", "on_sent", "on_received", "on_read", "on_close", "on_shutdown", "on_connecting",
	"on_gc_prologue", "on_gc_epilogue", "on_collect", "on_collector", "on_collected",
	"on_h2_begin", "on_h2_field", "on_h2_sent", "on_h2_received", "on_h2_close", "on_wait", "on_woken",
	"on_queue", "on_submit", "on_run", "on_ran", "on_done", "on_connect", "on_connect_path", "on_query", "on_reverse", "on_exchanged",
}

const anyVersion = "22.23.3" // for tests that do not depend on the version

// eachVersion runs a test on the oldest and the newest supported Node.js.
func eachVersion(t *testing.T, test func(t *testing.T, node string)) {
	t.Helper()
	nodetest.OnVersions(t, []string{"18.20.8", "26.10.0"}, programs, test)
}

// prepare returns a node for a test that loads programs into the kernel.
func prepare(t testing.TB, version string) string {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	return nodetest.Node(t, version)
}

// A watch is a Run in progress.
type watch struct {
	t      testing.TB
	cancel context.CancelFunc
	ended  chan struct{}
	counts Counts
	err    error

	mutex  sync.Mutex
	events []Event
	warned []error
	more   *sync.Cond
}

// begin returns when everything is attached.
func begin(t testing.TB, o Options) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, cancel: cancel, ended: make(chan struct{})}
	w.more = sync.NewCond(&w.mutex)
	started := make(chan struct{})
	o.Started = func() { close(started) }
	o.Warn = func(err error) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.warned = append(w.warned, err)
	}
	o.Event = func(e *Event) {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.events = append(w.events, *e)
		w.more.Broadcast()
	}
	go func() {
		defer close(w.ended)
		w.counts, w.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-w.ended
	})
	select {
	case <-started:
	case <-w.ended:
		t.Fatalf("Run: %v", w.err)
	}
	return w
}

// end ends the Run and returns its events. There must be no warning.
func (w *watch) end() []Event {
	w.t.Helper()
	return w.endWarned("")
}

// endWarned is like end, but there may be warnings that contain a text.
func (w *watch) endWarned(allowed string) []Event {
	w.t.Helper()
	w.cancel()
	<-w.ended
	if w.err != nil {
		w.t.Fatalf("Run: %v", w.err)
	}
	for _, err := range w.warned {
		if allowed == "" || !strings.Contains(err.Error(), allowed) {
			w.t.Errorf("warning = %v, want none", err)
		}
	}
	return w.events
}

// wait returns when there are n events.
func (w *watch) wait(n int) {
	w.t.Helper()
	enough := make(chan struct{})
	go func() {
		defer close(enough)
		w.mutex.Lock()
		defer w.mutex.Unlock()
		for len(w.events) < n && w.t.Context().Err() == nil {
			w.more.Wait()
		}
	}()
	select {
	case <-enough:
	case <-w.ended:
	case <-time.After(waitLimit):
		w.t.Errorf("events do not come: %d expected", n)
	}
}

const waitLimit = time.Minute // for events, on a machine busy with other tests

// TestProcessesOfOneSlotAreDistinguished watches a process when another, of whose pid the
// lower bits are the same, is watched before it, and perhaps no longer.
func TestProcessesOfOneSlotAreDistinguished(t *testing.T) {
	server := startServer(t, prepare(t, anyVersion), serving{})
	for _, leaves := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
		defer cancel()
		other := &target{pid: server.PID + 7*nodeSlots, number: 1 << 9}
		var s *session
		var got []string
		o := Options{Selection: server.selection(), Kinds: Kinds{Server: true}, Event: func(e *Event) {
			got = append(got, e.URL)
			cancel()
		}}
		o.Started = func() {
			if leaves {
				if err := s.leave(other); err != nil {
					t.Error(err)
				}
			}
			c := dial(t, "tcp", at(server.facts.Ports[0][0]), false)
			if _, err := c.send(query{method: "GET", url: "/hello"}); err != nil {
				t.Error(err)
				cancel()
			}
		}
		s, err := open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.enter(other); err != nil {
			t.Fatal(err)
		}
		if _, err := s.run(ctx); err != nil {
			t.Error(err)
		}
		s.detach(server.PID)
		if !leaves {
			err = s.leave(other)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Error(err)
		}
		if !slices.Equal(got, []string{"/hello"}) {
			t.Errorf("requests = %q, want /hello", got)
		}
		if at := s.slots[server.PID%nodeSlots]; at != (slot{}) {
			t.Errorf("slot = %+v when no process is watched, want none", at)
		}
	}
}
