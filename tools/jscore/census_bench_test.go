package jscore

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"ustack/symbolize/v8/heap"
	"ustack/testdata/nodetest"
	"ustack/tools/core"
)

// A measure is of one analysis of a core's heap, by a separate process, so that its
// memory is its own.
type measure struct {
	Seconds float64
	Objects int // of all kinds
	Peak    int // KB: the process's peak memory, including what it has mapped of the core
}

// A look is a way to analyze a heap.
type look struct {
	name string
	from stage // the stage from which on it is measured
	run  func(context.Context, *Graph, int) error
}

// A stage is how much of a heap is known.
type stage int

const (
	nothing stage = iota
	objects       // without references, roots and liveness
	everything
)

var looks = []look{
	{"live", objects, func(context.Context, *Graph, int) error { return nil }},
	{"census", nothing, countMade},
	{"retained", everything, func(ctx context.Context, g *Graph, _ int) error {
		d, err := g.Dominated(ctx)
		if err == nil {
			d.Retainers(ctx, CensusOptions{}, 20)
		}
		return err
	}},
	{"refs", everything, func(ctx context.Context, g *Graph, _ int) error {
		last := heap.ID(0)
		for id := range g.Select(ctx, CensusOptions{Class: "Holder", Live: true}) {
			last = id
		}
		_, err := g.References(ctx, g.Object(last).Ref(), RefOptions{Depth: 5})
		return err
	}},
	{"strings", everything, func(ctx context.Context, g *Graph, _ int) error {
		g.Strings(ctx, StringOptions{})
		return nil
	}},
	{"export", everything, func(ctx context.Context, g *Graph, _ int) error {
		_, err := g.Export(ctx, io.Discard)
		return err
	}},
}

// lookAtClasses is for a heap with as many classes as it is given.
var lookAtClasses = look{"classes", nothing, func(ctx context.Context, g *Graph, classes int) error {
	c := g.Census(ctx, CensusOptions{})
	if len(c.Groups) < classes {
		return fmt.Errorf("groups = %d, want one for each of %d classes, or more", len(c.Groups), classes)
	}
	return c.WriteText(io.Discard)
}}

// countMade takes a census by class and checks it.
func countMade(ctx context.Context, g *Graph, keep int) error {
	live := map[string]int{}
	for _, group := range g.Census(ctx, CensusOptions{ByClass: true, Live: true}).Groups {
		live[group.Class] = group.Count
	}
	for _, class := range []string{"Point", "Point3", "Named", "Holder", "Legacy"} {
		if got, want := live[class], counted(class, keep); got != want {
			return fmt.Errorf("objects of %s = %d, want %d", class, got, want)
		}
	}
	return nil
}

// The environment of a measuring process.
const (
	measureLook = "USTACK_MEASURE_LOOK"
	measureCore = "USTACK_MEASURE_CORE"
	measureKeep = "USTACK_MEASURE_KEEP"
)

// TestMain turns the test binary into a measuring process if the environment says so.
func TestMain(m *testing.M) {
	name := os.Getenv(measureLook)
	if name == "" {
		os.Exit(m.Run())
	}
	measured, err := takeMeasure(context.Background(), name)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(measured)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func takeMeasure(ctx context.Context, name string) (*measure, error) {
	all := append(slices.Clone(looks), lookAtClasses)
	look := all[slices.IndexFunc(all, func(l look) bool { return l.name == name })]
	keep, err := strconv.Atoi(os.Getenv(measureKeep))
	if err != nil {
		return nil, err
	}
	d, err := Open(context.Background(), os.Getenv(measureCore), Options{})
	if err != nil {
		return nil, err
	}
	defer d.Close()
	starts := map[stage]time.Time{nothing: time.Now()}
	o, err := heap.Walk(ctx, d, d.v8.Heap, nil)
	if err != nil {
		return nil, err
	}
	starts[objects] = time.Now()
	found, err := heap.NewGraph(ctx, o, d.LiveStacks())
	if err != nil {
		return nil, err
	}
	g := &Graph{Graph: found, dump: d, heap: d.v8.Heap}
	starts[everything] = time.Now()
	if err := look.run(ctx, g, keep); err != nil {
		return nil, err
	}
	seconds := time.Since(starts[look.from]).Seconds()
	peak, err := peakMemory()
	return &measure{seconds, o.Len(), peak}, err
}

// peakMemory returns the process's peak memory, in KB. The figure that getrusage
// reports starts at the memory of the parent process.
func peakMemory() (int, error) {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0, err
	}
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		if kb, ok := bytes.CutPrefix(s.Bytes(), []byte("VmHWM:")); ok {
			return strconv.Atoi(string(bytes.TrimSpace(bytes.TrimSuffix(kb, []byte("kB")))))
		}
	}
	return 0, fmt.Errorf("find VmHWM in %s", file.Name())
}

