package jsprof

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// allocated is what alloc.js says of itself.
type allocated struct {
	Truth   map[string]float64
	Pauses  map[string]struct{ Count, MS float64 }
	Sampled map[string]float64

	delay time.Duration // for which the main thread was kept from a CPU
}

// memoryOf profiles alloc.js while it allocates.
func memoryOf(t *testing.T, version string, o Options, args ...string) ([]*profile.Profile, allocated) {
	t.Helper()
	nodetest.Root(t)
	nodetest.NothingLeft(t, append(allocationPrograms, collectionPrograms...)...)
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "alloc.js", Args: args})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan struct{})
	o.PIDs = []int{target.PID}
	o.Started = func(int) { close(started) }
	o.Warn = func(err error) { t.Log(err) }
	type result struct {
		profiles []*profile.Profile
		err      error
	}
	results := make(chan result, 1)
	go func() {
		profiles, err := RunAll(ctx, o)
		results <- result{profiles, err}
	}()
	select {
	case <-started:
	case r := <-results:
		t.Fatal(r.err)
	}
	delay := runDelay(t, target.PID)
	target.Signal(syscall.SIGUSR2)
	var said allocated
	if err := json.Unmarshal([]byte(strings.TrimPrefix(target.Line(), "done ")), &said); err != nil {
		t.Fatal(err)
	}
	said.delay = runDelay(t, target.PID) - delay
	cancel()
	r := <-results
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.profiles, said
}

// TestAllocationsAreThoseOfTheProgram compares bytes by function with what the program counts.
func TestAllocationsAreThoseOfTheProgram(t *testing.T) {
	for _, version := range startVersions() {
		t.Run(version, func(t *testing.T) {
			var known Allocated
			profiles, said := memoryOf(t, version, Options{
				Selection: trace.Selection{}, Memory: Allocations, MemoryStep: 16 << 10,
				Allocated: func(a Allocated) { known = a },
			}, "1600") // MB: some 20,000 buffers, with a standard error of 0.4 points
			small := []string{"allocObjects", "allocStrings", "allocArrays"}
			var all float64
			for _, name := range small {
				all += said.Truth[name]
			}
			const points = 3
			for _, name := range small {
				got, want := 100*float64(within(profiles[heap], name))/float64(profiles[heap].Total), 100*said.Truth[name]/all
				if math.Abs(got-want) > points {
					t.Errorf("%s = %.1f %% of the heap's bytes, want %.1f", name, got, want)
				}
			}
			const share = 0.05 // of what is the program's own beside these functions
			if got := float64(known.Attributed + known.Unattributed); math.Abs(got-all) > share*all {
				t.Errorf("heap = %.0f bytes, want %.0f", got, all)
			}
			if got := float64(profiles[large].Total); got < said.Truth["allocLarge"] || got > 1.05*said.Truth["allocLarge"] {
				t.Errorf("large = %.0f bytes, want %.0f", got, said.Truth["allocLarge"])
			}
			if got := float64(profiles[external].Total); got < said.Truth["allocBuffer"] || got > 1.02*said.Truth["allocBuffer"] {
				t.Errorf("external = %.0f bytes, want %.0f", got, said.Truth["allocBuffer"])
			}
		})
	}
}

// TestAllocationsAreThoseOfV8sSampler compares shares of bytes with what V8's sampling heap
// profiler, which is started from within, has of the same run, of objects that are garbage too.
func TestAllocationsAreThoseOfV8sSampler(t *testing.T) {
	for _, version := range startVersions() {
		if nodetest.Major(version) < 20 {
			continue // its sampler forgets what is collected
		}
		t.Run(version, func(t *testing.T) {
			profiles, said := memoryOf(t, version, Options{Memory: Allocations, MemoryStep: 16 << 10}, "400", "--sampler")
			small := []string{"allocObjects", "allocStrings", "allocArrays"}
			var ours, theirs, all float64
			for _, name := range small {
				ours += float64(within(profiles[heap], name))
				theirs += said.Sampled[name]
				all += said.Truth[name]
			}
			const points = 5
			for _, name := range small {
				got, want := 100*float64(within(profiles[heap], name))/ours, 100*said.Sampled[name]/theirs
				t.Logf("%s: %.1f %%, %.1f by V8, %.1f in truth", name, got, want, 100*said.Truth[name]/all)
				if math.Abs(got-want) > points {
					t.Errorf("%s = %.1f %% of the bytes, %.1f by V8's sampler", name, got, want)
				}
			}
		})
	}
}

// TestPausesAreThoseOfPerfHooks compares pauses by kind.
func TestPausesAreThoseOfPerfHooks(t *testing.T) {
	for _, version := range startVersions() {
		t.Run(version, func(t *testing.T) {
			profiles, said := memoryOf(t, version, Options{Memory: Collections})
			for name, kind := range map[string]string{"MINOR": "[scavenge]", "MAJOR": "[mark-compact]"} {
				want := said.Pauses["NODE_PERFORMANCE_GC_"+name]
				var count uint64
				for _, s := range profiles[0].Stacks {
					if s.Frames[0].Name == kind && s.Frames[0].Kind == symbolize.Runtime {
						count += s.Events
					}
				}
				if count != uint64(want.Count) {
					t.Errorf("%d collections of %s, want %v", count, kind, want.Count)
				}
				// The thread may lose its CPU between the two places where the time is taken.
				slack := 0.02*want.MS + 0.5 + float64(said.delay)/1e6
				if got := float64(within(profiles[0], kind)) / 1e6; math.Abs(got-want.MS) > slack {
					t.Errorf("pauses of %s = %.2f ms, want %.2f ± %.2f", kind, got, want.MS, slack)
				}
			}
		})
	}
}

func TestKeysOfMemoryHaveTheirPlace(t *testing.T) {
	m := &memory{o: &Options{Memory: Collections}}
	if n, leaf := m.place(bpf.TraceStackKey{Event: 2}); n != 0 || len(leaf) != 1 || leaf[0].Name != "[mark-compact]" {
		t.Errorf("place = %d, %v, want 0 and mark-compact", n, leaf)
	}
	m.o.Memory = Allocations
	if n, leaf := m.place(bpf.TraceStackKey{Event: external}); n != external || leaf != nil {
		t.Errorf("place = %d, %v, want %d and no frame", n, leaf, external)
	}
}
