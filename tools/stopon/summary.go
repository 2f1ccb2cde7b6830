package stopon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/event"
)

// Bounds of a Summary: of what a process makes up, such as the classes of
// exceptions, there may be any number.
const (
	maxGroups = 2048 // stacks of a trigger
	maxStalls = 4096 // under way at once
)

// A Summary is what a run has reported, by trigger and stack. The zero Summary
// is empty.
type Summary struct {
	groups map[string]*Group
	stalls map[uint64]stall // by the number of the hit: those that have not ended
	other  uint64
}

// A Group is all hits of one trigger with one stack. Stacks are the same if
// their functions are: the lines that execute in them may differ.
type Group struct {
	Trigger string // as of a Hit
	What    string // the system call and its error, the function, the signal …
	Count   uint64
	First   time.Time
	Last    time.Time
	Timed   uint64 // hits whose duration was measured; the rest is of these
	Total   time.Duration
	Min     time.Duration
	Max     time.Duration
	Frames  []symbolize.Frame // leaf first, without the lines that execute, tiers and offsets
}

type stall struct {
	group    *Group
	duration time.Duration // when it was reported
}

// Add counts a hit.
func (s *Summary) Add(h *Hit) {
	g := s.group(h)
	if g == nil {
		s.other++
		return
	}
	g.Count++
	if g.First.IsZero() || h.Time.Before(g.First) {
		g.First = h.Time
	}
	if h.Time.After(g.Last) {
		g.Last = h.Time
	}
	switch {
	case h.Trigger == "stall" && len(s.stalls) < maxStalls:
		s.stalls[h.Number] = stall{g, h.Duration}
	case h.Duration > 0:
		g.took(h.Duration)
	}
}

// End counts the whole length of a stall that was added before.
func (s *Summary) End(h *Hit) {
	if stall, ok := s.stalls[h.Number]; ok {
		delete(s.stalls, h.Number)
		stall.group.took(h.Duration)
	}
}

// group returns the hit's group; nil if there are too many.
func (s *Summary) group(h *Hit) *Group {
	if s.groups == nil {
		s.groups, s.stalls = make(map[string]*Group), make(map[uint64]stall)
	}
	frames := make([]symbolize.Frame, len(h.Frames))
	key := new(strings.Builder)
	fmt.Fprintf(key, "%s %q", h.Trigger, h.what())
	for i, f := range h.Frames {
		frames[i] = functionOf(f)
		fmt.Fprintf(key, " %d %q %q %d %d %q %d", f.Kind, f.Name, f.File, f.Line, f.Column, f.Module, frames[i].Offset)
	}
	g := s.groups[key.String()]
	if g == nil && len(s.groups) < maxGroups {
		g = &Group{Trigger: h.Trigger, What: h.what(), Frames: frames}
		s.groups[key.String()] = g
	}
	return g
}

// functionOf returns the frame without where in its function it is, and how
// that runs. Without a symbol, the address is all there is.
func functionOf(f symbolize.Frame) symbolize.Frame {
	f.Tier, f.Inlined, f.Nearest = symbolize.NoTier, false, false
	f.ExecutingLine, f.ExecutingColumn = 0, 0
	f.GeneratedExecutingLine, f.GeneratedExecutingColumn = 0, 0
	if f.Name != "" {
		f.Offset = 0
	}
	return f
}

// what is what the trigger was about, without what differs from one hit to the
// next, such as arguments.
func (h *Hit) what() string {
	switch h.Trigger {
	case "syscall":
		if h.Errno != 0 {
			return h.Syscall + " " + event.ErrnoName(h.Errno)
		}
		return h.Syscall
	case "function", "return":
		return h.Function
	case "signal":
		return signalName(h.Signal)
	case "exit":
		return fmt.Sprint(h.Result)
	case "throw", "uncaught":
		return h.Class
	}
	return ""
}

func (g *Group) took(d time.Duration) {
	if g.Timed == 0 || d < g.Min {
		g.Min = d
	}
	g.Max = max(g.Max, d)
	g.Total += d
	g.Timed++
}

// Groups returns the groups, those with the most hits first. A stall that has
// not ended counts with its length when it was reported.
func (s *Summary) Groups() []*Group {
	for number, stall := range s.stalls {
		delete(s.stalls, number)
		stall.group.took(stall.duration)
	}
	all := make([]*Group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), a.First.Compare(b.First), cmp.Compare(a.What, b.What))
	})
	return all
}

// Other is the number of hits in no group, for there were too many.
func (s *Summary) Other() uint64 { return s.other }

// UserFrame is as of a Hit.
func (g *Group) UserFrame() *symbolize.Frame { return (&Hit{Frames: g.Frames}).UserFrame() }

// groupRecord is the form of a Group that programs read.
type groupRecord struct {
	Trigger string            `json:"trigger"`
	What    string            `json:"what,omitempty"`
	Count   uint64            `json:"count"`
	First   time.Time         `json:"first"`
	Last    time.Time         `json:"last"`
	Timed   uint64            `json:"timed,omitempty"`
	Total   int64             `json:"total_ns,omitempty"`
	Min     int64             `json:"min_ns,omitempty"`
	Max     int64             `json:"max_ns,omitempty"`
	User    *symbolize.Frame  `json:"user_frame,omitempty"`
	Stack   []symbolize.Frame `json:"stack"`
}

// MarshalJSON returns the group as one object of the `--json` contract.
func (g *Group) MarshalJSON() ([]byte, error) {
	return json.Marshal(groupRecord{
		g.Trigger, g.What, g.Count, g.First, g.Last,
		g.Timed, g.Total.Nanoseconds(), g.Min.Nanoseconds(), g.Max.Nanoseconds(), g.UserFrame(), g.Frames,
	})
}
