package stack

import (
	"slices"

	"ustack/symbolize/space"
	"ustack/symbolize/v8"
)

// An Isolate is one instance of V8 in the process: the main thread's, or a
// worker's.
type Isolate struct {
	Address uint64
	Threads []int // TIDs of those that have entered it: first the one that runs JavaScript, then V8's helpers
}

// maxIsolate bounds the bytes of an Isolate, which its Heap is a part of: 50 to 70 thousand in
// V8 9.4 to 14.6, 132 thousand on arm64.
const maxIsolate = 1 << 18

// Has reports whether the Heap at an address is the isolate's.
func (i Isolate) Has(heap uint64) bool { return heap >= i.Address && heap-i.Address < maxIsolate }

// isolateSlot returns where threads store their isolate, if that is known.
func (u *Unwinder) isolateSlot() (v8.TLS, error) {
	if u.v8.Binary == nil {
		return v8.TLS{}, nil
	}
	return u.v8.Binary.TLSIsolate(u.space, u.v8.Module.Bias)
}

// isolateOf returns the isolate that a thread has entered, 0 if none: from the thread's
// own storage, or from V8's root register.
func (u *Unwinder) isolateOf(r Registers, slot v8.TLS) uint64 {
	if u.v8.Binary == nil || r.ofKernel() {
		return 0
	}
	if slot.Known() {
		isolate, err := slot.Isolate(u.space, r.ThreadPointer)
		if err == nil && u.isIsolate(isolate) {
			return isolate
		}
		return 0
	}
	if kind, _ := u.codeAt(r.PC); kind < codeBuiltin {
		return 0
	}
	m := machines[r.Machine]
	if isolate := r.General[m.root] - m.rootBias; u.isIsolate(isolate) {
		return isolate
	}
	return 0
}

// isIsolate reports whether an isolate may be at address.
func (u *Unwinder) isIsolate(address uint64) bool {
	if address == 0 || address%8 != 0 {
		return false
	}
	_, err := u.space.Word(address + uint64(u.v8.Binary.Layout.CEntryFP))
	return err == nil
}

// Isolates returns those that threads have entered, in the threads' order.
func (u *Unwinder) Isolates() []Isolate {
	var isolates []Isolate
	for _, t := range u.threads {
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
		u.ownerFirst(&isolates[i])
	}
	return isolates
}

// ownerFirst moves the thread to the front whose stack holds the isolate's newest exit
// frame, or otherwise the oldest thread.
func (u *Unwinder) ownerFirst(i *Isolate) {
	slices.Sort(i.Threads)
	owner := slices.IndexFunc(i.Threads, func(tid int) bool {
		at := slices.IndexFunc(u.threads, func(t Thread) bool { return t.TID == tid })
		return u.exitFrame(u.threads[at]) != 0
	})
	if owner > 0 {
		tid := i.Threads[owner]
		i.Threads = slices.Insert(slices.Delete(i.Threads, owner, owner+1), 0, tid)
	}
}

// exitFrame returns the frame pointer of the newest frame by which the thread left
// JavaScript; 0 if it has none. One of V8's helpers has the isolate of another thread,
// whose frames are on another stack.
func (u *Unwinder) exitFrame(t Thread) uint64 {
	if t.Isolate == 0 || u.v8.Binary.Layout.CEntryFP == 0 {
		return 0
	}
	fp, err := u.space.Word(t.Isolate + uint64(u.v8.Binary.Layout.CEntryFP))
	if err != nil || fp == 0 || fp < t.Registers.SP {
		return 0
	}
	at, ok := u.space.Region(t.Registers.SP)
	if !ok || fp >= u.StackEnd(at) {
		return 0
	}
	return fp
}

// StackEnd returns the end of the contiguous writable memory that contains r: a stack
// may be in several regions if the core leaves out pages.
func (u *Unwinder) StackEnd(r space.Region) uint64 {
	at := slices.Index(u.space.Regions(), r)
	end := r.End
	for _, next := range u.space.Regions()[at+1:] {
		if next.Start != end || next.File != "" || next.Write != r.Write {
			break
		}
		end = next.End
	}
	return end
}
