package trace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
)

// endedTable returns a table with a process that has ended, whose root is a directory.
func endedTable(t *testing.T, folder string) *Table {
	t.Helper()
	root, err := os.OpenFile(folder, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	table := NewTable(Maps{})
	t.Cleanup(func() {
		if err := errors.Join(table.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	table.owners[1] = &target{process: p, root: root, binary: &binary{elf: new(elfsym.File)}, closed: true}
	return table
}

// TestEndedProcessesScriptsHaveTheirMaps names a function of a process that ended before
// its script could be read: the script's file says where the map is.
func TestEndedProcessesScriptsHaveTheirMaps(t *testing.T) {
	const script = "function a(){}\n//# sourceMappingURL=x.js.map\n"
	folder := t.TempDir()
	const text = `{"version":3,"sources":["x.ts"],"names":["total"],"mappings":"SAQSA"}` // "a" is total in line 9
	err := errors.Join(os.WriteFile(filepath.Join(folder, "x.js"), []byte(script), 0o600), os.WriteFile(filepath.Join(folder, "x.js.map"), []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	table := endedTable(t, folder)
	n := bpf.TraceName{Owner: 1 << 32, Id: 7, Script: 3, Start: int32(strings.Index(script, "(")), Units: uint32(len(script))}
	table.Script(record(n, "/x.js"))
	table.Function(record(n, "a"))
	table.Text(record(n, script[n.Start:]))
	got := table.jsFrame(table.owners[1], 7)
	want := symbolize.Frame{
		Kind: symbolize.JS, Name: "total", File: "/x.ts", Line: 9, Column: 10,
		GeneratedFile: "/x.js", GeneratedLine: 1, GeneratedColumn: 11,
	}
	if got != want {
		t.Errorf("frame = %+v, want %+v", got, want)
	}
	if err := errors.Join(table.Diagnostics()...); err != nil {
		t.Errorf("diagnostics = %v, want none", err)
	}
}

// TestScriptsWithoutTheirMapsAreCounted has many scripts name a map that is not there: the
// first are reported, once each.
func TestScriptsWithoutTheirMapsAreCounted(t *testing.T) {
	const scripts = 29
	table := endedTable(t, t.TempDir())
	for i := range scripts {
		key := scriptKey{1 << 32, int32(i)}
		table.keepScript(key, script{name: fmt.Sprintf("/lib/%d.js", i), mapURL: "x.map"})
		for range 3 {
			f := symbolize.Frame{Kind: symbolize.JS, Name: "f", File: "/lib.js", Line: 1, Column: 1}
			if got := table.original(table.owners[1], key, f); got != f {
				t.Errorf("frame = %+v, want %+v", got, f)
			}
		}
	}
	table.reportDropped()
	diagnostics := table.Diagnostics()
	if len(diagnostics) != 16+1 || !strings.Contains(diagnostics[0].Error(), "source map of /lib/0.js: open /lib/x.map: no such file") ||
		!strings.HasPrefix(diagnostics[16].Error(), "source maps of 13 more scripts cannot be used") {
		t.Errorf("%d diagnostics: %v", len(diagnostics), diagnostics)
	}
}

// TestMapsInScriptsAreBounded keeps the maps that are in scripts, which may be huge, up to
// a bound, and no longer than they are needed.
func TestMapsInScriptsAreBounded(t *testing.T) {
	table := endedTable(t, t.TempDir())
	url := "data:," + strings.Repeat(" ", maxMapURL-6)
	for i := range maxMapURLs/maxMapURL + 2 {
		key := scriptKey{1 << 32, int32(i)}
		table.keepScript(key, script{name: "/x.js", mapURL: url})
		table.keepScript(key, script{name: "/x.js", mapURL: url}) // announced again
	}
	if o := table.originals; o.urls != maxMapURLs || o.dropped != 2*2 {
		t.Errorf("%d bytes of URLs are kept and %d are dropped, want %d and 4", o.urls, o.dropped, maxMapURLs)
	}
	table.sourceMap(table.owners[1], scriptKey{1 << 32, 0})
	if got, want := table.originals.urls, maxMapURLs-maxMapURL; got != want {
		t.Errorf("%d bytes of URLs are kept once one was used, want %d", got, want)
	}
}
