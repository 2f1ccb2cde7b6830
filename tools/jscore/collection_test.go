package jscore

import (
	"strconv"
	"testing"

	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// TestChaosCoresDuringCollections takes cores at random moments of a program that creates
// garbage without pause: most are taken during a collection. Each has the number of
// live objects that the program always has, give or take those it is just creating.
// While a collection moves objects, which the doubts report, up to 2 % more were seen
// to count as live on Node.js 18. The short form allows for that, the long one does not.
func TestChaosCoresDuringCollections(t *testing.T) {
	const count, making = 30_000, 2
	versions := []string{"18.20.8", "26.10.0"}
	long := nodetest.Rounds(0, 1) > 0
	if matrix() || long {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Script: "churn.js", Args: []string{strconv.Itoa(count)}, Flags: []string{"--max-semi-space-size=4"},
			})
			for i := range nodetest.Rounds(3, 40) {
				g := graphOf(t, target.PID)
				live, _ := countByClass(t, g)
				for class, want := range map[string]int{"Live": count, "Part": count, "Held": 2 * count} {
					most := want + making
					if !long && g.Doubts.Collecting {
						most = want + want/20
					}
					if got := live[class]; got < want-making || got > most {
						t.Errorf("core %d: live objects of %s = %d, want %d; doubts: %+v", i, class, got, want, g.Doubts)
					}
				}
				checkRing(t, g, count)
			}
		})
	}
}

// checkRing checks the list of all objects of the class Live, which is large and often
// young.
func checkRing(t *testing.T, g *Graph, count int) {
	t.Helper()
	for id := range g.Select(t.Context(), CensusOptions{Kind: "array", Live: true}) {
		array := g.Object(id)
		if length, _ := g.heap.Length(array); length != count {
			continue
		}
		seen := 0
		err := g.heap.Elements(array, func(v8.Element) bool { seen++; return true })
		if err != nil || seen != count {
			t.Errorf("elements of the list = %d, %v, want %d", seen, err, count)
		}
		return
	}
	t.Errorf("no live list of %d objects", count)
}

// TestLostMapIsOfTheObject looks for the map of a large object that a scavenge has left
// in place, among other words found next to references to the object: in a frame, and
// in memory returned to malloc.
func TestLostMapIsOfTheObject(t *testing.T) {
	const page, head, outside, length = 1 << 30, 0x1100, 0x8000, 20_000
	const object, size = page + head, 16 + 8*length
	m := madeMemory{page: make([]byte, head+size), outside: make([]byte, 0x1000)}
	m.put(object, object, length<<32) // moved to its own address
	maps := map[uint64]*v8.Map{
		0x101: {Kind: "JSFunction", Size: 64},
		0x201: {Kind: "ByteArray"}, // much shorter with this length
		0x301: {Kind: "FixedArray"},
		0x401: {Kind: "OnHeapBasicBlockProfilerData"}, // its size is not known
	}
	for _, order := range [][]uint64{{0x101, 0x201, 0x301, 0x401}, {0x401, 0x301, 0x201, 0x101}} {
		heap := &v8.Heap{}
		o := &Objects{memory: m, heap: heap, known: map[uint64]int32{}}
		o.pages = []pageObjects{{Page: Page{Address: page, Start: object, End: object + size, Size: pageAlign, Space: "new-large"}}}
		o.at.fill(o.pages)
		for i, word := range order {
			k := objectKind{}
			k.form, k.sized = heap.Form(maps[word])
			o.known[word] = int32(len(o.kinds))
			o.kinds = append(o.kinds, k)
			m.put(outside+uint64(i)*0x100, object|1, word)
		}
		if err := (&Graph{Objects: o}).findLostMaps(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := o.lostMaps[object], uint64(0x301); got != want {
			t.Errorf("map of the large object, of %x, = %#x, want %#x", order, got, want)
		}
	}
}
