package jscore

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/stack"
)

// V8Isolates are the process's isolates, numbered from 0.
type V8Isolates []V8Isolate

// A V8Isolate is one instance of V8.
type V8Isolate struct {
	Number  int     `json:"number"`
	Address Address `json:"address"`
	Threads []int   `json:"threads"` // TIDs; the one that runs its JavaScript is first
	Main    bool    `json:"main"`    // of the process's first thread, not of a worker
	Bytes   uint64  `json:"bytes"`   // of its pages
	Spaces  Spaces  `json:"spaces"`
}

// V8Isolates lists the process's isolates, starting with the first thread's; or the one
// that was selected.
func (d *Dump) V8Isolates() V8Isolates {
	list := V8Isolates{}
	pages := d.pages()
	for number, isolate := range d.Isolates() {
		if d.selected != nil && d.selected.Address != isolate.Address {
			continue
		}
		i := V8Isolate{Number: number, Address: Address(isolate.Address), Threads: isolate.Threads, Main: slices.Contains(isolate.Threads, d.Info().PID)}
		i.Spaces = sumSpaces(slices.DeleteFunc(slices.Clone(pages), func(p heap.Page) bool { return !isolate.Has(p.Heap) }))
		for _, s := range i.Spaces {
			i.Bytes += s.Bytes
		}
		list = append(list, i)
	}
	return list
}

// String describes the isolate in a table.
func (i V8Isolate) String() string {
	if i.Main {
		return fmt.Sprintf("%d (main, thread %d)", i.Number, i.Threads[0])
	}
	return fmt.Sprintf("%d (thread %d)", i.Number, i.Threads[0])
}

// WriteText writes a line for each isolate; with numbers if there are several.
func (l V8Isolates) WriteText(w io.Writer) error {
	for _, isolate := range l {
		text := fmt.Sprintf("%s threads %s", isolate.Address, strings.Trim(fmt.Sprint(isolate.Threads), "[]"))
		if len(l) > 1 {
			text = fmt.Sprintf("%d %s, %s", isolate.Number, text, megabytes(isolate.Bytes))
			if isolate.Main {
				text += " (main)"
			}
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	return nil
}

// SelectIsolate restricts what d reports to one isolate: "main", a number of V8Isolates, or
// a thread's TID. It must be called before objects are read.
func (d *Dump) SelectIsolate(name string) error {
	isolates := d.Isolates()
	number, err := strconv.Atoi(name)
	found := -1
	switch {
	case name == "main":
		found = slices.IndexFunc(isolates, func(i stack.Isolate) bool { return slices.Contains(i.Threads, d.Info().PID) })
	case err != nil || number < 0:
		return fmt.Errorf("isolate %q is neither a number nor main", name)
	case number < len(isolates):
		found = number
	default:
		found = slices.IndexFunc(isolates, func(i stack.Isolate) bool { return slices.Contains(i.Threads, number) })
	}
	if found < 0 {
		var known strings.Builder
		for _, i := range d.V8Isolates() {
			fmt.Fprintf(&known, ", %s", i)
		}
		return fmt.Errorf("find isolate %s: the process has %s", name, orNone(strings.TrimPrefix(known.String(), ", ")))
	}
	d.selected = &isolates[found]
	return nil
}

func orNone(list string) string {
	if list == "" {
		return "none that is known"
	}
	return list
}

// Several reports whether what d reports is of several isolates.
func (d *Dump) Several() bool { return d.selected == nil && len(d.Isolates()) > 1 }

// pages returns the pages of V8's heaps, those of the selected isolate if one is.
func (d *Dump) pages() []heap.Page {
	if d.v8.Binary == nil {
		return nil
	}
	pages := heap.FindPages(d, &d.v8.Binary.Release.Pages)
	if d.selected == nil {
		return pages
	}
	return slices.DeleteFunc(pages, func(p heap.Page) bool { return !p.Shared() && !d.selected.Has(p.Heap) })
}

// selectedThreads returns the threads of the selected isolate, its own first; all threads
// if none is selected.
func (d *Dump) selectedThreads() []stack.Thread {
	if d.selected == nil {
		return d.Threads()
	}
	var threads []stack.Thread
	for _, tid := range d.selected.Threads {
		for _, t := range d.Threads() {
			if t.TID == tid {
				threads = append(threads, t)
			}
		}
	}
	return threads
}

// FirstThread returns the thread that d is about: that of the selected isolate, or else the
// core's first; false if the core has none.
func (d *Dump) FirstThread() (stack.Thread, bool) {
	threads := d.selectedThreads()
	if len(threads) == 0 {
		return stack.Thread{}, false
	}
	return threads[0], true
}

// isolateNumbers returns a function that returns the number of the isolate whose Heap is at an
// address; nil if the heap is of no known isolate, or if d reports on one isolate only.
func (d *Dump) isolateNumbers() func(heap uint64) *int {
	if !d.Several() {
		return func(uint64) *int { return nil }
	}
	isolates := d.Isolates()
	return func(heap uint64) *int {
		number := slices.IndexFunc(isolates, func(i stack.Isolate) bool { return i.Has(heap) })
		if number < 0 {
			return nil
		}
		return &number
	}
}

// isolateTitle is the line above the rows of an isolate in lists by isolate.
func isolateTitle(number *int) string {
	if number == nil {
		return "no known isolate:\n"
	}
	return fmt.Sprintf("isolate %d:\n", *number)
}

// compareIsolates orders isolates by number, and an unknown one first.
func compareIsolates(a, b *int) int {
	number := func(of *int) int {
		if of == nil {
			return -1
		}
		return *of
	}
	return cmp.Compare(number(a), number(b))
}

// sameIsolate reports whether two numbers are of the same isolate.
func sameIsolate(a, b *int) bool { return a == b || a != nil && b != nil && *a == *b }
