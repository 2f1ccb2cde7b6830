package jscore

import (
	"math"
	"testing"

	"ustack/testdata/nodetest/calls"
)

// buffersProgram has buffers with memory of their own, slices of such memory, and small ones in
// node's pool. It has V8 count them, and add up what they have outside of its heap.
const buffersProgram = `const v8 = require('v8');
globalThis.kept = [];
for (let i = 0; i < 300; i++) {
  const own = Buffer.alloc(10_000 + i);
  kept.push(own, own.subarray(10, 20), Buffer.from('small ' + i), new ArrayBuffer(5_000 + i), new Float64Array(100));
}
const count = (c) => v8.queryObjects ? v8.queryObjects(c, { format: 'count' }) : undefined;
global.gc();
const queried = { ArrayBuffer: count(ArrayBuffer), Buffer: count(Buffer), Float64Array: count(Float64Array) };
setImmediate(() => {
  global.gc();
  console.log('ready ' + JSON.stringify({ outside: process.memoryUsage().arrayBuffers, queried }));
});
setInterval(() => {}, 1 << 30);`

// TestBuffersAreAsNodeCountsThem compares buffers with what V8 and node say of them.
func TestBuffersAreAsNodeCountsThem(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, buffersProgram, "--expose-gc")
			var facts struct {
				Outside uint64
				Queried map[string]int
			}
			target.Facts(&facts)
			g := graphOf(t, target.PID)
			count := func(class string) (n int, outside uint64) {
				for id := range g.Select(t.Context(), CensusOptions{Class: class, Live: true}) {
					n++
					outside += g.Outside(id)
				}
				return n, outside
			}
			_, outside := count("ArrayBuffer")
			if math.Abs(float64(outside)-float64(facts.Outside)) > 0.01*float64(facts.Outside) {
				t.Errorf("bytes of ArrayBuffers = %d, want %d within 1%%, as node says", outside, facts.Outside)
			}
			for class, want := range facts.Queried {
				if got, _ := count(class); got < want-buffersLater || got > want+buffersLater {
					t.Errorf("objects of %s = %d, want %d, as V8 says", class, got, want)
				}
			}
		})
	}
}

// buffersLater is by how many the counts may differ: node makes a few buffers after V8 has counted, and V8 does not
// count prototypes.
const buffersLater = 3
