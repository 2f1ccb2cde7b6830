package core

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
)

var compareAll = cmp.AllowUnexported(span{}, detail{}, region{}, segment{})

// paged returns the span of pages first to last-1.
func paged(first, last uint64) span { return span{first * pageSize(), last * pageSize()} }

func mapping(first, last uint64) process.Mapping {
	return process.Mapping{Start: first * pageSize(), End: last * pageSize()}
}

const smaps = `00400000-00401000 r-xp 00000000 08:01 17    /opt/a: b
Size:                  4 kB
Rss:                   4 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
7f0000000000-7f0000100000 ---p 00000000 00:00 0
Rss:                   0 kB
Swap:                  0 kB
VmFlags: mr mw me nr dd
7f0000100000-7f0000300000 rw-p 00000000 00:0f 5 /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
Swap:                  0 kB
VmFlags: rd wr ht
`

func TestDetailsOfMappings(t *testing.T) {
	known, err := readDetails(strings.NewReader(smaps))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		address uint64
		want    detail
	}{
		{0x400000, detail{span{0x400000, 0x401000}, 4096, 0, []string{"rd", "ex", "mr", "mw", "me"}}},
		{0x401000, detail{}},
		{0x7f00000fffff, detail{span{0x7f0000000000, 0x7f0000100000}, 0, 0, []string{"mr", "mw", "me", "nr", "dd"}}},
		{0x7f0000100000, detail{span{0x7f0000100000, 0x7f0000300000}, 2 << 20, 0, []string{"rd", "wr", "ht"}}},
		{math.MaxUint64, detail{}},
	} {
		if diff := cmp.Diff(test.want, known.at(test.address), compareAll); diff != "" {
			t.Errorf("at %#x (-want +got):\n%s", test.address, diff)
		}
	}
	for text, want := range map[string]bool{
		"Shared_Clean: 0 kB\nShared_Dirty: 0 kB\nVmFlags: rd wr dc \n": true,
		"Shared_Clean: 0 kB\nShared_Dirty: 4 kB\nVmFlags: rd wr dc \n": false,
		"Shared_Clean: 0 kB\nShared_Dirty: 0 kB\nVmFlags: rd wr \n":    false,
		"VmFlags: rd wr dc mg \n":                                      false,
		"VmFlags: rd wr sh dc \n":                                      false,
	} {
		some, err := readDetails(strings.NewReader("10-20 rw-p 00000000 00:00 0\n" + text))
		if err != nil || some.at(0x10).unshared() != want {
			t.Errorf("%q: unshared = %v, %v, want %v", text, !want, err, want)
		}
	}
	if !known[1].has("io", "dd") || known[0].has("dd") {
		t.Error("dd is a flag of the first or not of the second mapping")
	}
	for _, bad := range []string{"Rss: 4 kB\n", "zz-12 r-xp\n", "20-10 r-xp\n", "10-20 r-xp\nRss: x kB\n", strings.Repeat("x", 1<<17)} {
		if got, err := readDetails(strings.NewReader(bad)); err == nil {
			t.Errorf("readDetails(%.20q) = %v, want an error", bad, got)
		}
	}
}

func TestDataOfASparseFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := bytes.Repeat([]byte{1}, 64<<10)
	for _, at := range []int64{0, 1 << 20, 3 << 20} {
		if _, err := f.WriteAt(block, at); err != nil {
			t.Fatal(err)
		}
	}
	m := process.Mapping{Start: 1 << 30, End: 1<<30 + 4<<20, Offset: 32 << 10}
	got, err := data(f, m)
	want := []span{
		{1 << 30, 1<<30 + 32<<10},
		{1<<30 + 1<<20 - 32<<10, 1<<30 + 1<<20 + 32<<10},
		{1<<30 + 3<<20 - 32<<10, 1<<30 + 3<<20 + 32<<10},
	}
	if diff := cmp.Diff(want, got, compareAll); diff != "" || err != nil {
		t.Errorf("data: %v (-want +got):\n%s", err, diff)
	}
}

func TestSegmentsOfARegion(t *testing.T) {
	const far = 2*maxHole/4096 + 100
	file := func(m process.Mapping) process.Mapping { m.Inode, m.Path = 1, "/lib/x.so"; return m }
	gone := func(m process.Mapping) process.Mapping { m.Deleted = true; return file(m) }
	type cut struct {
		First, Last, Size uint64 // in pages
		Held              int
	}
	for _, test := range []struct {
		name string
		m    process.Mapping
		held []span
		want []cut
	}{
		{"nothing held", mapping(10, 20), nil, []cut{{10, 20, 0, 0}}},
		{"all held", mapping(10, 20), []span{paged(10, 20)}, []cut{{10, 20, 10, 1}}},
		{"small holes", mapping(10, 20), []span{paged(12, 13), paged(15, 16)}, []cut{{10, 20, 6, 2}}},
		{"large holes", mapping(1, 3*far), []span{paged(far, far+1), paged(2*far, 2*far+2)}, []cut{
			{1, far, 0, 0}, {far, 2 * far, 1, 1}, {2 * far, 3 * far, 2, 1},
		}},
		{"code with a breakpoint", file(mapping(10, 20)), []span{paged(10, 11), paged(15, 16)}, []cut{
			{10, 15, 1, 1}, {15, 20, 1, 1},
		}},
		{"shared, without a name", gone(mapping(1, 3*far)), []span{paged(far, far+1)}, []cut{{1, 3 * far, 3*far - 1, 1}}},
		{"without a name, untouched", gone(mapping(10, 20)), nil, []cut{{10, 20, 0, 0}}},
	} {
		var got []cut
		for _, s := range (region{test.m, test.held}).segments() {
			got = append(got, cut{s.start / pageSize(), s.end / pageSize(), s.size / pageSize(), len(s.held)})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestSpans(t *testing.T) {
	spans := add(add(add(nil, paged(1, 2)), paged(2, 4)), paged(6, 8))
	if diff := cmp.Diff([]span{paged(1, 4), paged(6, 8)}, spans, compareAll); diff != "" {
		t.Errorf("add (-want +got):\n%s", diff)
	}
	if got, want := total(spans), 5*pageSize(); got != want {
		t.Errorf("total = %d, want %d", got, want)
	}
}
