package nodehttp

import (
	"debug/elf"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// A file is a Binary that no process maps.
type file struct{ *elfsym.File }

func (f file) Code(symbol string) (code []byte, offset uint64) {
	s, ok := f.Symbol(symbol)
	if !ok {
		return nil, 0
	}
	offset, _ = f.Offset(s.Address)
	code = make([]byte, min(s.Size, 1<<12))
	n, _ := f.ReadAt(code, s.Address)
	return code[:n], offset
}

func (f file) Address(symbol string) (uint64, bool) {
	s, ok := f.Symbol(symbol)
	return s.Address, ok
}

func open(t testing.TB, path string) file {
	t.Helper()
	r, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	f, err := elfsym.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return file{f}
}

// An asked is a file that records what is asked of it: names of symbols, and prefixes of such.
type asked struct {
	file
	names []string
}

func (a *asked) Symbols(prefixes ...string) iter.Seq[elfsym.Symbol] {
	a.names = append(a.names, prefixes...)
	return a.file.Symbols(prefixes...)
}

func (a *asked) Code(symbol string) (code []byte, offset uint64) {
	a.names = append(a.names, symbol)
	return a.file.Code(symbol)
}

func (a *asked) Address(symbol string) (address uint64, ok bool) {
	a.names = append(a.names, symbol)
	return a.file.Address(symbol)
}

// TestSymbolsAreAllThatAreAskedFor compares the prefixes of what callers have read ahead with what is used.
func TestSymbolsAreAllThatAreAskedFor(t *testing.T) {
	a := asked{file: open(t, nodetest.Node(t, "24.21.0"))}
	_, err := Find(&a)
	FindFileJobs(&a)
	if _, gcErr := FindCollections(&a); errors.Join(err, gcErr) != nil {
		t.Fatal(errors.Join(err, gcErr))
	}
	used := make(map[string]bool)
	for _, name := range a.names {
		at := slices.IndexFunc(Symbols, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if at < 0 {
			t.Errorf("%s begins with none of the prefixes", name)
			continue
		}
		used[Symbols[at]] = true
	}
	for _, prefix := range Symbols {
		if !used[prefix] {
			t.Errorf("the prefix %s is not used", prefix)
		}
	}
}

// TestOffsetsAreThoseOfEachVersion compares what is derived with what was measured: each
// offset was seen to hold what it should.
func TestOffsetsAreThoseOfEachVersion(t *testing.T) {
	want := map[int]Offsets{
		16: {Stream: 0x40, URL: 0x6b0, Started: 0x78, Wrapped: 72, Wrap: 88, Session: 0x40, Idle: 0x10},
		18: {Stream: 0x40, URL: 0x6b0, Started: 0x78, Wrapped: 72, Wrap: 88, Session: 0x40, Idle: 0x10},
		20: {Stream: 0x40, URL: 0x6b0, Started: 0x78, Wrapped: 72, Wrap: 88, Session: 0x40, Idle: 0x90},
		22: {Stream: 0x58, URL: 0x6c8, Started: 0x88, Wrapped: 72, Wrap: 112, Session: 0x58, Idle: 0x90},
		24: {Stream: 0x50, URL: 0x26c8, Started: 0x90, Wrapped: 72, Wrap: 104, Session: 0x50, Idle: 0x90},
		25: {Stream: 0x50, URL: 0x26c8, Started: 0x78, Wrapped: 72, Wrap: 104, Session: 0x50, Idle: 0x90},
		26: {Stream: 0x50, URL: 0x26c8, Started: 0x90, Wrapped: 72, Wrap: 104, Session: 0x50, Idle: 0x90},
	}
	for _, version := range nodetest.VersionsFor("amd64") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			l, err := Find(open(t, nodetest.NodeFor(t, version, "amd64")))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[nodetest.Major(version)], l.Offsets); diff != "" {
				t.Errorf("offsets (-want +got):\n%s", diff)
			}
			if want := nodetest.Major(version) >= 18; l.Pauses != want {
				t.Errorf("pauses = %t, want %t", l.Pauses, want)
			}
			got := []int{len(l.Headers), len(l.Flush), len(l.TryWrite), len(l.TLSWrite), len(l.Read), len(l.Close)}
			if diff := cmp.Diff([]int{1, 1, 2, 1, 1, 1}, got); diff != "" {
				t.Errorf("points (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFileJobsAreThoseOfEachVersion compares what is derived with what was read of jobs.
func TestFileJobsAreThoseOfEachVersion(t *testing.T) {
	for _, version := range nodetest.VersionsFor("amd64") {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := open(t, nodetest.NodeFor(t, version, "amd64"))
			var want FileJobs
			if nodetest.Major(version) >= 26 {
				want = FileJobs{Path: 0xe0 - 72, ReadError: 0x130 - 72, WriteError: 0x13c - 72}
			}
			if got, ok := FindFileJobs(b); got != want || ok != (want != FileJobs{}) {
				t.Errorf("jobs = %+v, %v, want %+v", got, ok, want)
			}
			if want == (FileJobs{}) {
				return
			}
			for _, symbol := range []string{"_Z" + readFile, "_Z" + writeFile} {
				for _, with := range []byte{0, 0x90} {
					fill := func(c []byte) []byte { return fill(len(c), with) }
					if got, ok := FindFileJobs(altered{b, symbol, fill}); ok {
						t.Errorf("with other code of %s: jobs = %+v, want none", symbol, got)
					}
				}
			}
		})
	}
}

// TestOtherBinariesAreRefused has a program without node, and a node for another machine.
func TestOtherBinariesAreRefused(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	wants := map[string]error{self: ErrNoNode, nodetest.NodeFor(t, "20.20.2", "arm64"): errMachine}
	if open(t, self).Machine() != elf.EM_X86_64 {
		wants[self] = errMachine
	}
	for path, want := range wants {
		if _, err := Find(open(t, path)); !errors.Is(err, want) {
			t.Errorf("%s: err = %v, want %v", filepath.Base(path), err, want)
		}
	}
}

// An altered Binary has other code in the place of one function's.
type altered struct {
	Binary
	symbol string
	code   func(code []byte) []byte
}

func (a altered) Code(symbol string) (code []byte, offset uint64) {
	code, offset = a.Binary.Code(symbol)
	if symbol == a.symbol {
		code = a.code(code)
	}
	return code, offset
}

// TestWhatContradictsIsRefused alters the code of a function from which offsets come: there
// is an error, or nothing changes. A wrong offset would make wrong lines.
func TestWhatContradictsIsRefused(t *testing.T) {
	b := open(t, nodetest.NodeFor(t, "22.23.3", "amd64"))
	want, err := Find(b)
	if err != nil {
		t.Fatal(err)
	}
	f := &finder{Binary: b, found: make(map[string][]elfsym.Symbol)}
	f.index()
	begin, _ := f.function(parserBegin)
	try, _, _ := f.thunk(tryWrite)
	for _, symbol := range []string{begin.Name, try.Name, idleTime} {
		for what, alter := range map[string]func([]byte) []byte{
			"empty":     func([]byte) []byte { return nil },
			"cut":       func(c []byte) []byte { return c[:8] },
			"no memory": func(c []byte) []byte { return fill(len(c), 0x90) },
			"zero":      func(c []byte) []byte { return fill(len(c), 0) },
		} {
			l, err := Find(altered{b, symbol, alter})
			if err == nil && cmp.Diff(want, l) != "" {
				t.Errorf("%s of %s: layout = %v, want an error or %v", what, symbol, l, want)
			}
			if err == nil && what != "cut" {
				t.Errorf("%s of %s: no error", what, symbol)
			}
		}
	}
}

func fill(n int, with byte) []byte {
	code := make([]byte, n)
	for i := range code {
		code[i] = with
	}
	return code
}

// TestCollectionsAreFound where each version has them: only Node.js 18 has the callbacks
// inlined.
func TestCollectionsAreFound(t *testing.T) {
	for _, version := range nodetest.VersionsFor("amd64") {
		c, err := FindCollections(open(t, nodetest.NodeFor(t, version, "amd64")))
		if err != nil {
			t.Fatalf("%s: %v", version, err)
		}
		want, major := [4]int{1, 1, 0, 0}, nodetest.Major(version)
		if major == 18 {
			want = [4]int{0, 0, 1, 2}
		}
		if got := [4]int{len(c.Prologue), len(c.Epilogue), len(c.Collect), len(c.Collector)}; got != want {
			t.Errorf("%s: points = %v, want %v", version, got, want)
		}
		if got, want := c.Kinds[2] == "mark-compact", major == 16; got != want {
			t.Errorf("%s: kinds = %v", version, c.Kinds)
		}
	}
}
