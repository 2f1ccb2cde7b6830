package libuv

import (
	"debug/elf"
	enc "encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
)

// openFile opens the image of a file loaded at the addresses it asks for, and its exports.
func openFile(t *testing.T, path string) (*Image, func(string) (uint64, bool)) {
	t.Helper()
	opened, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { opened.Close() })
	var im *Image
	im, err = Open(opened, func(at uint64) (uint64, bool) {
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

// searched returns the names of all functions that are searched for.
func searched() []string {
	all := []string{Worker, WorkSubmit, QueueDone}
	for _, f := range families {
		all = append(all, f.done)
	}
	for operation := range uringOperations {
		all = append(all, "uv__iou_fs_"+operation)
	}
	return all
}

// TestFunctionsAreFoundWhereTheSymbolsAre uses the symbols only for comparison.
func TestFunctionsAreFoundWhereTheSymbolsAre(t *testing.T) {
	for _, goarch := range []string{"amd64", "arm64"} {
		for _, version := range nodetest.VersionsFor(goarch) {
			t.Run(version+"/"+goarch, func(t *testing.T) {
				im, exported := openFile(t, nodetest.NodeFor(t, version, goarch))
				symbols, err := im.file.Symbols()
				if err != nil {
					t.Fatal(err)
				}
				want := make(map[string]uint64)
				for _, s := range symbols {
					if slices.Contains(searched(), s.Name) {
						want[s.Name] = s.Value
					}
				}
				if diff := cmp.Diff(want, findLibuv(im, exported)); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
			})
		}
	}
}
