package jscore

import (
	"bytes"
	"encoding/json"
	"testing"

	"ustack/testdata/nodetest/calls"

	"ustack/testdata/nodetest"
)

// TestMemoryOutsideOfTheHeapCounts tests ArrayBuffers, some shared by views and buffers,
// and strings kept by C++.
func TestMemoryOutsideOfTheHeapCounts(t *testing.T) {
	const source = `const v8 = require('v8');
class Owner { constructor(o) { Object.assign(this, o); } }
const store = new ArrayBuffer(3_000_000);
const owner = new Owner({
  views: [new Uint8Array(store), new DataView(store), Buffer.from(store, 1_000_000, 500_000)],
  shared: new SharedArrayBuffer(700_000),
  latin: Buffer.alloc(2_000_000, 'latin').toString('latin1'),
});
const small = new Owner({ onHeap: new Uint8Array(40) });
setInterval(() => [owner, small], 1 << 30);
console.log('ready');`
	versions := []string{"18.20.8", "26.10.0"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			target := calls.StartSource(t, version, source)
			nodetest.WaitUntilIdle(t, target.PID)
			g := graphOf(t, target.PID)
			d := dominated(t, g)
			owners := d.Retainers(t.Context(), CensusOptions{Class: "Owner"}, 10).Objects
			if len(owners) < 2 {
				t.Fatalf("owners = %+v, want two", owners)
			}
			const bytes, around = 5_700_000, 10_000
			if got := owners[0].Retained; got < bytes || got > bytes+around {
				t.Errorf("the first owner retains %d bytes, want %d and little more", got, bytes)
			}
			if got := owners[1].Retained; got > 2_000 {
				t.Errorf("the owner of an array in the heap retains %d bytes, want few", got)
			}
			checkOutside(t, g, "ArrayBuffer", 3_000_000)
			checkOutside(t, g, "SharedArrayBuffer", 700_000)
			shared := d.Retainers(t.Context(), CensusOptions{Class: "SharedArrayBuffer"}, 1).Objects
			if len(shared) != 1 || !shared[0].Shared || shared[0].Outside != 700_000 {
				t.Errorf("shared buffer = %+v, want 700000 bytes that are shared", shared)
			}
			checkSnapshotHas(t, g, bytes)
		})
	}
}

func checkOutside(t *testing.T, g *Graph, class string, least uint64) {
	t.Helper()
	group := mostOf(t, g, CensusOptions{Class: class, Live: true, ByClass: true})
	if group.Outside < least || group.Outside > least+200_000 || group.Bytes <= group.Outside {
		t.Errorf("%s have %d bytes outside of the heap, of %d, want %d and little more", class, group.Outside, group.Bytes, least)
	}
}

// checkSnapshotHas checks that the objects of an exported snapshot have at least that many bytes.
func checkSnapshotHas(t *testing.T, g *Graph, least uint64) {
	t.Helper()
	var b bytes.Buffer
	if _, err := g.Export(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	var snapshot struct {
		Nodes []uint64 `json:"nodes"`
	}
	if err := json.Unmarshal(b.Bytes(), &snapshot); err != nil {
		t.Fatal(err)
	}
	const fields, selfSize = 7, 3 // V8 6 and later: type, name, id, self_size ...
	total := uint64(0)
	for at := 0; at+fields <= len(snapshot.Nodes); at += fields {
		total += snapshot.Nodes[at+selfSize]
	}
	if total < least {
		t.Errorf("objects of the snapshot have %d bytes, want %d at least", total, least)
	}
}
