package read

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// cpuProfile is a profile as Chrome's DevTools and node --cpu-prof write it. Lines and
// columns count from 0, times are in microseconds.
type (
	cpuProfile struct {
		Nodes      []cpuNode `json:"nodes"`
		StartTime  float64   `json:"startTime"`
		EndTime    float64   `json:"endTime"`
		Samples    []int     `json:"samples"`
		TimeDeltas []float64 `json:"timeDeltas"`
	}
	cpuNode struct {
		ID        int    `json:"id"`
		Parent    int    `json:"parent"` // in traces; 0 for none
		HitCount  uint64 `json:"hitCount"`
		Children  []int  `json:"children"`
		CallFrame struct {
			FunctionName string `json:"functionName"`
			URL          string `json:"url"`
			LineNumber   int    `json:"lineNumber"`
			ColumnNumber int    `json:"columnNumber"`
		} `json:"callFrame"`
		PositionTicks []struct {
			Line  int    `json:"line"`
			Ticks uint64 `json:"ticks"`
		} `json:"positionTicks"`
	}
)

var cpuThread = lazyregexp.New(`^(?:(.*) )?(\d{1,9})/(\d{1,9})$`)

// unixMicroseconds is the least time that counts from 1970; V8's own count from the start
// of the machine.
const unixMicroseconds = 1e15

// A cpuReader adds the stacks of a tree of nodes.
type cpuReader struct {
	*builder
	in      cpuProfile
	parents map[int]int // positions of nodes, by those of their children
	scale   uint64      // of hits
}

func readCPUProfile(all []byte, b *builder) error {
	r := cpuReader{builder: b, parents: map[int]int{}, scale: 1}
	if err := decode(all, &r.in); err != nil {
		return err
	}
	if err := r.link(); err != nil {
		return err
	}
	r.times()
	for i := range r.in.Nodes {
		if err := r.node(i); err != nil {
			return fmt.Errorf("nodes[%d]: %w", i, err)
		}
	}
	return nil
}

// link finds each node's parent, and counts the hits of nodes that have no count.
func (r *cpuReader) link() error {
	ids := map[int]int{}
	for i, n := range r.in.Nodes {
		if _, ok := ids[n.ID]; ok {
			return fmt.Errorf("nodes[%d]: its id %d is that of another node, too", i, n.ID)
		}
		ids[n.ID] = i
	}
	for i, n := range r.in.Nodes {
		for _, id := range n.Children {
			child, ok := ids[id]
			if _, has := r.parents[child]; !ok || has {
				return fmt.Errorf("nodes[%d]: its child %d is no node, or of another one, too", i, id)
			}
			r.parents[child] = i
		}
		if parent, ok := ids[n.Parent]; ok && n.Parent != 0 {
			r.parents[i] = parent
		}
	}
	counted := slices.ContainsFunc(r.in.Nodes, func(n cpuNode) bool { return n.HitCount > 0 })
	for i, id := range r.in.Samples {
		at, ok := ids[id]
		if !ok {
			return fmt.Errorf("samples[%d]: %d is no node", i, id)
		}
		if !counted {
			r.in.Nodes[at].HitCount++
		}
	}
	return nil
}

// times sets the rate, or finds that hits are times: then each node is listed once, and
// the next sample is its hits in microseconds later.
func (r *cpuReader) times() {
	if r.in.StartTime >= unixMicroseconds && r.in.StartTime < unixMicroseconds*10 {
		r.profile.Start = time.UnixMicro(int64(r.in.StartTime)).UTC()
	}
	span := r.in.EndTime - r.in.StartTime
	if !(span > 0) || span > float64(maxDuration/time.Microsecond) {
		return
	}
	r.profile.Duration = time.Duration(span) * time.Microsecond
	var hits float64
	byID := map[int]uint64{}
	for _, n := range r.in.Nodes {
		hits += float64(n.HitCount)
		byID[n.ID] = n.HitCount
	}
	if hits == span && hits > float64(len(r.in.Samples)) && r.timed(byID) {
		r.profile.ValueType, r.scale = profile.Time, 1000
		return
	}
	deltas := slices.DeleteFunc(slices.Clone(r.in.TimeDeltas), func(d float64) bool { return !(d > 0) })
	if len(deltas) == 0 || hits == 0 {
		return
	}
	slices.Sort(deltas)
	period := deltas[len(deltas)/2]
	if n := float64(len(r.in.Samples)); hits > n { // only every second, third … is listed
		period = span / hits
	}
	if hz := 1e6 / period; hz >= 1 && period > 1 {
		r.profile.Hz = int(hz + 0.5)
	}
}

