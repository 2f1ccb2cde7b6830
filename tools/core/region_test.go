package core

import (
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRegionsAreTheProcesss compares what a core says of memory with what was
// mapped: nothing is lost where pages are left out.
func TestRegionsAreTheProcesss(t *testing.T) {
	mapped := sample()
	f, err := parse(made(t, mapped))
	if err != nil {
		t.Fatal(err)
	}
	regions := f.Regions()
	for _, m := range mapped {
		at := m.Start
		for _, r := range regions {
			if r.Start < m.Start || r.Start >= m.End {
				continue
			}
			if r.Start != at || r.End > m.End || r.Held > r.End-r.Start {
				t.Errorf("region %+v, want it to begin at %#x within %#x-%#x", r, at, m.Start, m.End)
			}
			if write := r.Perms&elf.PF_W != 0; write != m.Perms.Write() {
				t.Errorf("region %+v: writable %v, want %v", r, write, m.Perms.Write())
			}
			at = r.End
		}
		if at != m.End {
			t.Errorf("regions of %#x-%#x end at %#x", m.Start, m.End, at)
		}
	}
}

// TestNextDataSkipsHoles looks for memory in a core whose file has a hole where
// page 15 was.
func TestNextDataSkipsHoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "core")
	data := made(t, sample())
	whole, err := parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(whole.segments, func(s segment) bool { return s.start <= 15*pageSize() && 15*pageSize() < s.start+s.size })
	offset := whole.segments[at].offset + 15*pageSize() - whole.segments[at].start
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, int64(offset), int64(pageSize())); err != nil {
		t.Fatal(err)
	}
	sparse, err := Open(t.Context(), path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer sparse.Close()
	for _, test := range []struct {
		f          *File
		page, want uint64 // 0: none
	}{
		{whole, 11, 11},
		{whole, 14, 14},
		{whole, 15, 15},
		{whole, 16, 100},
		{whole, 112, 112},
		{whole, 120, 0},
		{whole, 1 << 40, 0},
		{sparse, 11, 11},
		{sparse, 14, 14},
		{sparse, 15, 100},
		{sparse, 101, 105},
		{sparse, 120, 0},
	} {
		next, ok := test.f.NextData(test.page * pageSize())
		if next != test.want*pageSize() || ok != (test.want > 0) {
			t.Errorf("data from page %d on: %#x, %v, want page %d", test.page, next, ok, test.want)
		}
		test.f.Prefetch(test.page * pageSize()) // also where there is nothing
	}
}
