package jsprof

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
	"ustack/tools/trace"
)

const accuracyMethod = "`lines.js inlined`: V8 inlines three functions, each of which calls `unit`, into one; half, three\n" +
	"and two tenths of `unit`'s time are for them. The figure is by how many points the worst of the\n" +
	"three shares differs, and how many of `unit`'s samples name one of the three as its caller.\n" +
	"For perf, node runs with `--perf-basic-prof`, for `--cpu-prof` with that; jsprof needs no flag.\n" +
	"bpftrace is left out: it takes minutes to read the names of a second's stacks."

// A namer is a profiler whose stacks are read: how many samples of unit have which caller.
type namer struct {
	name   string
	sample func(b *testing.B, pid int, window time.Duration) map[string]float64
}

// BenchmarkAccuracy measures how well profilers tell inlined functions' shares.
func BenchmarkAccuracy(b *testing.B) {
	nodetest.Root(b)
	e := chosenEffort()
	t := benchtable.New("Accuracy of shares", accuracyMethod, "in", "by", "worst share is off by", "samples with the caller's name", "goal")
	for _, version := range e.versions {
		for _, tier := range []symbolize.Tier{symbolize.Maglev, symbolize.Turbofan} {
			if flags, ok := inliningFlags(version, tier); ok {
				b.Run(fmt.Sprintf("node%d/%s", nodetest.Major(version), tier), func(b *testing.B) {
					benchmarkAccuracy(b, nodetest.Node(b, version), flags, tier, e, t)
				})
			}
		}
	}
	t.Print(b)
}

func benchmarkAccuracy(b *testing.B, node string, flags []string, tier symbolize.Tier, e effort, t *benchtable.Table) {
	options := nodetest.Options{Script: "lines.js", Flags: flags, Args: []string{"inlined", "--tier=" + tier.String()}}
	for b.Loop() {
		attached := options
		attached.Flags = append(slices.Clone(flags), "--perf-basic-prof")
		target := nodetest.Start(b, node, attached)
		for _, n := range namers(b) {
			accuracyRow(b, t, n.name, n.sample(b, target.PID, e.window))
		}
		target.Stop()
		accuracyRow(b, t, "--cpu-prof", cpuProfCallers(b, node, options, e.window))
	}
}

// accuracyRow adds a row of what callers of unit a profiler names.
func accuracyRow(b *testing.B, t *benchtable.Table, by string, callers map[string]float64) {
	b.Helper()
	named, all, worst := 0.0, 0.0, 0.0
	want := map[string]float64{"half1": 50, "third1": 30, "fifth1": 20}
	for name, samples := range callers {
		all += samples
		if _, ok := want[name]; ok {
			named += samples
		}
	}
	for name, share := range want {
		worst = max(worst, math.Abs(100*callers[name]/max(all, 1)-share))
	}
	goal := ""
	if by == ours {
		goal = "≤ 3 points"
	}
	b.ReportMetric(worst, "points-"+strings.TrimLeft(by, "-"))
	t.Row(place(b), by, fmt.Sprintf("%.1f points", worst), fmt.Sprintf("%.1f %% of %.0f", 100*named/max(all, 1), all), goal)
}

// namers returns the profilers that are installed and attach to a process.
func namers(b *testing.B) []namer {
	all := []namer{{ours, sampleOurs}}
	if installed(b, "perf") {
		all = append(all, namer{"perf", samplePerf})
	}
	return all
}

func sampleOurs(b *testing.B, pid int, window time.Duration) map[string]float64 {
	p, err := Run(b.Context(), Options{Selection: trace.Selection{PIDs: []int{pid}}, Hz: 997, Duration: window})
	if err != nil {
		b.Fatal(err)
	}
	callers := make(map[string]float64)
	for _, s := range p.Stacks {
		var names []string
		for _, f := range slices.DeleteFunc(slices.Clone(s.Frames), func(f symbolize.Frame) bool { return !isJS(f) }) {
			names = append(names, f.Name)
		}
		count(callers, names, float64(s.Value))
	}
	return callers
}

// count adds samples with these JavaScript functions, leaf first, to those of unit's caller:
// the first one but unit, which is interpreted and has no name of its own in a perf map.
func count(callers map[string]float64, names []string, samples float64) {
	if at := slices.IndexFunc(names, func(name string) bool { return name != "unit" }); at >= 0 {
		callers[names[at]] += samples
	}
}

// mapped is the name of a JavaScript function in a perf map.
var mapped = regexp.MustCompile(`(?:JS|LazyCompile|Function):[~^*+']*(\S*) `)

func samplePerf(b *testing.B, pid int, window time.Duration) map[string]float64 {
	file := filepath.Join(b.TempDir(), "perf.data")
	output(b, "perf", "record", "-q", "-g", "-F", "997", "-p", strconv.Itoa(pid), "-o", file, "--", "sleep", fmt.Sprint(window.Seconds()))
	callers := make(map[string]float64)
	for stack := range bytes.SplitSeq(output(b, "perf", "script", "-i", file, "-F", "ip,sym"), []byte("\n\n")) {
		count(callers, mappedNames(stack), 1)
	}
	return callers
}

func mappedNames(stack []byte) (names []string) {
	for _, match := range mapped.FindAllSubmatch(stack, -1) {
		names = append(names, string(match[1]))
	}
	return names
}

// cpuProfCallers runs the program under node's own profiler until it ends.
func cpuProfCallers(b *testing.B, node string, o nodetest.Options, window time.Duration) map[string]float64 {
	file := filepath.Join(b.TempDir(), "run.cpuprofile")
	o.Flags = append(slices.Clone(o.Flags), cpuProfFlags(file)...)
	o.Args = append(slices.Clone(o.Args), fmt.Sprintf("--seconds=%g", window.Seconds()))
	nodetest.Start(b, node, o).Wait()
	data, err := os.ReadFile(file)
	if err != nil {
		b.Fatal(err)
	}
	var p struct {
		Nodes []struct {
			ID        int
			CallFrame struct{ FunctionName string }
			Children  []int
		}
		Samples []int
	}
	if err := json.Unmarshal(data, &p); err != nil {
		b.Fatal(err)
	}
	names := make(map[int][]string) // of a node's stack, leaf first
	for _, n := range p.Nodes {     // callers come first
		names[n.ID] = append([]string{n.CallFrame.FunctionName}, names[n.ID]...)
		for _, child := range n.Children {
			names[child] = names[n.ID]
		}
	}
	callers := make(map[string]float64)
	for _, id := range p.Samples {
		if slices.Contains(names[id], "unit") { // not node's start
			count(callers, names[id], 1)
		}
	}
	return callers
}

// output returns what a command prints.
func output(b *testing.B, name string, args ...string) []byte {
	b.Helper()
	var failed bytes.Buffer
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Stderr = &failed
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("%s: %v\n%s", name, err, &failed)
	}
	return out
}
