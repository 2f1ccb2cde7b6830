package jsprof

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// A collector handles the kernel's events while sampling runs, and adds up its
// counts.
type collector struct {
	session *session

	mutex    sync.Mutex
	stacks   map[stackID]trace.Stack
	values   map[bpf.TraceStackKey]bpf.TraceTotal
	late     map[bpf.TraceStackKey]bool // values that were there at the last snapshot, but not their stacks
	other    map[uint16]bpf.TraceTotal  // of stacks beyond maxStacks, by the number of the kind of event
	reported losses                     // in snapshots
	fresh    int                        // stacks announced since the counts were last drained
}

// maxStacks bounds the distinct stacks that are kept, of up to 4 kB each: a program
// that creates functions without end has as many stacks as samples.
const maxStacks = 1 << 16

// maxValues bounds the values: a stack has one for each kind of event and each bucket.
const maxValues = 1 << 18

type stackID struct{ ids, hash uint64 }

func newCollector(s *session) *collector {
	return &collector{
		session: s, stacks: make(map[stackID]trace.Stack),
		values: make(map[bpf.TraceStackKey]bpf.TraceTotal), late: make(map[bpf.TraceStackKey]bool), other: make(map[uint16]bpf.TraceTotal),
	}
}

func (c *collector) take(hash uint64, stack trace.Stack) {
	id := stackID{uint64(stack.PID)<<32 | uint64(stack.TID), hash}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.fresh++
	if _, ok := c.stacks[id]; !ok && len(c.stacks) < maxStacks {
		c.stacks[id] = stack
	}
}

// relieve drains the kernel's counts before its map is full.
func (c *collector) relieve() {
	c.mutex.Lock()
	full := c.fresh > int(c.session.kernel.Counts.MaxEntries())/2
	c.mutex.Unlock()
	if full {
		if err := c.drain(); err != nil {
			c.session.Warn(err)
		}
	}
}

// drain moves the kernel's counts to the collector's.
func (c *collector) drain() error {
	c.mutex.Lock()
	c.fresh = 0
	c.mutex.Unlock()
	kernel := &c.session.kernel
	return loader.Drain(kernel.Counts, kernel.Turn, turnOf, func(key bpf.TraceStackKey, total *bpf.TraceTotal) {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.add(key, *total)
	})
}

func turnOf(key *bpf.TraceStackKey) *uint16 { return &key.Turn }

// add adds to the values of a key, or to those of other stacks if there is no room.
func (c *collector) add(key bpf.TraceStackKey, more bpf.TraceTotal) {
	old, known := c.values[key]
	if !known && len(c.values) >= maxValues {
		c.addOther(key.Event, more)
		return
	}
	c.values[key] = sum(old, more)
}

func sum(a, b bpf.TraceTotal) bpf.TraceTotal {
	return bpf.TraceTotal{Events: a.Events + b.Events, Value: a.Value + b.Value}
}

func (c *collector) addOther(event uint16, more bpf.TraceTotal) {
	c.other[event] = sum(c.other[event], more)
}

// profiles returns everything that was counted and not taken by snapshot. The programs must be
// detached.
func (c *collector) profiles() ([]*profile.Profile, error) {
	if err := errors.Join(c.session.Flush(), c.drain()); err != nil {
		return nil, err
	}
	if rest := c.session.source.rest; rest != nil {
		values, err := rest(c.session.ended)
		if err != nil {
			return nil, err
		}
		for key, total := range values {
			c.add(key, total)
		}
	}
	return c.build(c.values, c.stacks)
}

// losses are the kernel's counters of what is missing.
type losses struct{ lost, truncated uint64 }

// newProfiles returns empty profiles with what is the same for all stacks.
func (c *collector) newProfiles() ([]*profile.Profile, error) {
	kernel, source := &c.session.kernel, c.session.source
	failures, err := c.session.Failures(kernel.Failures)
	if err != nil {
		return nil, err
	}
	all := losses{c.session.Count(kernel.Lost), c.session.Count(kernel.Truncated)}
	profiles := make([]*profile.Profile, len(source.values))
	for i := range profiles {
		p := &profile.Profile{
			ValueType: source.values[i].ValueType, Event: source.values[i].event, Failures: failures,
			Lost: all.lost - c.reported.lost, Truncated: all.truncated - c.reported.truncated,
		}
		for _, id := range c.session.Table.Identities() {
			p.Processes = append(p.Processes, profile.Process{PID: id.PID, Inside: id.Inside, Title: id.Title, Node: id.Node, V8: id.V8})
		}
		profiles[i] = p
	}
	c.reported = all
	return profiles, nil
}

// build returns profiles with these values.
func (c *collector) build(values map[bpf.TraceStackKey]bpf.TraceTotal, stacks map[stackID]trace.Stack) ([]*profile.Profile, error) {
	profiles, err := c.newProfiles()
	if err != nil {
		return nil, err
	}
	source := c.session.source
	frames := make(map[stackID]namedStack, len(stacks))
	for key, total := range values {
		if total.Events == 0 && total.Value == 0 {
			continue // a wait that has not ended
		}
		number, leaf := source.place(key)
		id := stackID{key.Ids, key.Hash}
		if key.Hash == 0 {
			frames := append(slices.Clip(leaf), symbolize.Frame{Name: "[stack not taken]", Kind: symbolize.Runtime})
			s := profile.Stack{PID: int(key.Ids >> 32), TID: int(uint32(key.Ids)), Frames: frames}
			put(profiles[number], source.values[number], s, total)
			continue
		}
		stack, ok := stacks[id]
		if !ok {
			c.addOther(key.Event, total)
			continue
		}
		of, ok := frames[id]
		if !ok {
			of.frames, of.unknown = c.session.Table.Frames(stack)
			frames[id] = of
		}
		s := profile.Stack{PID: stack.PID, TID: stack.TID, Thread: stack.Thread, Frames: append(slices.Clip(leaf), of.frames...), Bucket: key.Bucket}
		if !source.quantized {
			s.Bucket = 0
		}
		put(profiles[number], source.values[number], s, total)
		profiles[number].UnknownFrames += total.Events * uint64(of.unknown)
	}
	c.addOthers(profiles)
	return profiles, nil
}

// namedStack are the frames of a stack, and how many of them could not be identified.
type namedStack struct {
	frames  []symbolize.Frame
	unknown int
}

// put adds a stack to a profile.
func put(p *profile.Profile, v value, s profile.Stack, total bpf.TraceTotal) {
	s.Value, s.Events = total.Value, total.Events
	if v.counts {
		s.Events = 0
	}
	p.Total += s.Value
	p.Events += s.Events
	p.Stacks = append(p.Stacks, s)
}

// addOthers adds what belongs to stacks that were not kept.
func (c *collector) addOthers(profiles []*profile.Profile) {
	for event, total := range c.other {
		number, _ := c.session.source.place(bpf.TraceStackKey{Event: event})
		s := profile.Stack{Frames: []symbolize.Frame{{Name: "[other stacks]"}}}
		put(profiles[number], c.session.source.values[number], s, total)
		c.session.Warn(fmt.Errorf("more than %d distinct stacks: %d events of others are together as [other stacks]", maxStacks, total.Events))
	}
	clear(c.other)
}
