package addonlat

import (
	"debug/elf"
	enc "encoding/binary"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// openFile opens the image of a file loaded at the addresses it asks for, and its exports.
func openFile(t *testing.T, path string) (*image, func(string) (uint64, bool)) {
	t.Helper()
	opened, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	var im *image
	im, err = openImage(opened, func(at uint64) (uint64, bool) {
		var bits [8]byte
		ok := im.read(bits[:], at)
		return enc.LittleEndian.Uint64(bits[:]), ok
	})
	if err != nil {
		t.Fatal(err)
	}
	exports := make(map[string]uint64)
	symbols, err := im.file.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF {
			exports[s.Name] = s.Value
		}
	}
	return im, func(symbol string) (uint64, bool) {
		address, ok := exports[symbol]
		return address, ok
	}
}

// names returns the names of all functions that are searched for without symbols.
func names() []string {
	all := []string{worker}
	for _, p := range libuv {
		if p.symbol != queueWork && p.symbol != checkInit {
			all = append(all, p.symbol)
		}
	}
	return all
}

// TestFunctionsAreFoundWhereTheSymbolsAre uses the symbols only for comparison.
func TestFunctionsAreFoundWhereTheSymbolsAre(t *testing.T) {
	for _, version := range nodetest.Versions {
		t.Run(version, func(t *testing.T) {
			im, exported := openFile(t, nodetest.Node(t, version))
			symbols, err := im.file.Symbols()
			if err != nil {
				t.Fatal(err)
			}
			want := make(map[string]uint64)
			for _, s := range symbols {
				if slices.Contains(names(), s.Name) {
					want[s.Name] = s.Value
				}
			}
			if diff := cmp.Diff(want, findLibuv(im, exported)); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

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
	eachVersion(t, func(t *testing.T, _, node string) {
		paths := addons(t, node, nodetest.FramePointers)
		node = stripped(t, node)
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
	im, _ := openFile(t, path)
	offset, ok := im.offset(im.base)
	if !ok {
		t.Fatal("the list of functions is not in the file")
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, len(header)), int64(offset)); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	jobs := nodetest.StartJobs(t, path, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 23}},
	})
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}})
	jobs.Begin()
	jobs.Done()
	r := m.end()
	if !slices.ContainsFunc(m.warned, func(err error) bool {
		return strings.Contains(err.Error(), "libuv is stripped") && strings.Contains(err.Error(), worker)
	}) {
		t.Errorf("warnings = %v, want one that says what is missing", m.warned)
	}
	if p := pool(t, r); p.Submitted != 23 || !p.Unseen {
		t.Errorf("submitted, unseen = %d, %v, want 23 and that completions are not seen", p.Submitted, p.Unseen)
	}
}
