package heap_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"ustack/testdata/nodetest"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/tools/jscore"
)

// maxLost is how many bytes of a page may belong to no object: memory that V8 reserved
// for its next objects still holds the previous ones.
const maxLost = 1 << 18

func everyObjectIsFoundByItsAddress(t *testing.T, g *jscore.Graph, facts censusFacts) {
	if least := facts.Keep * 2 * len(facts.Classes); g.Len() < least {
		t.Errorf("objects = %d, want %d at least", g.Len(), least)
	}
	last := uint64(0)
	for id := range heap.ID(g.Len()) {
		address := g.Address(id)
		if got, ok := g.Find(address); !ok || got != id {
			t.Fatalf("Find(%#x) = %d, %v, want %d", address, got, ok, id)
		}
		if got, ok := g.Around(address + g.Size(id) - 1); !ok || got != id {
			t.Fatalf("Around(%#x) = %d, %v, want %d", address+g.Size(id)-1, got, ok, id)
		}
		if address < last {
			t.Fatalf("object %d is at %#x, in the one before, which ends at %#x", id, address, last)
		}
		last = address + g.Size(id)
	}
	if g.Doubts.Unreadable != 0 || g.Doubts.Lost > maxLost {
		t.Errorf("doubts = %+v", g.Doubts)
	}
}

func objectsAgreeWithV8Reader(t *testing.T, g *jscore.Graph, _ censusFacts) {
	const step = 7 // a prime, so that all kinds occur
	for id := heap.ID(0); int(id) < g.Len(); id += step {
		o, err := reader(t, g).Object(g.Object(id).Ref())
		if err != nil || o.Map != g.Map(id) {
			t.Fatalf("object at %#x = %v, %v, want map %#x", g.Address(id), o, err, g.Map(id).Address)
		}
		form, ok := reader(t, g).Form(o.Map)
		if !ok {
			continue
		}
		head := make([]byte, v8.FormHead)
		n, _ := reader(t, g).ReadAt(head, o.Address) // fewer bytes where memory ends
		if size := form.Size(head[:n]); size > 0 && uint64(size) != g.Size(id) {
			t.Errorf("size of %s at %#x = %d, want %d", o.Map.Kind, o.Address, g.Size(id), size)
		}
	}
}

// objectsAreFoundWithoutAWalk searches for some objects by an address within them.
func objectsAreFoundWithoutAWalk(t *testing.T, g *jscore.Graph, _ censusFacts) {
	const step = 9973 // a prime, so that all kinds occur
	for id := heap.ID(0); int(id) < g.Len(); id += step {
		start, size := g.Address(id), g.Size(id)
		if !g.IsLive(id) {
			continue // words of what was there before may pass for an object's beginning
		}
		for _, offset := range []uint64{0, size / 2, size - 1} {
			o, ok := heap.ObjectAround(g.Heap(), start+offset, g.Page(id).Address)
			if !ok || o.Address != start {
				t.Fatalf("around %#x: %#x, %v, want the %s at %#x", start+offset, o.Address, ok, g.Map(id).Kind, start)
			}
		}
		if o, ok := heap.ObjectAround(g.Heap(), start+size, start+8); ok && o.Address <= start {
			t.Errorf("around the end of the object at %#x: %#x, want no object below the limit", start, o.Address)
		}
	}
}

// mapsAreFoundByWordsInThem searches for maps by their references to others, which look
// like the beginning of an object.
func mapsAreFoundByWordsInThem(t *testing.T, g *jscore.Graph, _ censusFacts) {
	offset, ok := g.Heap().Offset("Map", "constructor_or_back_pointer")
	if !ok {
		t.Fatal("the offset of a map's back pointer is not known")
	}
	const enough = 100
	n := 0
	for id := heap.ID(0); int(id) < g.Len() && n < enough; id++ {
		o := g.Object(id)
		if o.Map.Kind != "Map" || !g.IsLive(id) {
			continue
		}
		back, err := g.Heap().Field(o, offset)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Heap().MapAt(back.Address()); err != nil {
			continue // it refers to a constructor
		}
		n++
		address := o.Address + uint64(offset)
		if got, ok := heap.ObjectAround(g.Heap(), address, g.Page(id).Address); !ok || got.Address != o.Address {
			t.Errorf("around %#x: %#x, %v, want the Map at %#x", address, got.Address, ok, o.Address)
		}
	}
	if n < enough {
		t.Errorf("found %d maps with back pointers, want %d", n, enough)
	}
}

