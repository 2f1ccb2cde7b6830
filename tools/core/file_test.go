package core

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/process"
	"ustack/symbolize/space"
)

// made is a core of our making. Page n of what it holds is full of byte n.
func made(t testing.TB, regions []region) []byte {
	t.Helper()
	d := dump{
		info: Info{
			PID: 10, Parent: 9, UID: 1000, GID: 100, Comm: "node", Args: "node a.js",
			group: 8, session: 7, nice: -5, state: 'S', flags: 0x400,
		},
		threads: []Thread{
			{
				TID: 12, General: bytes.Repeat([]byte{1}, 216), Float: bytes.Repeat([]byte{2}, 512),
				XState: bytes.Repeat([]byte{3}, 831), Siginfo: bytes.Repeat([]byte{5}, 128), Signal: 6, Pending: 4, Held: 8,
			},
			{TID: 10, General: bytes.Repeat([]byte{6}, 216)},
		},
		auxv:    binary.LittleEndian.AppendUint64([]byte("\x09\x00\x00\x00\x00\x00\x00\x00"), 0x401000),
		options: Options{Note: []byte(`{"why":1}`)},
		regions: regions,
	}
	for _, r := range regions {
		d.mappings = append(d.mappings, r.Mapping)
	}
	l := layOut(regions, d.notes())
	core := make([]byte, l.size)
	copy(core, l.header)
	for _, s := range l.segments {
		for _, h := range s.held {
			for at := h.start; at < h.end; at += pageSize() {
				page := core[s.offset+at-s.start:][:pageSize()]
				copy(page, bytes.Repeat([]byte{byte(at / pageSize())}, len(page)))
			}
		}
	}
	return core
}

