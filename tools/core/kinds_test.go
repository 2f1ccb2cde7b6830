package core

import (
	"errors"
	"path/filepath"
	"testing"

	"ustack/testdata/nodetest"
)

// TestEveryKindOfMemory takes cores of a process that has it all.
func TestEveryKindOfMemory(t *testing.T) {
	nodetest.Root(t)
	const page = 4096
	const leftOut = 0 // in the place of a byte
	for _, way := range ways {
		for name, full := range map[string]bool{"": false, "-full": true} {
			t.Run(way.name+name, func(t *testing.T) {
				m := startMapped(t)
				result, err := Write(t.Context(), m.pid, filepath.Join(t.TempDir(), "core"), Options{Way: way.Way, Full: full})
				if err != nil {
					t.Fatal(err)
				}
				f := open(t, result.Path)
				for _, test := range []struct {
					name   string
					offset uint64
					want   byte
					file   byte // with Full; as want if 0
				}{
					{"anonymous", page, 'a', 0},
					{"protected", page, 'p', 0},
					{"huge-and-sparse", 1 << 33, 'h', 0},
					{"shared", page, 'm', 0},
					{"memfd", 2 * page, 'x', 0},
					{"written", page, 'w', 0},
					{"written", 2 * page, 'f', 0},
					{"unwritten", page, leftOut, 'f'},
					{"removed", page, 'f', 0},
					{"shared-file", page, leftOut, 'n'},
					{"hugetlb", page, 'H', 0},
				} {
					at, there := m.at[test.name]
					if !there && test.name == "hugetlb" {
						continue // the pool of huge pages is empty
					}
					want := test.want
					if full && test.file != 0 {
						want = test.file
					}
					got := []byte{'?'}
					_, err := f.ReadAt(got, at+test.offset)
					if want == leftOut {
						if !errors.Is(err, ErrLeftOut) {
							t.Errorf("%s holds %q, %v, want %v", test.name, got, err, ErrLeftOut)
						}
						continue
					}
					if err != nil || got[0] != want {
						t.Errorf("%s holds %q, %v, want %q", test.name, got, err, want)
					}
				}
				for _, name := range []string{"secret", "reserved", "anonymous", "huge-and-sparse", "shared"} {
					got := []byte{'?'}
					if _, err := f.ReadAt(got, m.at[name]); err != nil || got[0] != 0 {
						t.Errorf("%s holds %q, %v, want 0", name, got, err)
					}
				}
				checkForks(t, m, f, taken{way.Way, result})
				if limit := int64(64 << 20); result.Disk > limit {
					t.Errorf("disk = %d, want less than %d", result.Disk, limit)
				}
			})
		}
	}
}

// taken is how a core was taken, and what became of it.
type taken struct {
	way    Way
	result *Result
}

// checkForks checks memory that the program wants otherwise in its children.
func checkForks(t *testing.T, m mapped, f *File, taken taken) {
	t.Helper()
	got := []byte{'?'}
	if _, err := f.ReadAt(got, m.at["unforkable"]); err != nil || got[0] != 'u' {
		t.Errorf("unforkable holds %q, %v, want %q", got, err, 'u')
	}
	want, unread := byte('W'), 0
	if taken.way == Snapshot {
		want, unread = 0, 1
	}
	if _, err := f.ReadAt(got, m.at["wiped"]); err != nil || got[0] != want {
		t.Errorf("wiped holds %q, %v, want %q", got, err, want)
	}
	if got := taken.result.Unread; got != unread {
		t.Errorf("unread = %d, want %d", got, unread)
	}
}

// TestSnapshotOutlivesTheProcess kills the process as soon as the snapshot is there.
func TestSnapshotOutlivesTheProcess(t *testing.T) {
	nodetest.Root(t)
	m := startMapped(t)
	result, err := Write(t.Context(), m.pid, filepath.Join(t.TempDir(), "core"), Options{Way: Snapshot, Resumed: m.kill})
	if err != nil {
		t.Fatal(err)
	}
	f := open(t, result.Path)
	for name, want := range map[string]string{"anonymous": "\x00a", "unforkable": "u\x00", "shared": "\x00m", "removed": "ff"} {
		for i := range uint64(len(want)) {
			got := []byte{'?'}
			if _, err := f.ReadAt(got, m.at[name]+i*pageSize()); err != nil || got[0] != want[i] {
				t.Errorf("%s holds %q, %v, want %q", name, got, err, want[i])
			}
		}
	}
	if got, want := result.Unread, 1; got != want { // what is wiped in children
		t.Errorf("unread = %d, want %d", got, want)
	}
}
