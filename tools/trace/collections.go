package trace

import (
	"time"

	"ustack/symbolize/v8"
)

const (
	maxIsolates = 1 << 10                // of a process that are kept
	pause       = 250 * time.Microsecond // for V8 to finish a collection
	maxPauses   = 1 << 8                 // for one process: 64 ms
)

// noteIsolate keeps the address of the isolate of a thread.
func (g *target) noteIsolate(owner, isolate uint64) {
	if g.isolates == nil {
		g.isolates = make(map[uint64]uint64)
	}
	if _, ok := g.isolates[owner]; ok || len(g.isolates) < maxIsolates {
		g.isolates[owner] = isolate
	}
}

// pause gives V8 a short time to finish a collection. It reports whether it did: a process
// gets at most maxPauses.
func (g *target) pause() bool {
	if g.pauses >= maxPauses {
		return false
	}
	g.pauses++
	time.Sleep(pause)
	return true
}

// stateScavenge is Heap::SCAVENGE (src/heap/heap.h, V8 9.4 to 15.0): while V8 scavenges, a
// new address may be seen before the object is there.
const stateScavenge = 1

// collections returns how many collections there were in a thread's isolate, and whether
// the present addresses hold whole objects. Both are 0 and true where no such counter of
// V8's is known.
func (g *target) collections(owner uint64) (count uint64, whole bool) {
	const half = 1<<32 - 1
	l, isolate := &g.binary.v8.Layout, g.isolates[owner]
	if isolate == 0 || l.GCCount == 0 {
		return 0, true
	}
	state, err := v8.ReadWord(g.process, isolate+uint64(l.GCState))
	if err != nil || state&half == stateScavenge {
		return 0, false
	}
	count, err = v8.ReadWord(g.process, isolate+uint64(l.GCCount))
	return count & half, err == nil
}
