package jscore

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/testdata/nodetest"
)

// TestLiveObjectsAreThoseThatV8Counts compares the live objects of npm's programs, each at a
// random moment of its work, with what V8 itself then counts.
func TestLiveObjectsAreThoseThatV8Counts(t *testing.T) {
	if !matrix() {
		t.Skip("it takes minutes: make test-matrix")
	}
	for _, version := range []string{"22.23.3", "24.21.0", "26.10.0"} { // which have v8.queryObjects
		for _, program := range nodetest.NPMPrograms {
			if program == "jest" {
				continue // V8 counts the objects of one context only, and jest makes more
			}
			t.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), program), func(t *testing.T) {
				target, load := nodetest.StartNPM(t, nodetest.Node(t, version), program, "-r", "../../testdata/npm/count.js")
				moment := rand.N(2 * time.Second)
				t.Logf("%v after the program has done its work once", moment)
				time.Sleep(moment)
				target.Signal(syscall.SIGUSR2)
				want := v8Counts(t, target)
				g := graphOf(t, target.PID)
				target.Signal(syscall.SIGKILL)
				if load != nil {
					load.Stop()
				}
				got, shared := instances(g)
				compared, objects := 0, 0
				for class, count := range want {
					if shared[class] || count == 0 { // other classes of the name may have objects
						continue
					}
					compared++
					objects += count
					if got[class] != count {
						t.Errorf("live objects of %s = %d, want %d", class, got[class], count)
					}
				}
				if compared < 5 || objects < 100 {
					t.Errorf("classes compared = %d, their objects = %d, want 5 and 100 or more", compared, objects)
				}
				t.Logf("classes compared: %d, their objects: %d", compared, objects)
			})
		}
	}
}

// v8Counts returns the objects that count.js says V8 counts, by class.
func v8Counts(t *testing.T, target *nodetest.Target) map[string]int {
	t.Helper()
	for {
		text, ok := strings.CutPrefix(target.Line(), "counts ")
		if !ok {
			continue // the program's own
		}
		var counts map[string]int
		if err := json.Unmarshal([]byte(text), &counts); err != nil {
			t.Fatalf("read counts: %v", err)
		}
		return counts
	}
}

// instances counts the live objects of each class, including those of its subclasses, as
// queryObjects does: by their prototypes. A name that several classes have is shared.
func instances(g *Graph) (byName map[string]int, shared map[string]bool) {
	counts := make(map[v8.Value]int)   // by prototype
	names := make(map[v8.Value]string) // of its class
	for id := range heap.ID(g.Len()) {
		o := g.Object(id)
		if !g.IsLive(id) || !g.heap.IsReceiver(o) || !o.Map.Prototype.IsObject() {
			continue
		}
		if class, err := g.heap.Class(o); err == nil {
			names[o.Map.Prototype] = class
		}
		for _, prototype := range prototypes(g.heap, o) {
			counts[prototype]++
		}
	}
	byName, shared = make(map[string]int), make(map[string]bool)
	for prototype, name := range names {
		_, several := byName[name]
		shared[name] = shared[name] || several
		byName[name] = counts[prototype]
	}
	return byName, shared
}

// prototypes returns an object's prototype, the prototype's, and so on.
func prototypes(h *v8.Heap, o v8.Object) (chain []v8.Value) {
	for len(chain) < 100 {
		prototype := o.Map.Prototype
		next, err := h.Object(prototype)
		if err != nil || !h.IsReceiver(next) {
			break
		}
		chain = append(chain, prototype)
		o = next
	}
	return chain
}