// BenchmarkHeap reports how the cost of analyzing a heap grows with the heap: the best
// of some runs in seconds, seconds per million objects of all kinds, the ratio of that
// to the smallest heap's, and the peak memory. With USTACK_BENCH set, heaps are large:
// the largest is 1 GB, for which node is given 4 GB.
func BenchmarkHeap(b *testing.B) {
	sizes, runs := []int{10_000}, 1 // objects of five classes
	if os.Getenv("USTACK_BENCH") != "" {
		sizes, runs = []int{300_000, 1_000_000, 3_000_000, 8_000_000}, 3
	}
	smallest := map[string]float64{} // seconds per object, by look
	for _, size := range sizes {
		b.Run(fmt.Sprintf("made=%d", size), func(b *testing.B) {
			path, keep := heapCore(b, size)
			for _, look := range looks {
				b.Run(look.name, func(b *testing.B) {
					var best *measure
					for b.Loop() {
						best = bestMeasure(b, runs, measureLook+"="+look.name, measureCore+"="+path, measureKeep+"="+strconv.Itoa(keep))
					}
					each := best.Seconds / float64(best.Objects)
					if _, ok := smallest[look.name]; !ok {
						smallest[look.name] = each
					}
					b.ReportMetric(0, "ns/op")
					b.ReportMetric(best.Seconds, "s")
					b.ReportMetric(each*1e6, "s/Mobject")
					b.ReportMetric(each/smallest[look.name], "x-linear")
					b.ReportMetric(float64(best.Objects), "objects")
					b.ReportMetric(float64(best.Peak)/1024, "peak-MB")
				})
			}
		})
	}
}

// BenchmarkClasses reports the cost of a census of a heap with many classes: the best of some
// runs, and the peak memory. With USTACK_BENCH set, there are 200,000.
func BenchmarkClasses(b *testing.B) {
	classes, runs := 10_000, 1
	if os.Getenv("USTACK_BENCH") != "" {
		classes, runs = 200_000, 3
	}
	path := coreOf(b, "classes.js", strconv.Itoa(classes))
	var best *measure
	for b.Loop() {
		best = bestMeasure(b, runs, measureLook+"="+lookAtClasses.name, measureCore+"="+path, measureKeep+"="+strconv.Itoa(classes))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(best.Seconds, "s")
	b.ReportMetric(float64(best.Objects), "objects")
	b.ReportMetric(float64(best.Peak)/1024, "peak-MB")
}

// heapCore makes a core of a process with size objects of five classes, and returns how
// many there are of each. They refer to as many others, and a few more.
func heapCore(b *testing.B, size int) (path string, keep int) {
	b.Helper()
	keep = size / 5
	return coreOf(b, "census.js", strconv.Itoa(keep), strconv.Itoa(keep/10), "-"), keep
}

// coreOf makes a core of a program that has made its objects.
func coreOf(b *testing.B, script string, args ...string) (path string) {
	b.Helper()
	target := nodetest.Start(b, nodetest.Node(b, "22.23.3"), nodetest.Options{
		Flags: []string{"--max-old-space-size=4096"}, Script: script, Args: args,
	})
	path = filepath.Join(b.TempDir(), "core")
	if _, err := core.Write(b.Context(), target.PID, path, core.Options{}); err != nil {
		b.Fatalf("core.Write: %v", err)
	}
	target.Stop()
	return path
}

// bestMeasure returns the fastest of some measures by processes with that environment.
func bestMeasure(b *testing.B, runs int, environment ...string) *measure {
	b.Helper()
	var best *measure
	for range runs {
		cmd := exec.CommandContext(b.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), environment...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("%q: %v", environment, err)
		}
		var m measure
		if err := json.Unmarshal(out, &m); err != nil {
			b.Fatal(err)
		}
		if best == nil || m.Seconds < best.Seconds {
			best = &m
		}
	}
	return best
}
