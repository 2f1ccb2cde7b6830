package addonlat

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/libuv"
	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// stripped returns the path of a copy of file without symbols.
func stripped(t *testing.T, file string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(file))
	if out, err := exec.CommandContext(t.Context(), "strip", "-o", path, file).CombinedOutput(); err != nil {
		nodetest.MustRun(t, fmt.Sprintf("strip: %v: %s", err, out))
	}
	return path
}

// TestStrippedNodeShowsAll except the names of its classes.
func TestStrippedNodeShowsAll(t *testing.T) {
	keys := maps.Clone(ownKeys)
	keys["zlib.deflate"] = "node`node::ThreadPoolWork::ScheduleWork"
	eachVersion(t, func(t *testing.T, version, node string) {
		paths := addons(t, node, nodetest.FramePointers)
		node = nodetest.StrippedNode(t, version)
		checkExact(t, node, paths)
		checkNodesOwn(t, node, paths, keys)
	})
}

// TestDebiansNodeShowsAll: there, node and libuv are two libraries, both stripped.
func TestDebiansNodeShowsAll(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.DebianNode(t)
	paths := addons(t, nodetest.Node(t, nodetest.DebianAddons), nodetest.FramePointers)
	checkExact(t, node, paths)
	keys := maps.Clone(ownKeys)
	keys["zlib.deflate"] = "libnode.so.108`node::ThreadPoolWork::ScheduleWork" // its class has no name there
	checkNodesOwn(t, node, paths, keys)
}

// TestWhatCannotBeFoundIsSaid has a node without symbols and without the table of
// its functions.
func TestWhatCannotBeFoundIsSaid(t *testing.T) {
	node := prepare(t)
	path := stripped(t, node)
	breakFunctionTable(t, path)
	jobs := nodetest.StartJobs(t, path, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 23}},
	})
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}})
	jobs.Begin()
	jobs.Done()
	r := m.end()
	if !slices.ContainsFunc(m.warned, func(err error) bool {
		return strings.Contains(err.Error(), "libuv is stripped") && strings.Contains(err.Error(), libuv.Worker)
	}) {
		t.Errorf("warnings = %v, want one that says what is missing", m.warned)
	}
	if p := pool(t, r); p.Submitted != 23 || !p.Unseen {
		t.Errorf("submitted, unseen = %d, %v, want 23 and that completions are not seen", p.Submitted, p.Unseen)
	}
}

// breakFunctionTable overwrites the header of a file's table of functions.
func breakFunctionTable(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parsed, err := elf.NewFile(file)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(parsed.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_GNU_EH_FRAME })
	if at < 0 {
		t.Fatal("the table of functions is not in the file")
	}
	if _, err := file.WriteAt(make([]byte, 4), int64(parsed.Progs[at].Off)); err != nil {
		t.Fatal(err)
	}
}