func pagesAreInSpaces(t *testing.T, g *jscore.Graph, _ censusFacts) {
	spaces, heaps := map[string]int{}, map[uint64]bool{}
	for _, p := range g.Pages() {
		spaces[p.Space]++
		heaps[p.Heap] = true
	}
	for _, want := range []string{"readonly", "new", "old", "large", "code"} {
		if spaces[want] == 0 {
			t.Errorf("pages by space = %v, want some of %s", spaces, want)
		}
	}
	delete(heaps, 0) // shared by all isolates
	if len(heaps) != 1 {
		t.Errorf("pages are of %d heaps, want one", len(heaps))
	}
}

// counted is the apparent number of objects of a class of which the program keeps n: a
// subclass's prototype looks like one more.
func counted(class string, n int) int {
	if class == "Point" {
		return n + 1
	}
	return n
}

func onlyLiveObjectsAreLive(t *testing.T, g *jscore.Graph, facts censusFacts) {
	live, dead := countByClass(t, g)
	for _, class := range facts.Classes {
		if got, want := live[class], counted(class, facts.Keep); got != want {
			t.Errorf("live objects of %s = %d, want %d", class, got, want)
		}
		// V8 may leave a copy behind where two of its threads have moved an object.
		if got, most := dead[class], facts.Drop+facts.Drop/100; got > most {
			t.Errorf("dead objects of %s = %d, want at most %d", class, got, most)
		}
	}
}

// countByClass returns the number of objects of each class.
func countByClass(t *testing.T, g *jscore.Graph) (live, dead map[string]int) {
	t.Helper()
	live, dead = map[string]int{}, map[string]int{}
	for id := range heap.ID(g.Len()) {
		class, err := reader(t, g).Class(g.Object(id))
		if err != nil {
			continue // a garbage map
		}
		if g.IsLive(id) {
			live[class]++
		} else {
			dead[class]++
		}
	}
	return live, dead
}

func weakMapKeepsValuesOfLiveKeysOnly(t *testing.T, g *jscore.Graph, _ censusFacts) {
	live := map[string]int{}
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if o.Map.Kind != "JSObject" || o.Map.Own != 1 || !g.IsLive(id) {
			continue
		}
		properties, err := reader(t, g).Properties(o)
		if err == nil && len(properties) == 1 {
			live[properties[0].Name]++
		}
	}
	if got := live["onlyByKey"]; got != 1 {
		t.Errorf("live values of the live key = %d, want 1", got)
	}
	if got := live["neverAgain"]; got != 0 {
		t.Errorf("live values of 100 dead keys = %d, want none", got)
	}
}

func variablesOfClosuresAreNamed(t *testing.T, g *jscore.Graph, facts censusFacts) {
	closures := g.Functions(t.Context(), jscore.FunctionOptions{Name: "Legacy.call", Live: true})
	if len(closures.Definitions) != 1 {
		t.Fatalf("definitions of Legacy.call = %d, want 1", len(closures.Definitions))
	}
	h := reader(t, g)
	f, err := h.Object(v8.Value(closures.Definitions[0].Address))
	if err != nil {
		t.Fatal(err)
	}
	context, err := h.FieldOf(f, "JSFunction", "context")
	if err != nil {
		t.Fatal(err)
	}
	o, err := h.Object(context)
	if err != nil {
		t.Fatal(err)
	}
	const first = 16 + 2*8 // offset of a variable, after the scope and the enclosing context
	if got, want := heap.LinkAt(g.Graph, o, first), (heap.Link{How: heap.ByVariable, Name: "i"}); got != want {
		t.Errorf("first variable = %+v, want %+v", got, want)
	}
}

