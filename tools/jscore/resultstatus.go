package jscore

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize/v8/heap"

	"golang.org/x/sys/unix"
)

// A Status is an overview of a process.
type Status struct {
	PID         int          `json:"pid"`
	CommandLine []string     `json:"command_line"`
	Node        string       `json:"node,omitempty"`
	V8          string       `json:"v8,omitempty"`
	Reason      string       `json:"reason"` // why there is a core
	Signal      string       `json:"signal,omitempty"`
	Fatal       string       `json:"fatal_error,omitempty"` // what V8 or Node.js said when it aborted the process
	Exception   *Exception   `json:"exception,omitempty"`   // that nothing caught
	Threads     int          `json:"threads"`
	Isolates    V8Isolates   `json:"isolates"`
	Spaces      Spaces       `json:"spaces"`
	Collections []string     `json:"collections,omitempty"` // kinds of garbage collections that isolates were in
	Doubts      *heap.Doubts `json:"doubts,omitempty"`      // about the heap, if it has been walked
	Missing     []string     `json:"missing,omitempty"`
	Stack       *StackText   `json:"stack,omitempty"` // of the thread that the core is about
}

// A Space is how much memory V8 has for objects of one sort.
type Space struct {
	Isolate *int   `json:"isolate,omitempty"` // number; nil if there is only one, or if isolates share it
	Name    string `json:"name"`
	Pages   int    `json:"pages"`
	Bytes   uint64 `json:"bytes"`
}

// Status reports what happened to the process.
func (d *Dump) Status() *Status {
	s := &Status{PID: d.Info().PID, Threads: len(d.Threads()), Isolates: d.V8Isolates(), CommandLine: []string{}, Spaces: Spaces{}}
	if arguments, err := d.Arguments(); err == nil {
		s.CommandLine = append(s.CommandLine, arguments...)
	} else {
		s.CommandLine = append(s.CommandLine, d.Info().Args)
	}
	if d.v8.Binary != nil {
		s.Node, s.V8 = d.v8.Binary.NodeVersion, d.v8.Binary.Version.String()
		s.Spaces = sumSpaces(d.pages())
	}
	s.Reason = "a core of a process that kept running"
	if signal, ok := d.Signal(); ok {
		s.Signal, s.Reason = unix.SignalName(signal.Number), signal.reason(d.Info().PID)
	}
	s.Fatal, s.Exception = d.Node().FatalError(), d.exception()
	s.Collections = d.collections()
	for _, missing := range d.Missing() {
		s.Missing = append(s.Missing, missing.String())
	}
	if thread, ok := d.FirstThread(); ok {
		s.Stack = d.JSStack(thread, StackOptions{})
	}
	return s
}

// collectionNames are what V8 9.4 to 14.6 does while its heap is in a state other than
// 0 (Heap::HeapState in src/heap/heap.h).
var collectionNames = map[uint32]string{1: "scavenge", 2: "mark-compact", 3: "minor mark-sweep"}

// collections returns the kinds of collections that isolates were in.
func (d *Dump) collections() []string {
	var names []string
	for _, isolate := range d.V8Isolates() {
		if d.v8.Binary.Layout.GCState == 0 {
			continue
		}
		word, err := d.Word(uint64(isolate.Address) + uint64(d.v8.Binary.Layout.GCState))
		if name := collectionNames[uint32(word)]; err == nil && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// reason explains what the signal means for a process.
func (s Signal) reason(pid int) string {
	text := cmp.Or(unix.SignalName(s.Number), fmt.Sprintf("signal %d", s.Number))
	switch {
	case s.Address != 0:
		return fmt.Sprintf("%s (%v at %x)", text, s.Number, s.Address)
	case s.Sender == pid:
		return fmt.Sprintf("%s (%v), by the process itself", text, s.Number)
	case s.Sender != 0:
		return fmt.Sprintf("%s (%v), by process %d", text, s.Number, s.Sender)
	}
	return fmt.Sprintf("%s (%v)", text, s.Number)
}

// sumSpaces adds up pages by space, largest sum first.
func sumSpaces(pages []heap.Page) Spaces {
	spaces := Spaces{}
	for _, p := range pages {
		at := slices.IndexFunc(spaces, func(s Space) bool { return s.Name == p.Space })
		if at < 0 {
			at = len(spaces)
			spaces = append(spaces, Space{Name: p.Space})
		}
		spaces[at].Pages++
		spaces[at].Bytes += p.Size
	}
	slices.SortFunc(spaces, func(a, b Space) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return spaces
}

// WriteText writes the status on one screen. What is missing was reported at the start.
func (s *Status) WriteText(w io.Writer) error {
	var b strings.Builder
	line := func(name, text string) { fmt.Fprintf(&b, "%-9s %s\n", name+":", text) }
	line("process", fmt.Sprintf("%d, %s", s.PID, shellWords(s.CommandLine)))
	line("reason", s.Reason)
	if s.Fatal != "" {
		line("said", s.Fatal)
	}
	if s.Exception != nil {
		line("exception", s.Exception.line())
	}
	if s.V8 != "" {
		line("version", strings.TrimSpace("Node.js "+s.Node+", V8 "+s.V8))
	}
	line("threads", fmt.Sprint(s.Threads))
	for _, isolate := range s.Isolates {
		if len(s.Isolates) == 1 {
			line("isolate", fmt.Sprintf("%s of thread %d", isolate.Address, isolate.Threads[0]))
			break
		}
		line("isolate", fmt.Sprintf("%s at %s: %s", isolate, isolate.Address, isolate.Spaces))
	}
	if len(s.Spaces) > 0 {
		line("heap", s.Spaces.String())
	}
	for _, collection := range s.Collections {
		line("within", "a garbage collection: "+collection)
	}
	if len(s.Missing) > 0 {
		line("missing", fmt.Sprintf("%d files or parts of V8, named by the messages at the start", len(s.Missing)))
	}
	if s.Doubts != nil {
		writeDoubts(&b, *s.Doubts)
	}
	if s.Stack != nil {
		fmt.Fprintf(&b, "stack of thread %d:\n", s.Stack.TID)
		var stack strings.Builder
		if err := s.Stack.WriteText(&stack); err != nil {
			return err
		}
		b.WriteString(folded(stack.String()))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func megabytes(bytes uint64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
