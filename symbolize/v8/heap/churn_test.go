package heap_test

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ustack/testdata/nodetest"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/tools/jscore"
)

// TestChaosCoresDuringCollections takes cores at random moments of a program that creates
// garbage without pause: most are taken during a collection. Each has the number of
// live objects that the program always has, give or take those it is just creating, and, if
// the graph has doubts about copies, one of a thousand, of which both copies may count.
func TestChaosCoresDuringCollections(t *testing.T) {
	versions := []string{"18.20.8", "26.10.0"}
	if matrix() || nodetest.Rounds(0, 1) > 0 {
		versions = nodetest.Versions
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				Script: "churn.js", Args: []string{strconv.Itoa(churned)}, Flags: []string{"--max-semi-space-size=4"},
			})
			for range nodetest.Rounds(3, 40) {
				checkChurn(t, graphOf(t, target.PID))
			}
		})
	}
}

// TestStepsOfTheCollector stops programs by gdb in functions of V8's collector: where objects, also
// maps, have been moved and not all that refers to them has been updated.
func TestStepsOfTheCollector(t *testing.T) {
	const moved = "MarkCompactCollector::UpdatePointersAfterEvacuation"
	steps := map[string]int{moved: 2, "Evacuator::EvacuatePage": 40, "Scavenger::Finalize": 9} // calls before
	versions := []string{"26.10.0"}
	if matrix() {
		versions = slices.DeleteFunc(slices.Clone(nodetest.Versions), func(v string) bool { return nodetest.Major(v) < 18 })
	}
	for _, version := range versions {
		for function, before := range steps {
			t.Run(version+"/"+function, func(t *testing.T) {
				target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
					Script: "churn.js", Args: []string{strconv.Itoa(churned)},
					Flags: []string{"--max-semi-space-size=4", "--expose-gc", "--compact-on-every-full-gc"},
				})
				stopIn(t, target, "v8::internal::"+function, before)
				g := graphOf(t, target.PID)
				if function == moved && !g.Doubts.Collecting {
					t.Error("no collection was moving objects")
				}
				checkChurn(t, g)
			})
		}
	}
}

// stopIn has gdb stop the target in a function, after so many calls, and leaves it stopped.
func stopIn(t *testing.T, target *nodetest.Target, function string, before int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "gdb", "-nx", "-batch", "-p", strconv.Itoa(target.PID),
		"-ex", "break "+function, "-ex", "ignore 1 "+strconv.Itoa(before), "-ex", "continue",
		"-ex", "shell kill -STOP "+strconv.Itoa(target.PID))
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "Breakpoint 1, ") {
		t.Fatalf("gdb: %v, want it to stop in %s\n%s", err, function, out)
	}
}

// churned is how many objects of a class churn.js keeps.
const churned = 30_000

// checkChurn checks the number of live objects of churn.js.
func checkChurn(t *testing.T, g *jscore.Graph) {
	t.Helper()
	const making = 2 // while it creates them
	live, _ := countByClass(t, g)
	twice := 0
	if g.Doubts.Collecting && g.Doubts.Guessed > 0 {
		twice = churned / 1000
	}
	for class, want := range map[string]int{"Live": churned, "Part": churned, "Held": 2 * churned} {
		if got := live[class]; got < want-making || got > want+making+twice {
			t.Errorf("live objects of %s = %d, want %d; doubts: %+v", class, got, want, g.Doubts)
		}
	}
	checkRing(t, g, churned)
}

// checkRing checks the list of all objects of the class Live, which is large and often
// young.
func checkRing(t *testing.T, g *jscore.Graph, count int) {
	t.Helper()
	for id := range heap.ID(g.Len()) {
		array := g.Object(id)
		if array.Map.Kind != "JSArray" || !g.IsLive(id) {
			continue
		}
		if length, _ := reader(t, g).Length(array); length != count {
			continue
		}
		seen := 0
		err := reader(t, g).Elements(array, func(v8.Element) bool { seen++; return true })
		if err != nil || seen != count {
			t.Errorf("elements of the list = %d, %v, want %d", seen, err, count)
		}
		return
	}
	t.Errorf("no live list of %d objects", count)
}
