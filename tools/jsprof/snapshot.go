package jsprof

import (
	"maps"
	"time"

	"ustack/bpf"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// snapshot passes on what was taken since the last call.
func (s *session) snapshot() error {
	now := time.Now()
	profiles, err := s.collector.recent()
	if err != nil {
		return err
	}
	for i, p := range profiles {
		s.describe(i, p, s.since, now.Sub(s.since))
	}
	s.since = now
	s.o.Snapshot(profiles)
	return nil
}

// recent returns what was counted since the last call, and forgets it.
func (c *collector) recent() ([]*profile.Profile, error) {
	if err := c.drain(); err != nil {
		return nil, err
	}
	return c.build(c.takeRecent())
}

// takeRecent takes out the values whose stacks have arrived, with the stacks. The kernel sends a
// stack again once its value was drained. A value whose stack has not arrived waits for the next
// call; then the stack was lost.
func (c *collector) takeRecent() (map[bpf.TraceStackKey]bpf.TraceTotal, map[stackID]trace.Stack) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	values := make(map[bpf.TraceStackKey]bpf.TraceTotal)
	stacks := make(map[stackID]trace.Stack)
	for key, total := range c.values {
		id := stackID{key.Ids, key.Hash}
		stack, ok := c.stacks[id]
		if !ok && !c.late[key] {
			c.late[key] = true
			continue
		}
		if ok {
			stacks[id] = stack
		}
		values[key] = total
		delete(c.values, key)
		delete(c.late, key)
	}
	if c.session == nil || !c.session.source.keeps {
		maps.DeleteFunc(c.stacks, func(id stackID, _ trace.Stack) bool { _, ok := stacks[id]; return ok })
	}
	return values, stacks
}
