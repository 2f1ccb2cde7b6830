package core

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
	"ustack/testdata/nodetest"
)

// TestBothScansFindTheSame compares what the kernel finds with each page's entry, for
// memory of every kind.
func TestBothScansFindTheSame(t *testing.T) {
	nodetest.Root(t)
	m := startMapped(t)
	s, err := openScanner(m.pid)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const terabyte = 1 << 40
	found := 0
	for _, mapping := range mappingsOf(t, m.pid) {
		within := span{mapping.Start, mapping.End}
		if within.start >= kernelHalf || within.size() >= terabyte || slices.Contains(special, mapping.Path) {
			continue
		}
		for _, own := range []bool{false, true} {
			want, err := s.read(within, own)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.scan(within, own)
			if err != nil {
				nodetest.Since(t, 6, 7, "PAGEMAP_SCAN: "+err.Error())
			}
			if diff := cmp.Diff(want, got, compareAll); diff != "" {
				t.Errorf("%x-%x %s, own %v (-read +scanned):\n%s", mapping.Start, mapping.End, mapping.Path, own, diff)
			}
			found += len(got)
		}
		want, err := s.readRuns(nil, within)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.scanRuns(nil, within)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("runs of %x-%x %s (-read +scanned):\n%s", mapping.Start, mapping.End, mapping.Path, diff)
		}
	}
	if found < 20 {
		t.Errorf("runs of pages = %d, want 20 or more", found)
	}
}

// mapsZeroPage reports whether the kernel maps the one zero page where memory is only read. Some
// kernels give each a page of its own.
func mapsZeroPage(t *testing.T) bool {
	t.Helper()
	size := int(pageSize())
	memory, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer pagemap.Close()
	entries := make([]byte, 2*entrySize)
	sum := memory[0] + memory[size]
	if _, err := pagemap.ReadAt(entries, int64(uintptr(unsafe.Pointer(&memory[0])))/int64(size)*entrySize); err != nil || sum != 0 {
		t.Fatal(err, sum)
	}
	return bytes.Equal(entries[:entrySize], entries[entrySize:]) // the same page
}

// TestScanGoesOn has more runs of pages than one call returns, and zero pages.
func TestScanGoesOn(t *testing.T) {
	nodetest.Root(t) // the numbers of pages are shown to root only
	zeroPage := mapsZeroPage(t)
	const runs = 3*scanRegions + 7
	size := int(pageSize())
	memory, err := unix.Mmap(-1, 0, 2*runs*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	start := uint64(uintptr(unsafe.Pointer(&memory[0])))
	var want []span
	sum := byte(0)
	for i := range runs {
		at := 2 * i * size
		memory[at] = 1
		if zeroPage {
			sum += memory[at+size]
		}
		want = append(want, span{start + uint64(at), start + uint64(at+size)})
	}
	s, err := openScanner(os.Getpid())
	if err != nil || sum != 0 {
		t.Fatal(err, sum)
	}
	defer s.Close()
	got, err := s.scan(span{start, start + uint64(len(memory))}, true)
	if err != nil {
		nodetest.Since(t, 6, 7, "PAGEMAP_SCAN: "+err.Error())
	}
	if diff := cmp.Diff(want, got, compareAll); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
}

func TestEntriesAreReadAcrossBatches(t *testing.T) {
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
	path := filepath.Join(t.TempDir(), "pagemap")
	if err := os.WriteFile(path, entries, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &scanner{pagemap: file}
	defer s.Close()
	all := []span{paged(5, 7), paged(last-1, last+1), paged(count+4, count+5)}
	own := []span{paged(5, 7), paged(last, last+1), paged(count+4, count+5)}
	for i, want := range [][]span{all, own} {
		got, err := s.pages(paged(5, count+5), i == 1)
		if diff := cmp.Diff(want, got, compareAll); diff != "" || err != nil {
			t.Errorf("pages, own %v: %v (-want +got):\n%s", i == 1, err, diff)
		}
	}
	if got, err := s.pages(paged(count+5, count+6), false); err == nil {
		t.Errorf("pages of a process that is gone = %v, want an error", got)
	}
}

func TestRemoteDevices(t *testing.T) {
	const mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n" +
		"40 22 0:45 / /mnt/a rw,relatime shared:1 - fuse.sshfs me@host: rw\n" +
		"41 22 0:46 / /mnt/b rw - nfs4 server:/ rw\n" + "42 22 0:47 / /proc rw - fusectl fusectl rw\n" + "bad\n"
	want := map[uint64]bool{unix.Mkdev(0, 45): true, unix.Mkdev(0, 46): true}
	if diff := cmp.Diff(want, remoteDevices(mounts)); diff != "" {
		t.Errorf("remote devices (-want +got):\n%s", diff)
	}
}

// TestRemoteFilesAreNotRead maps a file of which one page is in the mapping. Of a
// remote file, that alone is held.
func TestRemoteFilesAreNotRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "remote")
	if err := os.WriteFile(path, bytes.Repeat([]byte("r"), 64*int(pageSize())), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, 64*int(pageSize()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(memory)
	memory[5*int(pageSize())] = 'w'
	own, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	pages, err := openScanner(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer pages.Close()
	for _, m := range mappingsOf(t, os.Getpid()) {
		if m.Path != path {
			continue
		}
		for remote, want := range map[bool]uint64{true: pageSize(), false: 64 * pageSize()} {
			p := planner{source: own, pages: pages, remote: map[uint64]bool{m.Dev: remote}}
			if got, err := p.held(m); total(got) != want || err != nil {
				t.Errorf("remote %v: %d bytes are held, %v, want %d", remote, total(got), err, want)
			}
		}
		return
	}
	t.Errorf("no mapping of %s", path)
}
