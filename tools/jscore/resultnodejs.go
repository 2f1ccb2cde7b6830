package jscore

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Node reads what Node.js itself keeps in the process's memory.
func (d *Dump) Node() *nodejs.Process { return nodejs.New(d.Space, d.Unwinder) }

// A NodeInfo describes a Node.js process and how it was started.
type NodeInfo struct {
	PID int `json:"pid"`
	*nodejs.Info
}

// NodeInfo describes the process, with its environment if requested, which may hold
// secrets. Without a graph it reports what needs no JavaScript objects.
func (d *Dump) NodeInfo(g *Graph, environment bool) *NodeInfo {
	var objects *heap.Graph
	if g != nil {
		objects = g.Graph
	}
	return &NodeInfo{d.Info().PID, d.Node().Info(objects, environment)}
}

// WriteText writes a line for each known fact.
func (n *NodeInfo) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%-13s %s\n", name+":", text)
		}
	}
	line("process", fmt.Sprint(n.PID))
	line("node", n.Node)
	line("V8", n.V8)
	line("platform", n.Platform)
	line("command line", shellWords(n.CommandLine))
	line("argv", shellWords(n.Argv))
	line("execArgv", shellWords(n.ExecArgv))
	var versions []string
	for _, v := range n.Versions {
		versions = append(versions, v.Name+" "+v.Text)
	}
	line("versions", strings.Join(versions, ", "))
	for _, variable := range slices.Sorted(slices.Values(n.Environment)) {
		line("environment", variable)
	}
	for _, trouble := range n.Trouble {
		line("<bad>", trouble)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// shellWords joins words as a shell would read them.
func shellWords(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if word == "" || strings.ContainsAny(word, " \t\n'\"\\$`|&;<>()*?[]#~!{}") {
			word = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
		quoted[i] = word
	}
	return strings.Join(quoted, " ")
}

// Addresses returns the address of the process object.
func (n *NodeInfo) Addresses() []v8.Value {
	if n.Process == 0 {
		return nil
	}
	return []v8.Value{v8.Value(n.Process)}
}

// Timers are a process's timers, in the order of Node.js's lists.
type Timers struct {
	Timers []Timer `json:"timers"`
}

// A Timer is one of them.
type Timer struct {
	Isolate *int `json:"isolate,omitempty"` // number; nil if there is only one
	nodejs.Timer
}

// Timers finds the pending timers, by isolate.
func (d *Dump) Timers(g *Graph) *Timers {
	number := d.isolateNumbers()
	l := &Timers{[]Timer{}}
	for _, t := range d.Node().Timers(g.Graph) {
		l.Timers = append(l.Timers, Timer{number(t.Heap), t})
	}
	slices.SortStableFunc(l.Timers, func(a, b Timer) int { return compareIsolates(a.Isolate, b.Isolate) })
	return l
}

// WriteText writes a line for each timer.
func (l *Timers) WriteText(w io.Writer) error {
	var b strings.Builder
	for i, t := range l.Timers {
		if i == 0 && t.Isolate != nil || i > 0 && !sameIsolate(l.Timers[i-1].Isolate, t.Isolate) {
			b.WriteString(isolateTitle(t.Isolate))
		}
		kind := t.Kind
		if t.Kind != "immediate" {
			kind += " " + value.FormatNumber(t.After) + " ms"
		}
		if t.Unref {
			kind += ", unref"
		}
		fmt.Fprintf(&b, "%s %s: %s %s", t.Object, kind, t.Callback.Address, cmp.Or(t.Callback.Text, value.Text(t.Callback.Kind)))
		if t.Place != "" {
			b.WriteString(" at " + t.Place)
		}
		b.WriteByte('\n')
	}
	if len(l.Timers) == 0 {
		b.WriteString("no timers\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the addresses of the timers' objects.
func (l *Timers) Addresses() []v8.Value {
	values := make([]v8.Value, len(l.Timers))
	for i, t := range l.Timers {
		values[i] = v8.Value(t.Object)
	}
	return values
}
