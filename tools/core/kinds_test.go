package core

import (
	"errors"
	"path/filepath"
	"testing"

	"ustack/symbolize/space"
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
				result, err := Write(t.Context(), m.pid, filepath.Join(t.TempDir(), "core"), Options{direct: way.direct, MaxStop: 60e9, Full: full})
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
					{"unforkable", 0, 'u', 0},
					{"wiped", 0, 'W', 0},
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
						if !errors.Is(err, space.ErrLeftOut) {
							t.Errorf("%s holds %q, %v, want %v", test.name, got, err, space.ErrLeftOut)
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
				if result.Unread != 0 {
					t.Errorf("unread = %d, want none", result.Unread)
				}
				if limit := int64(64 << 20); result.Disk > limit {
					t.Errorf("disk = %d, want less than %d", result.Disk, limit)
				}
			})
		}
	}
}