// sample has a region of each kind.
func sample() []region {
	lib := process.Mapping{Start: 100 * pageSize(), End: 110 * pageSize(), Offset: 3 * pageSize(), Inode: 1, Path: "/lib/x.so"}
	gone := process.Mapping{Start: 110 * pageSize(), End: 120 * pageSize(), Inode: 2, Path: "/memfd:x", Deleted: true}
	return []region{
		{mapping(10, 20), []span{paged(11, 12), paged(14, 16)}},
		{lib, []span{paged(100, 101), paged(105, 106)}},
		{gone, []span{paged(112, 113)}},
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	f, err := parse(made(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := f.Machine(), machines[runtime.GOARCH]; got != want {
		t.Errorf("machine = %v, want %v", got, want)
	}
	info := Info{
		PID: 10, Parent: 9, UID: 1000, GID: 100, Comm: "node", Args: "node a.js",
		group: 8, session: 7, nice: -5, state: 'S', flags: 0x400,
	}
	if diff := cmp.Diff(info, f.Info(), cmp.AllowUnexported(Info{})); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	threads := f.Threads()
	if len(threads) != 2 || threads[0].TID != 12 || threads[1].TID != 10 {
		t.Fatalf("threads = %+v, want 12 and 10", threads)
	}
	first := threads[0]
	sizes := []int{len(first.General), len(first.Float), len(first.XState), len(first.Siginfo), int(first.Signal), int(first.Pending), int(first.Held)}
	if diff := cmp.Diff([]int{216, 512, 831, 128, 6, 4, 8}, sizes); diff != "" {
		t.Errorf("sizes of registers (-want +got):\n%s", diff)
	}
	for value, registers := range [][]byte{1: first.General, 2: first.Float, 3: first.XState, 5: first.Siginfo, 6: threads[1].General} {
		if got := bytes.Trim(registers, string(rune(value))); len(got) > 0 {
			t.Errorf("registers full of %d hold %v", value, got)
		}
	}
	if diff := cmp.Diff([]space.Aux{{Type: 9, Value: 0x401000}}, f.Auxv()); diff != "" {
		t.Errorf("auxv (-want +got):\n%s", diff)
	}
	if got, want := string(f.Note()), `{"why":1}`; got != want {
		t.Errorf("note = %q, want %q", got, want)
	}
	mappings := []space.Mapping{
		{Start: 100 * pageSize(), End: 110 * pageSize(), Offset: 3 * pageSize(), Path: "/lib/x.so"},
		{Start: 110 * pageSize(), End: 120 * pageSize(), Path: "/memfd:x (deleted)"},
	}
	if diff := cmp.Diff(mappings, f.Mappings()); diff != "" {
		t.Errorf("mappings (-want +got):\n%s", diff)
	}
}

func TestReadAt(t *testing.T) {
	core := made(t, sample())
	f, err := parse(core)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		page uint64
		size int // in pages
		want []byte
		err  error
	}{
		{10, 1, []byte{0}, nil},
		{11, 1, []byte{11}, nil},
		{13, 3, []byte{0, 14, 15}, nil},
		{15, 5, []byte{15, 0, 0, 0, 0}, nil},
		{18, 4, []byte{0, 0}, space.ErrUnmapped},
		{9, 1, nil, space.ErrUnmapped},
		{100, 2, []byte{100}, space.ErrLeftOut},
		{105, 1, []byte{105}, nil},
		{110, 4, []byte{0, 0, 112, 0}, nil},
		{1 << 51, 1, nil, space.ErrUnmapped},
	} {
		b := make([]byte, test.size*int(pageSize()))
		n, err := f.ReadAt(b, test.page*pageSize())
		var got []byte
		for i := 0; i < n; i += int(pageSize()) {
			got = append(got, b[i])
		}
		if diff := cmp.Diff(test.want, got); diff != "" || !errors.Is(err, test.err) {
			t.Errorf("read %d pages at %d: %v, want %v (-want +got):\n%s", test.size, test.page, err, test.err, diff)
		}
	}
	cut, err := parse(core[:len(core)-8*int(pageSize())])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cut.ReadAt(make([]byte, 1), 112*pageSize()); !errors.Is(err, ErrCutShort) {
		t.Errorf("read behind the end: %v, want %v", err, ErrCutShort)
	}
	if got := cut.Cut(); got < pageSize() || got > 8*pageSize() {
		t.Errorf("bytes cut off = %d, want 1 to 8 pages", got)
	}
	if got := f.Cut(); got != 0 {
		t.Errorf("bytes cut off of a whole core = %d, want 0", got)
	}
}

func TestMoreSegmentsThanTheHeaderCounts(t *testing.T) {
	var regions []region
	for i := uint64(0); i < 70_000; i++ {
		regions = append(regions, region{mapping(2*i+1, 2*i+2), nil})
	}
	regions[69_999].held = []span{paged(139_999, 140_000)}
	f, err := parse(made(t, regions))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(f.segments), 70_000; got != want {
		t.Errorf("segments = %d, want %d", got, want)
	}
	b := []byte{0}
	if _, err := f.ReadAt(b, 139_999*pageSize()); err != nil || b[0] != 139_999%256 {
		t.Errorf("the last page holds %d, %v, want %d", b[0], err, 139_999%256)
	}
}

func TestOpenRefuses(t *testing.T) {
	core := made(t, sample())
	change := func(at int, to ...byte) []byte {
		b := bytes.Clone(core)
		copy(b[at:], to)
		return b
	}
	const class, kind, programSize, programs = 4, 16, 54, 56
	for name, content := range map[string][]byte{
		"empty":            nil,
		"short":            core[:40],
		"no ELF file":      change(0, 'x'),
		"32 bits":          change(class, byte(elf.ELFCLASS32)),
		"a program":        change(kind, byte(elf.ET_EXEC)),
		"headers cut off":  core[:100],
		"odd headers":      change(programSize, 55),
		"count is nowhere": change(programs, 0xff, 0xff),
		"bad zstd":         append([]byte("\x28\xb5\x2f\xfd"), core...),
	} {
		path := filepath.Join(t.TempDir(), "core")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if f, err := Open(t.Context(), path, OpenOptions{}); err == nil {
			t.Errorf("%s: opened, want an error", name)
			f.Close()
		}
	}
	if _, err := Open(t.Context(), t.TempDir(), OpenOptions{}); err == nil {
		t.Error("a folder was opened")
	}
}

func TestFileThatShrinks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "core")
	if err := os.WriteFile(path, made(t, sample()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), path, OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, 8), 11*pageSize()); n != 0 || err == nil {
		t.Errorf("ReadAt = %d, %v, want an error", n, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(made(f, sample()))
	f.Add(made(f, nil))
	f.Fuzz(func(t *testing.T, core []byte) {
		file, err := parse(core)
		if err != nil {
			return
		}
		b := make([]byte, 64)
		for _, s := range file.segments {
			for _, at := range []uint64{s.start - 1, s.start, s.start + s.size, s.end - 1} {
				n, err := file.ReadAt(b, at)
				if n < 0 || n > len(b) || n < len(b) && err == nil {
					t.Errorf("ReadAt(%#x) = %d, %v", at, n, err)
				}
			}
		}
	})
}

func BenchmarkReadAt(b *testing.B) {
	f, err := parse(made(b, sample()))
	if err != nil {
		b.Fatal(err)
	}
	word := make([]byte, 8)
	for b.Loop() {
		if _, err := f.ReadAt(word, 11*pageSize()); err != nil {
			b.Fatal(err)
		}
	}
}