// maxDuration bounds the time that a profile may say it took.
const maxDuration = 100 * 365 * 24 * time.Hour

// timed reports whether each sample lasts for the hits of its node, in microseconds.
func (r *cpuReader) timed(hits map[int]uint64) bool {
	if len(r.in.TimeDeltas) != len(r.in.Samples) {
		return false
	}
	for i, delta := range r.in.TimeDeltas {
		if i > 0 && delta != float64(hits[r.in.Samples[i-1]]) {
			return false
		}
	}
	return true
}

// node adds the stacks that end at a node, by line.
func (r *cpuReader) node(at int) error {
	n := r.in.Nodes[at]
	if n.HitCount == 0 {
		return nil
	}
	stack, err := r.stack(at)
	if err != nil {
		return err
	}
	rest := n.HitCount
	lines := map[int]uint64{}
	for _, t := range n.PositionTicks {
		if t.Line > 0 && len(stack.Frames) > 0 && stack.Frames[0].Kind == symbolize.JS {
			lines[t.Line] += min(t.Ticks, rest)
			rest -= min(t.Ticks, rest)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(lines)) {
		on := stack
		on.Frames = slices.Clone(stack.Frames)
		on.Frames[0].ExecutingLine = line
		if err := r.addHits(on, lines[line]); err != nil {
			return err
		}
	}
	return r.addHits(stack, rest)
}

func (r *cpuReader) addHits(s profile.Stack, hits uint64) error {
	if s.Value = hits * r.scale; s.Value/r.scale != hits {
		return errTooLarge
	}
	return r.add(s)
}

// stack returns the frames of a node, and the thread whose node is below the root.
func (r *cpuReader) stack(at int) (profile.Stack, error) {
	var s profile.Stack
	for range len(r.in.Nodes) + 1 {
		parent, ok := r.parents[at]
		if !ok {
			if name := r.in.Nodes[at].CallFrame.FunctionName; name != "(root)" {
				return s, errors.New("its callers do not lead to (root)")
			}
			return s, nil
		}
		f := r.in.Nodes[at].CallFrame
		if m := cpuThread.FindStringSubmatch(f.FunctionName); m != nil && f.URL == "" && f.LineNumber < 0 && r.isRoot(parent) {
			s.Thread, s.PID, s.TID = m[1], int(number(m[2], 10)), int(number(m[3], 10))
		} else if len(s.Frames) <= maxDepth { // add cuts it
			s.Frames = append(s.Frames, cpuFrame(f.FunctionName, f.URL, f.LineNumber, f.ColumnNumber))
		}
		at = parent
	}
	return s, errors.New("it calls itself in a circle")
}

func (r *cpuReader) isRoot(at int) bool {
	_, ok := r.parents[at]
	return !ok
}

// cpuFrame returns a frame. What is no script has no line; its URL is its module.
func cpuFrame(name, where string, line, column int) symbolize.Frame {
	switch {
	case name == "(garbage collector)":
		return symbolize.Frame{Kind: symbolize.Runtime, Name: "[GC]"}
	case line < 0 && !isScript(where) && !strings.HasPrefix(where, "wasm:") && (where != "" || name != ""):
		return inModule(name, where)
	}
	f := symbolize.Frame{Kind: kindOfFile(where), File: where}
	if u, err := url.Parse(where); err == nil && u.Scheme == "file" {
		f.File = u.Path
	}
	if line >= 0 {
		f.Line, f.Column = line+1, max(column, -1)+1
	}
	if f.Name, f.Tier = tiered(name); f.Name == "" {
		f.Name = anonymous
	}
	return f
}
