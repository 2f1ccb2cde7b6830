package jsprof

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// eventOf returns the event of that name.
func eventOf(t *testing.T, name string) event.Event {
	t.Helper()
	e, err := event.Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// within returns the value of the stacks with a function.
func within(p *profile.Profile, name string) (n uint64) {
	for _, s := range p.Stacks {
		if slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Name == name }) {
			n += s.Value
		}
	}
	return n
}

// TestEventsAreThoseOfTheKernel compares events by function with how many the program
// causes, and with what the kernel counted for the process.
func TestEventsAreThoseOfTheKernel(t *testing.T) {
	nodetest.Root(t)
	for _, version := range startVersions() {
		for _, tt := range []struct {
			event, function string
			in              uint64
		}{
			{"page-faults", "touch", 1},
			{"minor-faults", "touch", 7},
			{"context-switches", "rest", 1},
		} {
			t.Run(fmt.Sprintf("node%d/%s/%d", nodetest.Major(version), tt.event, tt.in), func(t *testing.T) {
				nodetest.NothingLeft(t, programs...)
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "faults.js"})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				started := make(chan int, 1)
				o := Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Events: []event.Event{eventOf(t, tt.event)}, Every: tt.in}
				o.Started = func(hz int) { started <- hz }
				type result struct {
					*profile.Profile
					err error
				}
				results := make(chan result, 1)
				go func() {
					p, err := Run(ctx, o)
					results <- result{p, err}
				}()
				if hz := <-started; hz != 0 {
					t.Errorf("rate = %d Hz, want none", hz)
				}
				target.Signal(syscall.SIGUSR2)
				var f struct{ Pages, Faults, Waits, Switches uint64 }
				if err := json.Unmarshal([]byte(strings.TrimPrefix(target.Line(), "done ")), &f); err != nil {
					t.Fatal(err)
				}
				cancel()
				p := <-results
				if p.err != nil {
					t.Fatal(p.err)
				}
				got := within(p.Profile, tt.function)
				least, most := f.Pages, f.Faults
				if tt.event == "context-switches" {
					least, most = f.Waits, f.Switches
				}
				slack := 2 * tt.in * uint64(runtime.NumCPU()) // the first page may be in use; each CPU counts for itself
				t.Logf("%d %s in %s, want %d to %d", got, tt.event, tt.function, least, most)
				if got+slack < least || got > most+slack || got%tt.in != 0 {
					t.Errorf("%d %s in %s, want %d to %d in steps of %d", got, tt.event, tt.function, least, most, tt.in)
				}
				if p.Lost != 0 || p.Hz != 0 || p.ValueType.Type != tt.event {
					t.Errorf("profile of %s has %d lost, %d Hz, want %s, none lost and no rate", p.ValueType.Type, p.Lost, p.Hz, tt.event)
				}
			})
		}
	}
}
