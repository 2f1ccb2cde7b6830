package stack

import (
	"ustack/symbolize"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// A V8 describes a process's V8. The zero value stands for a process without one.
type V8 struct {
	Module *space.Module // the file that holds it
	Binary *v8.Binary    // nil if its version is not known; then so are the others
	Heap   *v8.Heap      // nil if objects cannot be read
	Codes  *code.Finder  // nil if compiled functions have no executing line
}

// An Unwinder unwinds the stacks of a process. It is not safe for concurrent use.
type Unwinder struct {
	space     *space.Space
	v8        V8
	threads   []Thread
	functions map[v8.Value]v8.Function
	natives   map[place]symbolize.Frame
	scripts   map[scriptKey]Script
	findMap   func(name, url string) *sourcemap.Map // of a script; nil: there are none
	maps      map[scriptKey]*sourcemap.Map
}

// A place is an address in machine code, and one in the instruction that is running there
// or was called from.
type place struct{ pc, within uint64 }

// New returns an Unwinder of the process with that address space, and no threads.
func New(s *space.Space, v V8) *Unwinder {
	return &Unwinder{
		space: s, v8: v, functions: make(map[v8.Value]v8.Function), natives: make(map[place]symbolize.Frame),
		scripts: make(map[scriptKey]Script),
	}
}

// UseMaps has frames named by source maps, which find returns for scripts by their name
// and the URL that they give for the map; nil for those that have none. It is called once
// for each script.
func (u *Unwinder) UseMaps(find func(name, url string) *sourcemap.Map) {
	u.findMap, u.maps = find, make(map[scriptKey]*sourcemap.Map)
}

// V8 returns what is known of the process's V8.
func (u *Unwinder) V8() V8 { return u.v8 }

// A Thread is one of the process's threads.
type Thread struct {
	TID       int
	Registers Registers
	Isolate   uint64 // the V8 isolate it has entered; 0 if none
}

// SetThreads sets the threads, and finds the isolate that each has entered. If it fails,
// only the isolates of threads that run JavaScript at the moment are known.
func (u *Unwinder) SetThreads(threads []Thread) error {
	slot, err := u.isolateSlot()
	for i := range threads {
		threads[i].Isolate = u.isolateOf(threads[i].Registers, slot)
	}
	u.threads = threads
	return err
}

// Threads returns the process's threads.
func (u *Unwinder) Threads() []Thread { return u.threads }