// TestWhatIsHeldFromOutsideIsLive tests objects to which only handles, microtasks and
// stacks refer, and some to which nothing refers.
func TestWhatIsHeldFromOutsideIsLive(t *testing.T) {
	versions := []string{"22.23.3"}
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for _, mode := range []string{"alone", "worker"} {
			t.Run(version+"/"+mode, func(t *testing.T) { checkHeld(t, version, mode) })
		}
	}
}

func checkHeld(t *testing.T, version, mode string) {
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{Script: "held.js", Args: []string{mode}})
	var facts struct {
		Held map[string]int `json:"held"` // objects by class
	}
	target.Facts(&facts)
	g := graphOf(t, target.PID)
	if g.Doubts.Loose {
		t.Error("not all that keeps objects alive was found")
	}
	for _, r := range g.Roots {
		if r.By == heap.ByMemory {
			t.Errorf("object %d is held by %v at %x, which is not understood", r.Object, r.By, r.From)
		}
	}
	live, dead := countByClass(t, g)
	for class, want := range facts.Held {
		if got := live[class]; got != want {
			t.Errorf("live objects of %s = %d, want %d", class, got, want)
		}
	}
	for class, want := range map[string]int{"ByNothing": 211, "ByWeakMap": 113} {
		if got := dead[class]; got != want {
			t.Errorf("dead objects of %s = %d, want %d", class, got, want)
		}
	}
	const hashes, prototypes = 223, 2 // of crypto: weak global handles refer to some of their objects
	if dead["Hash"] < hashes || live["Hash"] > prototypes {
		t.Errorf("dead and live objects of Hash = %d and %d, want %d at least, and %d at most", dead["Hash"], live["Hash"], hashes, prototypes)
	}
	// V8 has just kept everything that exists. Since then some 600 objects were created,
	// and a few others with each; and some by each isolate.
	if dead := g.Len() - g.Live; dead > 12_000 {
		t.Errorf("dead objects = %d of %d, want 12000 at most", dead, g.Len())
	}
}

// TestUnusedVariablesDoNotKeepObjectsAlive has the objects of variables that are not used
// any more counted as V8 does, which collects them if the code is TurboFan's.
func TestUnusedVariablesDoNotKeepObjectsAlive(t *testing.T) {
	versions := []string{nodetest.Versions[0], nodetest.Versions[len(nodetest.Versions)-1]} // tables of safepoints differ most
	if matrix() {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		for _, tier := range []symbolize.Tier{symbolize.Interpreted, symbolize.Maglev, symbolize.Turbofan} {
			flags, ok := nodetest.TierFlags(version, tier)
			if !ok {
				continue
			}
			t.Run(version+"/"+tier.String(), func(t *testing.T) { checkUnused(t, version, tier, flags) })
		}
	}
}

func checkUnused(t *testing.T, version string, tier symbolize.Tier, flags []string) {
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Flags: flags, Script: "unused.js", Args: []string{tier.String(), "40"},
	})
	var facts struct {
		Alive map[string]int `json:"alive"` // objects by class
	}
	target.Facts(&facts)
	if len(facts.Alive) == 0 {
		t.Fatal("the program says of no class how many objects are alive")
	}
	g := graphOf(t, target.PID)
	live, _ := countByClass(t, g)
	for class, want := range facts.Alive {
		if live[class] != want {
			t.Errorf("live objects of %s = %d, want %d", class, live[class], want)
		}
	}
	if g.Doubts.Loose {
		t.Error("not all that keeps objects alive was found")
	}
}

// TestAllOfMallocsMemoryIsFound has a program allocate blocks where its heap cannot grow.
func TestAllOfMallocsMemoryIsFound(t *testing.T) {
	nodetest.Root(t)
	program := filepath.Join(t.TempDir(), "pieces")
	if out, err := exec.CommandContext(t.Context(), "gcc", "-O1", "-o", program, nodetest.Program("pieces.c")).CombinedOutput(); err != nil {
		t.Fatalf("compile pieces.c: %v\n%s", err, out)
	}
	for _, count := range []int{2, 5, 40} { // one piece with a block, one with a few, many pieces
		target := nodetest.Start(t, program, nodetest.Options{Script: "pieces.c", Args: []string{strconv.Itoa(count)}})
		var blocks []uint64
		target.Facts(&blocks)
		found, err := heap.Allocated(t.Context(), dumped(t, target.PID))
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range blocks {
			if !slices.Contains(found, block) {
				t.Errorf("block %d of %d, at %#x, was not found among %d", i, count, block, len(found))
			}
		}
	}
}

