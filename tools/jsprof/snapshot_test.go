package jsprof

import (
	"context"
	"slices"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// TestSnapshotsHaveEverySample adds up the snapshots of a program that spins in a known
// function, and what is left at the end.
func TestSnapshotsHaveEverySample(t *testing.T) {
	nodetest.Root(t)
	target := nodetest.Start(t, nodetest.Node(t, "22.23.3"), nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const enough = 5
	var snapshots []*profile.Profile
	var sum, inLeaf, counted uint64
	p, err := Run(ctx, Options{
		Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 499, Interval: 200 * time.Millisecond,
		Sampled: func(count uint64) { counted = count },
		Snapshot: func(all []*profile.Profile) {
			p := all[0]
			snapshots = append(snapshots, p)
			sum += p.Total
			for _, s := range p.Stacks {
				if slices.ContainsFunc(s.Frames, func(f symbolize.Frame) bool { return f.Name == "leaf" }) {
					inLeaf += s.Value
				}
			}
			if sum > 100 && len(snapshots) >= enough {
				cancel()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := sum + p.Total + p.Lost; got < counted {
		t.Errorf("samples of the snapshots and of the end = %d, want %d or more", got, counted)
	}
	if inLeaf < sum*9/10 {
		t.Errorf("samples in leaf = %d of %d, want nearly all", inLeaf, sum)
	}
	for i, s := range snapshots[1:] {
		if before := snapshots[i]; !s.Start.Equal(before.Start.Add(before.Duration)) {
			t.Errorf("snapshot %d starts at %v, want the end of the one before, %v", i+1, s.Start, before.Start.Add(before.Duration))
		}
	}
	if got := p.Total; got > sum {
		t.Errorf("samples left at the end = %d, of %d in snapshots: they were not forgotten", got, sum)
	}
}

// TestCountsWaitForTheirStacks counts a sample before its stack arrives, and after.
func TestCountsWaitForTheirStacks(t *testing.T) {
	c := newCollector(nil)
	key := func(hash uint64) bpf.TraceStackKey { return bpf.TraceStackKey{Ids: 7<<32 | 8, Hash: hash} }
	stack := trace.Stack{PID: 7, TID: 8}
	values := func() (known, unknown uint64) {
		values, stacks := c.takeRecent()
		for key, total := range values {
			if _, ok := stacks[stackID{key.Ids, key.Hash}]; ok {
				known += total.Value
			} else {
				unknown += total.Value
			}
		}
		return known, unknown
	}
	c.add(key(1), bpf.TraceTotal{Events: 3, Value: 3})
	c.add(key(2), bpf.TraceTotal{Events: 5, Value: 5})
	c.take(3, stack) // not counted yet
	if known, unknown := values(); known != 0 || unknown != 0 {
		t.Errorf("at first: %d with and %d without a stack, want none", known, unknown)
	}
	c.take(1, stack)
	c.add(key(3), bpf.TraceTotal{Events: 7, Value: 7})
	if known, unknown := values(); known != 10 || unknown != 5 {
		t.Errorf("then: %d with and %d without a stack, want 10 and 5", known, unknown)
	}
	if len(c.stacks) != 0 || len(c.values) != 0 || len(c.late) != 0 {
		t.Errorf("kept: %d stacks, %d values, %d late, want none", len(c.stacks), len(c.values), len(c.late))
	}
}
