package v8

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ustack/symbolize/elfsym"
	"ustack/testdata/nodetest"
)

// A patched file reads as another with one byte changed.
type patched struct {
	io.ReaderAt
	offset int64
	value  byte
}

func (f patched) ReadAt(p []byte, at int64) (int, error) {
	n, err := f.ReaderAt.ReadAt(p, at)
	if i := f.offset - at; i >= 0 && i < int64(n) {
		p[i] = f.value
	}
	return n, err
}

func open(t *testing.T, r io.ReaderAt) *elfsym.File {
	t.Helper()
	f, err := elfsym.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func TestOtherProgramsHaveNoV8(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Inspect(open(t, openFile(t, path)))
	if b != nil || !errors.Is(err, ErrNotV8) {
		t.Errorf("Inspect() = %v, %v, want %v", b, err, ErrNotV8)
	}
}

func TestUnknownVersionIsNotGuessedAt(t *testing.T) {
	file := openFile(t, nodetest.Node(t, "26.10.0"))
	f := open(t, file)
	major, ok := f.Symbol(versionSymbol + "6major_E")
	if !ok {
		t.Fatal("no symbol for V8's major version")
	}
	offset, ok := f.Offset(major.Address)
	if !ok {
		t.Fatal("V8's major version is not in the file")
	}
	b, err := Inspect(open(t, patched{file, int64(offset), 15}))
	var unknown *UnknownVersionError
	if b != nil || !errors.As(err, &unknown) {
		t.Fatalf("Inspect() = %v, %v, want an UnknownVersionError", b, err)
	}
	if want := (Version{15, 6, 202, 34}); unknown.Version != want {
		t.Errorf("unknown version = %v, want %v", unknown.Version, want)
	}
	if want := "V8 15.6.202.34"; !contains(err, want) {
		t.Errorf("error = %q, want %q in it", err, want)
	}
}

// What only .symtab had is missing and said to be; the rest is as before.
func TestStrippedBinarySaysWhatItLacks(t *testing.T) {
	strip, err := exec.LookPath("strip")
	if err != nil {
		nodetest.MustRun(t, "no strip (apt install binutils)")
	}
	for release, want := range map[string][]string{
		"22.23.3": {blobCode, callsC},
		"26.10.0": {blobCode, gcPrologue, callsC, tableAddress},
	} {
		t.Run(release, func(t *testing.T) {
			path := nodetest.Node(t, release)
			bare := filepath.Join(t.TempDir(), "node")
			if out, err := exec.CommandContext(t.Context(), strip, "-o", bare, path).CombinedOutput(); err != nil {
				t.Fatalf("strip: %v\n%s", err, out)
			}
			got, whole := inspect(t, bare), inspect(t, path)
			if len(got.Missing) != len(want) {
				t.Errorf("missing = %q, want %q", got.Missing, want)
			}
			for i, name := range want {
				if !strings.HasPrefix(got.Missing[i], name+" (") {
					t.Errorf("missing[%d] = %q, want %q", i, got.Missing[i], name)
				}
			}
			if _, size := got.Builtins(); size != 0 {
				t.Errorf("size of builtins = %d, want 0", size)
			}
			if got.Layout.GCCount != 0 {
				t.Errorf("GCCount = %#x without VMState, want 0", got.Layout.GCCount)
			}
			if got.NodeVersion != whole.NodeVersion || got.Layout.ScopeInfo != whole.Layout.ScopeInfo {
				t.Errorf("stripped: %s %+v, whole: %s %+v", got.NodeVersion, got.Layout, whole.NodeVersion, whole.Layout)
			}
		})
	}
}

func TestThreadsIsolateIsNotLookedForInAHostileKey(t *testing.T) {
	key := make(space, 4)
	b := &Binary{isolate: slot{key: fuzzBase}}
	for first, want := range map[byte]int64{0: 0x318, 6: 0x378, 31: 0x508, 32: 0} {
		key[0] = first
		got, err := b.TLSIsolate(key, 0)
		if got != want || err != nil {
			t.Errorf("TLSIsolate() with key %d = %#x, %v, want %#x", first, got, err, want)
		}
	}
	if _, err := b.TLSIsolate(key, 8); err == nil {
		t.Error("TLSIsolate() succeeded where the key cannot be read")
	}
}

func TestDispatchBaseIsZeroBeforeV8Starts(t *testing.T) {
	b := &Binary{dispatch: dispatch{group: fuzzBase, offset: 16}}
	if base, err := b.DispatchBase(make(space, 8), 0); base != 0 || err != nil {
		t.Errorf("DispatchBase() = %#x, %v, want 0", base, err)
	}
	if _, err := b.DispatchBase(make(space, 4), 0); err == nil {
		t.Error("DispatchBase() succeeded where the group cannot be read")
	}
}