// graphOf returns the objects of a process, from a core.
func graphOf(t testing.TB, pid int) *jscore.Graph {
	t.Helper()
	g, err := dumped(t, pid).Graph(t.Context())
	if err != nil {
		t.Fatalf("Graph: %v", err)
	}
	return g
}

// censusFacts is what census.js reports about its objects.
type censusFacts struct {
	Keep    int            `json:"keep"`    // of each class
	Drop    int            `json:"drop"`    // of each class, to which nothing refers any longer
	Classes []string       `json:"classes"` // their names
	Queried map[string]int `json:"queried"` // how many V8 itself counted before any were dropped, subclasses included
}

// censusVersions are the versions on which heap analysis is tested.
func censusVersions() []string {
	if matrix() {
		return nodetest.Versions
	}
	return []string{"18.20.8", "22.23.3", "26.10.0"}
}

// censusDump returns a core of a process that keeps and drops some objects of each
// class, and what the process reports about them. more is passed to census.js.
func censusDump(t testing.TB, version string, keep, drop int, more ...string) (*jscore.Dump, censusFacts) {
	t.Helper()
	target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
		Script: "census.js", Args: append([]string{strconv.Itoa(keep), strconv.Itoa(drop)}, more...),
	})
	var facts censusFacts
	target.Facts(&facts)
	d := dumped(t, target.PID)
	target.Stop()
	return d, facts
}

// matrix reports whether to test every version.
func matrix() bool { return os.Getenv("USTACK_MATRIX") == "1" }

// dumped returns a snapshot of a process.
func dumped(t testing.TB, pid int) *jscore.Dump {
	t.Helper()
	d, err := jscore.Attach(t.Context(), pid, jscore.Options{})
	if err != nil {
		t.Fatalf("Attach: %v", err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// reader returns what reads the objects of a graph.
func reader(t testing.TB, g *jscore.Graph) *v8.Heap {
	t.Helper()
	return g.Heap()
}

// TestHeap examines one core of each version in every way.
func TestHeap(t *testing.T) {
	for _, version := range censusVersions() {
		t.Run(version, func(t *testing.T) {
			d, facts := censusDump(t, version, 10_000, 5_000)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatalf("Graph: %v", err)
			}
			for _, test := range []struct {
				name string
				run  func(*testing.T, *jscore.Graph, censusFacts)
			}{
				{"every object is found by its address", everyObjectIsFoundByItsAddress},
				{"objects are found without a walk", objectsAreFoundWithoutAWalk},
				{"maps are found by words in them", mapsAreFoundByWordsInThem},
				{"objects agree with V8's own reader", objectsAgreeWithV8Reader},
				{"pages are in spaces", pagesAreInSpaces},
				{"only live objects are live", onlyLiveObjectsAreLive},
				{"a weak map keeps the values of live keys only", weakMapKeepsValuesOfLiveKeysOnly},
				{"variables of closures are named", variablesOfClosuresAreNamed},
				{"what is exported is a snapshot", exportedIsASnapshot},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, g, facts) })
			}
		})
	}
}

// TestReleasesHeap finds the objects in releases between which V8 changed, from the first
// of a line to the newest.
func TestReleasesHeap(t *testing.T) {
	for _, release := range nodetest.ReleasesOr("18.0.0", "24.0.0") {
		t.Run(release, func(t *testing.T) {
			nodetest.Works(t, "node", release, "jscore")
			d, facts := censusDump(t, release, 20_000, 3_000)
			g, err := d.Graph(t.Context())
			if err != nil {
				t.Fatalf("Graph: %v", err)
			}
			if g.Doubts.Loose || g.Doubts.Overlong > 0 || g.Doubts.Dangling > 0 || g.Doubts.Lost > maxLost {
				t.Errorf("doubts = %+v, want none", g.Doubts)
			}
			onlyLiveObjectsAreLive(t, g, facts)
			weakMapKeepsValuesOfLiveKeysOnly(t, g, facts)
		})
	}
}
