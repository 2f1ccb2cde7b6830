package jscore

import (
	"slices"

	"ustack/symbolize/space"
	"ustack/symbolize/unwind"
	"ustack/symbolize/v8"
)

// An Isolate is one instance of V8 in the process: the main thread's, or a
// worker's.
type Isolate struct {
	Address uint64
	Threads []int // TIDs of those that have entered it: first the one that runs JavaScript, then V8's helpers
}

// rootBias is the distance of V8's root register, r13, from the isolate.
const rootBias = 0x80

// isolateSlot returns where threads store their isolate, if that is known.
func (d *Dump) isolateSlot() v8.TLS {
	if d.binary == nil {
		return v8.TLS{}
	}
	slot, err := d.binary.TLSIsolate(d, d.v8.bias)
	if err != nil {
		d.lacks("isolates", err, "no thread is known to run JavaScript but where it does at the moment")
	}
	return slot
}

// isolateOf returns the isolate that a thread has entered, 0 if none: from the thread's
// own storage, or from V8's root register.
func (d *Dump) isolateOf(r Registers, slot v8.TLS) uint64 {
	if d.binary == nil {
		return 0
	}
	if slot.Known() {
		isolate, err := slot.Isolate(d, r.FSBase)
		if err == nil && d.isIsolate(isolate) {
			return isolate
		}
		return 0
	}
	if kind, _ := d.codeAt(r.PC); kind < codeBuiltin {
		return 0
	}
	if isolate := r.General[unwind.R13] - rootBias; d.isIsolate(isolate) {
		return isolate
	}
	return 0
}

// isIsolate reports whether an isolate may be at address.
func (d *Dump) isIsolate(address uint64) bool {
	if address == 0 || address%8 != 0 {
		return false
	}
	_, err := d.word(address + uint64(d.binary.Layout.CEntryFP))
	return err == nil
}

// Isolates returns those that threads have entered, in the threads' order.
func (d *Dump) Isolates() []Isolate {
	var isolates []Isolate
	for _, t := range d.threads {
		if t.Isolate == 0 {
			continue
		}
		at := slices.IndexFunc(isolates, func(i Isolate) bool { return i.Address == t.Isolate })
		if at < 0 {
			at = len(isolates)
			isolates = append(isolates, Isolate{Address: t.Isolate})
		}
		isolates[at].Threads = append(isolates[at].Threads, t.TID)
	}
	for i := range isolates {
		d.ownerFirst(&isolates[i])
	}
	return isolates
}

// ownerFirst moves the thread to the front whose stack holds the isolate's newest exit
// frame, or otherwise the oldest thread.
func (d *Dump) ownerFirst(i *Isolate) {
	slices.Sort(i.Threads)
	owner := slices.IndexFunc(i.Threads, func(tid int) bool {
		at := slices.IndexFunc(d.threads, func(t Thread) bool { return t.TID == tid })
		return d.exitFrame(d.threads[at]) != 0
	})
	if owner > 0 {
		tid := i.Threads[owner]
		i.Threads = slices.Insert(slices.Delete(i.Threads, owner, owner+1), 0, tid)
	}
}

// exitFrame returns the frame pointer of the newest frame by which the thread left
// JavaScript; 0 if it has none. One of V8's helpers has the isolate of another thread,
// whose frames are on another stack.
func (d *Dump) exitFrame(t Thread) uint64 {
	if t.Isolate == 0 || d.binary.Layout.CEntryFP == 0 {
		return 0
	}
	fp, err := d.word(t.Isolate + uint64(d.binary.Layout.CEntryFP))
	if err != nil || fp == 0 || fp < t.Registers.SP {
		return 0
	}
	at, ok := d.region(t.Registers.SP)
	if !ok || fp >= d.stackEnd(at) {
		return 0
	}
	return fp
}

// stackEnd returns the end of the contiguous writable memory that contains r: a stack
// may be in several regions if the core leaves out pages.
func (d *Dump) stackEnd(r space.Region) uint64 {
	at := slices.Index(d.regions, r)
	end := r.End
	for _, next := range d.regions[at+1:] {
		if next.Start != end || next.File != "" || next.Write != r.Write {
			break
		}
		end = next.End
	}
	return end
}
