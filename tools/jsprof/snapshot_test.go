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
		Snapshot: func(p *profile.Profile) {
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
	key := func(hash uint64) bpf.JsprofStackKey { return bpf.JsprofStackKey{Ids: 7<<32 | 8, Hash: hash} }
	stack := trace.Stack{PID: 7, TID: 8}
	values := func() (known, unknown uint64) {
		for _, s := range c.takeRecent() {
			if s.PID == 0 {
				unknown += s.count
				continue
			}
			known += s.count
		}
		return known, unknown
	}
	c.stacks[key(1)] = &counted{count: 3}
	c.stacks[key(2)] = &counted{count: 5}
	c.take(3, stack) // not counted yet
	if known, unknown := values(); known != 0 || unknown != 0 {
		t.Errorf("at first: %d with and %d without a stack, want none", known, unknown)
	}
	c.take(1, stack)
	c.stacks[key(3)].count = 7
	if known, unknown := values(); known != 10 || unknown != 5 {
		t.Errorf("then: %d with and %d without a stack, want 10 and 5", known, unknown)
	}
	if len(c.stacks) != 0 {
		t.Errorf("stacks kept = %d, want 0", len(c.stacks))
	}
}
