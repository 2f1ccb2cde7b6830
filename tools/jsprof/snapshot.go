package jsprof

import (
	"time"

	"ustack/symbolize"
	"ustack/tools/profile"
)

// snapshot passes on what was sampled since the last call.
func (s *session) snapshot() error {
	now := time.Now()
	p, err := s.collector.recent()
	if err != nil {
		return err
	}
	p.Start, p.Duration, p.HzAsked, p.Hz = s.since, now.Sub(s.since), s.o.Hz, s.o.Hz
	p.Node, p.V8 = s.Table.Versions()
	s.since = now
	s.o.Snapshot(p)
	return nil
}

// recent returns what was sampled since the last call, and forgets it. The kernel sends a
// stack again once its count was drained. A count whose stack has not arrived waits for the
// next call; then the stack was lost.
func (c *collector) recent() (*profile.Profile, error) {
	if err := c.drain(); err != nil {
		return nil, err
	}
	objects := &c.session.objects
	p := &profile.Profile{ValueType: c.session.o.ValueType(), Lost: c.session.Count(objects.Lost), Truncated: c.session.Count(objects.Truncated)}
	for _, s := range c.takeRecent() {
		frames := []symbolize.Frame{{Name: symbolize.Unknown}}
		if s.PID != 0 {
			frames, _ = c.session.Table.Frames(s.Stack)
		}
		p.Total += s.count
		p.Stacks = append(p.Stacks, profile.Stack{Value: s.count, PID: s.PID, TID: s.TID, Thread: s.Thread, Frames: frames})
	}
	return p, nil
}

// takeRecent takes out the stacks that are counted.
func (c *collector) takeRecent() []*counted {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var taken []*counted
	if c.other > 0 {
		taken = append(taken, &counted{count: c.other})
		c.other = 0
	}
	for key, s := range c.stacks {
		switch {
		case s.count == 0: // its count was not there yet
		case s.PID == 0 && !s.late:
			s.late = true
		default:
			taken = append(taken, s)
			delete(c.stacks, key)
		}
	}
	return taken
}
