package dump

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// mapped returns memory of this process: two pages, behind which nothing can be read.
func mapped(t *testing.T) (pages []byte, address uint64) {
	t.Helper()
	all, err := unix.Mmap(-1, 0, 3*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(all) })
	if err := unix.Mprotect(all[2*pageSize:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	return all[:2*pageSize], uint64(uintptr(unsafe.Pointer(&all[0])))
}

// TestMemoryIsKept changes memory after it was read: only what is read while the process is
// held stays as it was.
func TestMemoryIsKept(t *testing.T) {
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m := newMemory(p)
	pages, address := mapped(t)
	read := func(at, size int) []byte {
		t.Helper()
		got := make([]byte, size)
		n, err := m.ReadAt(got, address+uint64(at))
		if err != nil {
			t.Fatalf("read %d bytes at %d: %v", size, at, err)
		}
		return got[:n]
	}
	copy(pages[pageSize-2:], "edge")
	if got := read(pageSize-2, 4); string(got) != "edge" {
		t.Errorf("before = %q, want edge", got)
	}
	copy(pages[pageSize-2:], "held")
	m.hold()
	if got := read(pageSize-2, 4); string(got) != "held" {
		t.Errorf("across two pages = %q, want held", got)
	}
	copy(pages[pageSize-2:], "later")
	for range 2 {
		if got := read(0, len(pages)); !bytes.Equal(got[pageSize-2:pageSize+2], []byte("held")) {
			t.Errorf("kept = %q, want held", got[pageSize-2:pageSize+2])
		}
		m.release()
	}
	m.hold()
	if n, err := m.ReadAt(make([]byte, 8), address+uint64(len(pages))-4); n != 4 || err == nil {
		t.Errorf("at the end: %d bytes, %v, want 4 and an error", n, err)
	}
	m.release()
	if _, err := m.ReadAt(make([]byte, 1), address); !errors.Is(err, errNotRead) {
		t.Errorf("what was not read while held: %v, want %v", err, errNotRead)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	p, err := process.Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	m := newMemory(p)
	m.hold()
	if _, err := m.ReadAt(make([]byte, (maxPages+1)*pageSize), 0); !errors.Is(err, errTooMuch) {
		t.Errorf("error = %v, want %v", err, errTooMuch)
	}
}
