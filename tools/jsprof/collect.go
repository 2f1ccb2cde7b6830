package jsprof

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// A collector handles the kernel's events while sampling runs, and adds up its
// counts.
type collector struct {
	session *session

	mutex  sync.Mutex
	stacks map[bpf.JsprofStackKey]*counted
	other  uint64 // samples whose stacks were beyond maxStacks
	fresh  int    // stacks announced since the counts were last drained
}

// maxStacks bounds the distinct stacks that are kept, of up to 4 kB each: a program
// that creates functions without end has as many stacks as samples.
const maxStacks = 1 << 16

type counted struct {
	trace.Stack
	count uint64
	late  bool // it was counted before the last snapshot, and its stack has not arrived
}

func newCollector(s *session) *collector {
	return &collector{session: s, stacks: make(map[bpf.JsprofStackKey]*counted)}
}

func (c *collector) take(hash uint64, stack trace.Stack) {
	key := bpf.JsprofStackKey{Ids: uint64(stack.PID)<<32 | uint64(stack.TID), Hash: hash}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.fresh++
	switch s, ok := c.stacks[key]; {
	case ok && s.PID == 0: // it was counted before it arrived
		s.Stack = stack
	case !ok && len(c.stacks) < maxStacks:
		c.stacks[key] = &counted{Stack: stack}
	}
}

// relieve drains the kernel's counts before its map is full.
func (c *collector) relieve() {
	c.mutex.Lock()
	full := c.fresh > int(c.session.objects.Counts.MaxEntries())/2
	c.mutex.Unlock()
	if full {
		if err := c.drain(); err != nil {
			c.session.Warn(err)
		}
	}
}

// drain moves the kernel's counts to the stacks.
func (c *collector) drain() error {
	var keys []bpf.JsprofStackKey
	var key bpf.JsprofStackKey
	var count uint64
	counts := c.session.objects.Counts
	entries := counts.Iterate()
	for entries.Next(&key, &count) {
		keys = append(keys, key)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("read the kernel's counts: %w", err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.fresh = 0
	for _, key := range keys {
		if err := counts.LookupAndDelete(&key, &count); err != nil {
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				continue
			}
			return fmt.Errorf("take out the kernel's counts: %w", err)
		}
		switch {
		case c.stacks[key] != nil:
			c.stacks[key].count += count
		case len(c.stacks) < maxStacks:
			c.stacks[key] = &counted{count: count}
		default:
			c.other += count
		}
	}
	return nil
}

// profile returns everything that was sampled. Sampling must have stopped.
func (c *collector) profile() (*profile.Profile, error) {
	if err := errors.Join(c.session.Flush(), c.drain()); err != nil {
		return nil, err
	}
	objects := &c.session.objects
	failures, err := c.session.Failures(objects.Failures)
	if err != nil {
		return nil, err
	}
	p := &profile.Profile{
		ValueType: c.session.o.ValueType(),
		Failures:  failures,
		Lost:      c.session.Count(objects.Lost),
		Truncated: c.session.Count(objects.Truncated),
	}
	weight := uint64(1) // of a sample
	if c.session.o.counted() {
		weight = c.session.o.In
	}
	for _, id := range c.session.Table.Identities() {
		p.Processes = append(p.Processes, profile.Process{PID: id.PID, Title: id.Title, Node: id.Node, V8: id.V8})
	}
	if c.other > 0 {
		p.Total += c.other * weight
		p.Stacks = append(p.Stacks, profile.Stack{Value: c.other * weight, Frames: []symbolize.Frame{{Name: "[other stacks]"}}})
		c.session.Warn(fmt.Errorf("more than %d distinct stacks: %d samples of others are together as [other stacks]", maxStacks, c.other))
	}
	for _, s := range c.stacks {
		if s.count == 0 {
			continue
		}
		frames, unknown := c.session.Table.Frames(s.Stack)
		p.Total += s.count * weight
		p.UnknownFrames += s.count * uint64(unknown)
		p.Stacks = append(p.Stacks, profile.Stack{
			Value: s.count * weight, PID: s.PID, TID: s.TID, Thread: s.Thread, Frames: frames,
		})
	}
	return p, nil
}
