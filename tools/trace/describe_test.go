package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ustack/bpf"
	"ustack/symbolize/process"
)

// anonymous is memory without a file, file memory with one.
func anonymous(start, end uint64) process.Mapping { return process.Mapping{Start: start, End: end} }

func file(start, end uint64, path string) process.Mapping {
	return process.Mapping{Start: start, End: end, Inode: 1, Path: path}
}

// TestRangesAreMergedByKind describes code as V8 and the loader map it.
func TestRangesAreMergedByKind(t *testing.T) {
	const (
		native = uint64(bpf.TraceCodeCODE_NATIVE)
		jit    = uint64(bpf.TraceCodeCODE_JIT)
		addon  = native | uint64(bpf.TraceRangeBitRANGE_ADDON)
	)
	for _, tt := range []struct {
		name string
		code []process.Mapping
		rest []process.Mapping // not executable
		want []bpf.TraceRange
	}{
		{name: "nothing"},
		{
			name: "neighbors of one kind",
			code: []process.Mapping{file(0x1000, 0x2000, "/bin/a"), file(0x2000, 0x3000, "/bin/a"), file(0x4000, 0x5000, "/bin/b")},
			want: []bpf.TraceRange{{Start: 0x1000, End: 0x3000 | native}, {Start: 0x4000, End: 0x5000 | native}},
		},
		{
			name: "an add-on beside a library",
			code: []process.Mapping{file(0x1000, 0x2000, "/lib/a.so"), file(0x2000, 0x3000, "/app/b.node")},
			want: []bpf.TraceRange{{Start: 0x1000, End: 0x2000 | native}, {Start: 0x2000, End: 0x3000 | addon}},
		},
		{
			name: "a code space, of which only a part is executable now",
			code: []process.Mapping{anonymous(0x3000, 0x4000), anonymous(0x6000, 0x7000), anonymous(0x9000, 0xa000)},
			rest: []process.Mapping{anonymous(0x2000, 0x3000), anonymous(0x4000, 0x6000)},
			want: []bpf.TraceRange{{Start: 0x2000, End: 0x7000 | jit}, {Start: 0x9000, End: 0xa000 | jit}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &target{}
			var all []process.Mapping
			for _, m := range tt.code {
				g.code = append(g.code, mapping{Mapping: m})
				all = append(all, m)
			}
			all = append(all, tt.rest...)
			sortMappings(all)
			if diff := cmp.Diff(tt.want, g.ranges(all), cmpopts.IgnoreUnexported(bpf.TraceRange{})); diff != "" {
				t.Errorf("ranges (-want +got):\n%s", diff)
			}
		})
	}
}

func sortMappings(all []process.Mapping) {
	for i := range all {
		for j := i; j > 0 && all[j].Start < all[j-1].Start; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
}

// TestPartsHaveNoBitsOfRanges finds a part of a file that begins and ends anywhere.
func TestPartsHaveNoBitsOfRanges(t *testing.T) {
	m := mapping{Mapping: process.Mapping{Start: 0x10000, End: 0x14000, Offset: 0x1000, Inode: 1}}
	for _, tt := range []struct{ offset, size, start, end uint64 }{
		{0x2000, 0x1000, 0x11000, 0x12000},
		{0x1ffc, 0x1008, 0x11000, 0x12000},
		{0x2001, 0x100f, 0x11010, 0x12010},
		{0, 0x2000, 0x10000, 0x11000},
		{0x4000, 0x9000, 0x13000, 0x14000},
		{0x2001, 0xe, 0x11000, 0x11000},
		{0, 0, 0x10000, 0x10000},
		{0x9000, 0x1000, 0x14000, 0x14000},
	} {
		if start, end := m.part(tt.offset, tt.size); start != tt.start || end != tt.end {
			t.Errorf("part of %#x bytes at %#x = %#x, %#x, want %#x, %#x", tt.size, tt.offset, start, end, tt.start, tt.end)
		}
	}
}

func TestReservationHasNoGaps(t *testing.T) {
	all := []process.Mapping{
		anonymous(0x1000, 0x2000), anonymous(0x3000, 0x4000), anonymous(0x4000, 0x5000), anonymous(0x5000, 0x6000),
		file(0x6000, 0x7000, "/bin/a"), anonymous(0x7000, 0x8000),
	}
	for _, tt := range []struct{ of, start, end uint64 }{
		{0x1000, 0x1000, 0x2000},
		{0x3000, 0x3000, 0x6000},
		{0x4000, 0x3000, 0x6000},
		{0x5000, 0x3000, 0x6000},
		{0x7000, 0x7000, 0x8000},
	} {
		if start, end := reservation(all, anonymous(tt.of, tt.of+0x1000)); start != tt.start || end != tt.end {
			t.Errorf("reservation around %#x = %#x-%#x, want %#x-%#x", tt.of, start, end, tt.start, tt.end)
		}
	}
}

func TestFileOffsetsAreClampedToTheirMapping(t *testing.T) {
	m := mapping{Mapping: process.Mapping{Start: 0x10000, End: 0x14000, Offset: 0x2000}}
	for offset, want := range map[uint64]uint64{0: 0x10000, 0x2000: 0x10000, 0x2010: 0x10010, 0x6000: 0x14000, 0x9000: 0x14000} {
		if got := clamp(m, offset); got != want {
			t.Errorf("offset %#x is at %#x, want %#x", offset, got, want)
		}
	}
}

// TestAddressesAreFoundInTheirMapping tries the ends of mappings, and addresses beyond them.
func TestAddressesAreFoundInTheirMapping(t *testing.T) {
	g := &target{code: []mapping{{Mapping: file(0x1000, 0x2000, "/bin/a")}, {Mapping: file(0x3000, 0x4000, "/bin/b")}}}
	for pc, want := range map[uint64]string{0: "", 0xfff: "", 0x1000: "/bin/a", 0x1fff: "/bin/a", 0x2000: "", 0x3000: "/bin/b", 0x3fff: "/bin/b", 0x4000: ""} {
		got := ""
		if m := g.find(pc); m != nil {
			got = m.Path
		}
		if got != want {
			t.Errorf("%#x is in %q, want %q", pc, got, want)
		}
	}
	if m := (&target{}).find(0x1000); m != nil {
		t.Errorf("found %v without mappings", m)
	}
}

// TestFilesAreReadWhileProgramsLoad: nothing of a process's files is left to read once it is added.
func TestFilesAreReadWhileProgramsLoad(t *testing.T) {
	target := busy(t)
	s := openSampled(t, Options{Selection: Selection{PIDs: []int{target.PID, 1 << 30}}}, Tool{}) // the second is no process
	var v8 *binary
	for _, b := range s.Table.binaries {
		if b.v8 != nil {
			v8 = b
		}
	}
	if v8 == nil || v8.rules == nil {
		t.Errorf("%d files are read, that of V8 = %v, want it with its unwind tables", len(s.Table.binaries), v8)
	}
}
