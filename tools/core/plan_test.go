package core

import (
	"bytes"
	"encoding/binary"
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
		{0x400000, detail{span{0x400000, 0x401000}, 4096, []string{"rd", "ex", "mr", "mw", "me"}}},
		{0x401000, detail{}},
		{0x7f00000fffff, detail{span{0x7f0000000000, 0x7f0000100000}, 0, []string{"mr", "mw", "me", "nr", "dd"}}},
		{0x7f0000100000, detail{span{0x7f0000100000, 0x7f0000300000}, 2 << 20, []string{"rd", "wr", "ht"}}},
		{math.MaxUint64, detail{}},
	} {
		if diff := cmp.Diff(test.want, known.at(test.address), compareAll); diff != "" {
			t.Errorf("at %#x (-want +got):\n%s", test.address, diff)
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

func TestPagesAreFoundAcrossBatches(t *testing.T) {
	const count = pagemapBatch/entrySize + 10
	entries := make([]byte, (count+5)*entrySize)
	set := func(page int, entry uint64) { binary.NativeEndian.PutUint64(entries[page*entrySize:], entry) }
	last := uint64(pagemapBatch/entrySize + 5) // the second batch's first, since the mapping begins at 5
	set(4, pagePresent)                        // before the mapping
	set(5, pagePresent)
	set(6, pageSwapped)
	set(8, pageOfFile)
	set(int(last)-1, pagePresent|pageOfFile)
	set(int(last), pagePresent)
	set(count+4, pagePresent)
	got, err := pages(bytes.NewReader(entries), mapping(5, count+5), resident)
	want := []span{paged(5, 7), paged(last-1, last+1), paged(count+4, count+5)}
	if diff := cmp.Diff(want, got, compareAll); diff != "" || err != nil {
		t.Errorf("pages: %v (-want +got):\n%s", err, diff)
	}
	if got, err := pages(bytes.NewReader(nil), mapping(5, 6), resident); err == nil {
		t.Errorf("pages of a process that is gone = %v, want an error", got)
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

func TestMissingMappings(t *testing.T) {
	all := []process.Mapping{mapping(1, 5), mapping(5, 10), mapping(20, 30), mapping(40, 41)}
	some := []process.Mapping{mapping(1, 2), mapping(3, 7), mapping(15, 21), mapping(22, 25), mapping(40, 50)}
	var got []span
	for _, m := range missing(all, some) {
		got = append(got, span{m.Start, m.End})
	}
	want := []span{paged(2, 3), paged(7, 10), paged(21, 22), paged(25, 30)}
	if diff := cmp.Diff(want, got, compareAll); diff != "" {
		t.Errorf("missing (-want +got):\n%s", diff)
	}
	if got := missing(all, all); len(got) > 0 {
		t.Errorf("missing of the same = %v", got)
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
	spans = skip(spans, 4*pageSize())
	if diff := cmp.Diff([]span{paged(7, 8)}, spans, compareAll); diff != "" {
		t.Errorf("skip (-want +got):\n%s", diff)
	}
	if got := skip(spans, pageSize()); len(got) != 0 {
		t.Errorf("skip of all = %v", got)
	}
}
