package live

import (
	"context"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
	"ustack/tools/profile"
)

func TestSharesAddUp(t *testing.T) {
	const s = time.Second
	for _, tt := range []struct {
		name string
		in   spent
		want map[string]float64
	}{
		{"idle", spent{all: s, idle: 50, samples: map[string]uint64{}}, map[string]float64{Idle: 100}},
		{"asleep, never sampled", spent{all: s, samples: map[string]uint64{}}, map[string]float64{Idle: 100}},
		{
			"of each",
			spent{all: s, ran: s / 2, runnable: s / 10, idle: 30, blocked: 10, samples: map[string]uint64{"JavaScript": 3, "GC": 1, "idle": 1}},
			map[string]float64{Idle: 30, Blocked: 10, Runnable: 10, "JavaScript": 30, "GC": 10, "native": 10},
		},
		{"too short for a sample", spent{all: s, ran: s / 100, idle: 1, samples: map[string]uint64{}}, map[string]float64{Idle: 99, "native": 1}},
		{"counted late", spent{all: s, ran: 2 * s, runnable: s, samples: map[string]uint64{"GC": 1}}, map[string]float64{"GC": 100}},
		{"no time", spent{}, nil},
	} {
		sum := 0.0
		got := tt.in.shares()
		for _, share := range got {
			sum += share.Percent
			if math.Abs(share.Percent-tt.want[share.Name]) > 0.01 {
				t.Errorf("%s: %s = %.1f %%, want %.1f %%", tt.name, share.Name, share.Percent, tt.want[share.Name])
			}
		}
		if got != nil && math.Abs(sum-100) > 0.01 {
			t.Errorf("%s: the sum is %.1f %%, want 100 %%", tt.name, sum)
		}
	}
}

// largest returns the largest share of a process's main thread, once its State has seen it
// asleep or running.
func largest(t *testing.T, pid int, p *profile.Profile) string {
	t.Helper()
	l, err := NewLoop(pid, event.SyscallName)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { l.Watch(ctx) })
	defer watching.Wait()
	defer cancel()
	seen := func() bool {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		ran, _, err := l.times()
		if err != nil {
			t.Fatal(err)
		}
		return l.idle+l.blocked > 5 || ran-l.ran > 100*time.Millisecond
	}
	for !seen() {
		continue
	}
	shares, err := l.State(p)
	if err != nil {
		t.Fatal(err)
	}
	var most Share
	for _, share := range shares {
		if share.Percent > most.Percent && share.Name != Runnable { // others use this machine, too
			most = share
		}
	}
	return most.Name
}

// TestStatesOfProcesses watches processes that do one thing.
func TestStatesOfProcesses(t *testing.T) {
	node := nodetest.Node(t, "24.21.0")
	start := func(source string) int {
		t.Helper()
		script := t.TempDir() + "/program.js"
		if err := os.WriteFile(script, []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
		return nodetest.Start(t, node, nodetest.Options{Script: script}).PID
	}
	idle := start(`setInterval(() => {}, 1e6); setTimeout(() => console.log('ready'), 1);`)
	if got := largest(t, idle, &profile.Profile{}); got != Idle {
		t.Errorf("waiting for a timer = %s, want %s", got, Idle)
	}
	blocked := start(`console.log('ready'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);`)
	if got := largest(t, blocked, &profile.Profile{}); got != Blocked {
		t.Errorf("waiting for a lock = %s, want %s", got, Blocked)
	}
	spins := start(`console.log('ready'); for (;;);`)
	p := &profile.Profile{Stacks: []profile.Stack{
		{TID: spins, Value: 1, Frames: []symbolize.Frame{{Kind: symbolize.JS, Name: "spin"}}},
		{TID: spins + 1, Value: 9, Frames: []symbolize.Frame{{Name: "malloc"}}}, // another thread's
	}}
	if got := largest(t, spins, p); got != "JavaScript" {
		t.Errorf("computing = %s, want JavaScript", got)
	}
}

func TestLoopOfNoProcess(t *testing.T) {
	const none = 1<<22 - 1
	if _, err := NewLoop(none, event.SyscallName); err == nil {
		t.Error("a process that does not exist is watched")
	}
}
