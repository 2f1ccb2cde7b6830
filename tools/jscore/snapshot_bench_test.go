package jscore

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
	"ustack/tools/core"
)

const snapshotMethod = "`heap.js`: a heap of small objects, and the program's own of a few hundred. Ours takes a core of the\n" +
	"running process and counts the live plain objects in it; node writes a snapshot on a signal\n" +
	"(`--heapsnapshot-signal`, a flag that it must have been started with). *Held* is the longest gap\n" +
	"between two calls of the program's timer of 1 ms."

// BenchmarkSnapshot compares a census of a core with node's own heap snapshot.
func BenchmarkSnapshot(b *testing.B) {
	nodetest.Root(b)
	sizes := []int{20}
	if os.Getenv("USTACK_BENCH") != "" {
		sizes = []int{50, 200}
	}
	t := benchtable.New("Counting objects", snapshotMethod, "heap", "by", "plain objects", "of which the program made", "held", "until they are counted")
	for _, megabytes := range sizes {
		b.Run(fmt.Sprintf("%dMB", megabytes), func(b *testing.B) {
			for b.Loop() {
				compareSnapshots(b, megabytes, t)
			}
		})
	}
	t.Print(b)
}

func compareSnapshots(b *testing.B, megabytes int, t *benchtable.Table) {
	dir := b.TempDir()
	target := nodetest.Start(b, nodetest.Node(b, "22.23.3"), nodetest.Options{
		Flags:  []string{"--heapsnapshot-signal=SIGWINCH", "--diagnostic-dir=" + dir, "--max-old-space-size=8000"},
		Script: "heap.js", Args: []string{strconv.Itoa(megabytes)},
	})
	made := megabytes << 20 / 64
	row := func(by string, count func() (n int, held float64)) {
		longestGap(b, target) // forgets what was before
		begin := time.Now()
		counted, held := count()
		took := time.Since(begin)
		b.ReportMetric(held, "ms-held-"+by)
		t.Row(fmt.Sprintf("%d MB", megabytes), by, strconv.Itoa(counted), strconv.Itoa(made), fmt.Sprintf("%.0f ms", held), fmt.Sprintf("%.1f s", took.Seconds()))
	}
	row("ours", func() (int, float64) { return censusOf(b, target.PID, dir), longestGap(b, target) })
	row("snapshot", func() (int, float64) { return snapshotOf(b, target, dir) })
	target.Stop()
}

// longestGap returns how long the program was held up at most since the last call, in ms.
func longestGap(b *testing.B, target *nodetest.Target) float64 {
	b.Helper()
	target.Signal(syscall.SIGUSR2)
	var facts struct{ Milliseconds float64 }
	if line := target.Line(); json.Unmarshal([]byte(strings.TrimPrefix(line, "gap ")), &facts) != nil {
		b.Fatalf("line = %q, want a gap", line)
	}
	return facts.Milliseconds
}

// censusOf counts the live plain objects in a core.
func censusOf(b *testing.B, pid int, dir string) (n int) {
	b.Helper()
	path := filepath.Join(dir, "core")
	if _, err := core.Write(b.Context(), pid, path, core.Options{}); err != nil {
		b.Fatal(err)
	}
	d, err := Open(b.Context(), path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	g, err := d.Graph(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for range g.Select(b.Context(), CensusOptions{Class: "Object", Live: true}) {
		n++
	}
	return n
}

// snapshotOf has node write a snapshot, and counts the plain objects in it. It returns how
// long that held the program up, in ms.
func snapshotOf(b *testing.B, target *nodetest.Target, dir string) (n int, held float64) {
	b.Helper()
	target.Signal(syscall.SIGWINCH)
	var names []string
	for len(names) == 0 && b.Context().Err() == nil {
		time.Sleep(time.Millisecond)
		names, _ = filepath.Glob(filepath.Join(dir, "*.heapsnapshot"))
	}
	held = longestGap(b, target) // once the snapshot is written
	data, err := os.ReadFile(names[0])
	if err != nil {
		b.Fatal(err)
	}
	var s struct {
		Snapshot struct {
			Meta struct {
				Fields []string          `json:"node_fields"`
				Types  []json.RawMessage `json:"node_types"`
			}
		}
		Nodes   []int
		Strings []string
	}
	if err := json.Unmarshal(data, &s); err != nil {
		b.Fatal(err)
	}
	var types []string
	if err := json.Unmarshal(s.Snapshot.Meta.Types[0], &types); err != nil {
		b.Fatal(err)
	}
	object, name := slices.Index(types, "object"), slices.Index(s.Strings, "Object")
	for node := range slices.Chunk(s.Nodes, len(s.Snapshot.Meta.Fields)) {
		if node[0] == object && node[1] == name {
			n++
		}
	}
	return n, held
}
