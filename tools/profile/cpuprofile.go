package profile

import (
	"io"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// maxCPUSamples bounds the samples that a .cpuprofile lists one by one: Chrome
// draws each, and could not load days of samples.
const maxCPUSamples = 1 << 20

// A CPU profile as Chrome's DevTools and VS Code read it. Lines and columns
// count from 0, times are in microseconds.
type (
	cpuProfile struct {
		Nodes      []cpuNode `json:"nodes"`
		StartTime  int64     `json:"startTime"`
		EndTime    int64     `json:"endTime"`
		Samples    []int     `json:"samples"`    // ids of nodes
		TimeDeltas []int64   `json:"timeDeltas"` // since the previous sample
	}
	cpuNode struct {
		ID        int      `json:"id"`
		CallFrame cpuFrame `json:"callFrame"`
		HitCount  uint64   `json:"hitCount"`
		Children  []int    `json:"children,omitempty"`

		PositionTicks []cpuTicks `json:"positionTicks,omitempty"` // by line
	}
	cpuTicks struct {
		Line  int    `json:"line"` // that executes, from 1
		Ticks uint64 `json:"ticks"`
	}
	cpuFrame struct {
		FunctionName string `json:"functionName"`
		ScriptID     string `json:"scriptId"`
		URL          string `json:"url"`
		LineNumber   int    `json:"lineNumber"`
		ColumnNumber int    `json:"columnNumber"`
	}
)

// writeCPUProfile writes one profile of all threads. The stacks of a single
// thread are children of "(root)"; with several threads, each has a node with
// its name and numbers. Equal stacks are adjacent: their order in time is not
// known. If there are more than maxCPUSamples samples, samples lists only every
// second, third … of them; hitCount is always exact.
//
// A profile of time lists each node with a value once, and hitCount is its value
// in microseconds. The format has no place for other values.
func writeCPUProfile(w io.Writer, p *Profile, _ Options) error {
	timed := p.ValueType.Unit == Time.Unit
	root := &node{}
	threads := p.Merge().threads()
	for _, t := range threads {
		tree := newTree(t.Stacks)
		root.total += tree.total
		if len(threads) == 1 {
			root = tree
			break
		}
		tree.frame.Name = t.String()
		root.children = append(root.children, tree)
	}
	root.frame.Name = "(root)"
	b := cpuBuilder{
		out:     cpuProfile{Nodes: []cpuNode{}, Samples: []int{}, TimeDeltas: []int64{}},
		scripts: map[string]string{},
		every:   root.total/maxCPUSamples + 1,
		timed:   timed,
	}
	if !p.Start.IsZero() {
		b.out.StartTime = p.Start.UnixMicro()
	}
	b.add(root)
	if !timed {
		b.times(max(1, p.period().Microseconds()))
	}
	return encode(w, b.out)
}

type cpuBuilder struct {
	out     cpuProfile
	scripts map[string]string // ids by file
	every   uint64            // samples that one listed sample stands for
	seen    uint64            // samples so far
	timed   bool              // values are nanoseconds
	last    int64             // if timed: the duration of the last listed sample, in µs
}

// add appends n and everything below it, and returns n's id.
func (b *cpuBuilder) add(n *node) int {
	id := len(b.out.Nodes) + 1
	b.out.Nodes = append(b.out.Nodes, cpuNode{ID: id, CallFrame: b.callFrame(n.frame), PositionTicks: b.ticks(n)})
	if b.timed {
		b.out.Nodes[id-1].HitCount = n.self / 1000
		b.listTimed(id, int64(n.self/1000))
	} else {
		b.out.Nodes[id-1].HitCount = n.self
		b.list(id, n.self)
	}
	var children []int
	for _, c := range n.children {
		children = append(children, b.add(c))
	}
	b.out.Nodes[id-1].Children = children
	return id
}

// ticks returns the values of a node by executing line, in hitCount's unit.
func (b *cpuBuilder) ticks(n *node) []cpuTicks {
	var all []cpuTicks
	for _, line := range slices.Sorted(maps.Keys(n.lines)) {
		t := cpuTicks{line, n.lines[line]}
		if b.timed {
			t.Ticks /= 1000
		}
		all = append(all, t)
	}
	return all
}

// listTimed lists a node that ran for so many microseconds: readers assume that
// a sample lasts until the next one.
func (b *cpuBuilder) listTimed(id int, duration int64) {
	if duration == 0 {
		return
	}
	b.out.Samples = append(b.out.Samples, id)
	b.out.TimeDeltas = append(b.out.TimeDeltas, b.last)
	b.out.EndTime = max(b.out.EndTime, b.out.StartTime) + duration
	b.last = duration
}

// list lists the samples of a node, or as many of them as there is room for.
func (b *cpuBuilder) list(id int, samples uint64) {
	for listed := b.seen / b.every; listed < (b.seen+samples)/b.every; listed++ {
		b.out.Samples = append(b.out.Samples, id)
	}
	b.seen += samples
}

// times sets the time of each listed sample. Readers assume that a sample lasts
// until the next one, so the first is at the start.
func (b *cpuBuilder) times(period int64) {
	step := period * int64(b.every)
	for i := range b.out.Samples {
		b.out.TimeDeltas = append(b.out.TimeDeltas, step*int64(min(i, 1)))
	}
	b.out.EndTime = b.out.StartTime + step*int64(len(b.out.Samples))
}

// callFrame returns f as Chrome shows it: a file as a URL, a module in place of
// a file, -1 for an unknown line or column.
func (b *cpuBuilder) callFrame(f symbolize.Frame) cpuFrame {
	frame := cpuFrame{FunctionName: name(f), ScriptID: "0", URL: place(f), LineNumber: -1, ColumnNumber: -1}
	if !scripted(f) {
		return frame
	}
	if frame.FunctionName == anonymous {
		frame.FunctionName = "" // as in V8
	}
	frame.URL = printable.String(f.File)
	if path.IsAbs(f.File) {
		frame.URL = (&url.URL{Scheme: "file", Path: frame.URL}).String()
	}
	if f.Line > 0 {
		frame.LineNumber, frame.ColumnNumber = f.Line-1, f.Column-1
	}
	if f.File != "" {
		frame.ScriptID = b.script(f.File)
	}
	return frame
}

func (b *cpuBuilder) script(file string) string {
	id, ok := b.scripts[file]
	if !ok {
		id = strconv.Itoa(len(b.scripts) + 1)
		b.scripts[file] = id
	}
	return id
}
