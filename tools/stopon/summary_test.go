package stopon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

func summaryHit(at int, what string, took time.Duration, frames ...string) *Hit {
	h := &Hit{Time: time.Unix(int64(at), 0), Trigger: "syscall", Syscall: what, Duration: took}
	for _, name := range frames {
		h.Frames = append(h.Frames, symbolize.Frame{Kind: symbolize.JS, Name: name, File: "/a.js", Line: 3, ExecutingLine: at})
	}
	return h
}

func TestSummaryCountsByTriggerAndStack(t *testing.T) {
	var s Summary
	s.Add(summaryHit(7, "open", 0, "a", "main"))
	s.Add(summaryHit(9, "close", 5, "a", "main"))
	s.Add(summaryHit(2, "close", 3, "a", "main")) // in another line, and earlier
	s.Add(summaryHit(4, "close", 11, "b", "main"))
	failed := summaryHit(5, "close", 0, "a", "main")
	failed.Errno = unix.EBADF
	for range 3 {
		s.Add(failed)
	}
	var got []string
	for _, g := range s.Groups() {
		got = append(got, fmt.Sprint(g.Count, " ", g.What, " ", g.Frames[0].Name, " ", g.Frames[0].ExecutingLine, " ",
			g.First.Unix(), "-", g.Last.Unix(), " ", g.Timed, " ", int64(g.Total), " ", int64(g.Min), "-", int64(g.Max)))
	}
	want := []string{
		"3 close EBADF a 0 5-5 0 0 0-0",
		"2 close a 0 2-9 2 8 3-5",
		"1 close b 0 4-4 1 11 11-11",
		"1 open a 0 7-7 0 0 0-0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestSummaryOfTooManyStacks(t *testing.T) {
	var s Summary
	for i := range maxGroups + 13 {
		s.Add(summaryHit(1, "close", 0, fmt.Sprint("f", i)))
	}
	s.Add(summaryHit(1, "close", 0, "f0"))
	groups := s.Groups()
	if len(groups) != maxGroups || s.Other() != 13 || groups[0].Count != 2 {
		t.Errorf("%d groups, the first of %d, and %d others, want %d, 2 and 13", len(groups), groups[0].Count, s.Other(), maxGroups)
	}
}

func TestSummaryCountsWholeStalls(t *testing.T) {
	var s Summary
	s.Add(&Hit{Number: 1, Trigger: "stall", Duration: 100})
	s.Add(&Hit{Number: 2, Trigger: "stall", Duration: 110})
	s.End(&Hit{Number: 1, Trigger: stallEnd, Duration: 700})
	s.End(&Hit{Number: 3, Trigger: stallEnd, Duration: 900}) // was not reported
	g := s.Groups()[0]
	if g.Count != 2 || g.Timed != 2 || g.Total != 810 || g.Min != 110 || g.Max != 700 {
		t.Errorf("stalls = %+v, want 2 of 110 and 700 ns", g)
	}
}

func TestGroupJSON(t *testing.T) {
	var s Summary
	s.Add(summaryHit(0, "close", 7, "evil\x1b", "main"))
	text, err := json.Marshal(s.Groups()[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"trigger":"syscall"`, `"what":"close"`, `"count":1`, `"total_ns":7`, `"min_ns":7`, `"max_ns":7`, `"user_frame":{`, `"stack":[{`, `"timed":1`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("JSON = %s, want %s in it", text, want)
		}
	}
}

// TestTriggersAreCountedExactly: by trigger, also those for which the rate left no
// action.
func TestTriggersAreCountedExactly(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
	r := watch(t, target, Options{
		Syscalls: []string{"close", "read"}, Errnos: []unix.Errno{unix.EBADF},
		Functions: []event.Function{{Symbol: "uv_fs_close"}}, Interval: time.Hour, Burst: 2,
	})
	events := uint64(perform(t, target).Events)
	if hits := r.end(2); len(hits) != 2 {
		t.Errorf("hits = %d, want 2", len(hits))
	}
	const closes = 20 + 9 + 1 // for each event, as trouble.js has them
	want := []Tally{
		{Trigger: "function", What: "uv_fs_close", Matches: closes * events},
		{Trigger: "syscall", What: "close", Matches: events},
		{Trigger: "syscall", What: "read", Matches: events},
	}
	limited := uint64(0)
	got := slices.Clone(r.result.Triggers)
	for i := range got {
		limited += got[i].Limited
		got[i].Limited = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("triggers (-want +got):\n%s", diff)
	}
	all := (closes + 2) * events
	if r.result.Matches != all || limited != all-2 || r.result.Limited != limited {
		t.Errorf("matches = %d, %d of them limited, and %d by trigger, want %d, all but 2 limited",
			r.result.Matches, r.result.Limited, limited, all)
	}
}

// TestRestIsReported: all that was recorded is, although the run ends first.
func TestRestIsReported(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
	held := make(chan struct{})
	r := watch(t, target, Options{
		Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EBADF}, Rest: true,
		Report: func(*Hit) error {
			<-held
			return nil
		},
	})
	events := perform(t, target).Events
	r.cancel()
	close(held)
	<-r.done
	if r.err != nil || len(r.hits) != events || r.result.Unreported != 0 {
		t.Errorf("hits = %d, %d of them not reported (%v), want %d and none", len(r.hits), r.result.Unreported, r.err, events)
	}
}

func TestTimeoutWithoutAnything(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	target := nodetest.Start(t, nodetest.Node(t, "24.21.0"), nodetest.Options{Script: "trouble.js", Args: []string{"badclose"}})
	nothing := watch(t, target, Options{Syscalls: []string{"close"}, Errnos: []unix.Errno{unix.EIO}, Timeout: time.Millisecond})
	<-nothing.done
	if nothing.err != nil || nothing.result.Seen() {
		t.Errorf("result = %+v (%v), want nothing seen", nothing.result, nothing.err)
	}
}
