package process

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFileInMemoryIsOpenedByItsDescriptor maps one of two files in memory of the same name.
func TestFileInMemoryIsOpenedByItsDescriptor(t *testing.T) {
	p, err := Open(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var files []*os.File
	for _, text := range []string{"other", "mapped"} {
		fd, err := unix.MemfdCreate("of the test", unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), text)
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	page, err := unix.Mmap(int(files[1].Fd()), 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	maps, err := p.Maps()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(maps, func(m Mapping) bool { return m.Path == inMemory+"of the test" })
	if at < 0 {
		t.Fatal("the file is not mapped")
	}
	f, err := p.openDescriptor(maps[at])
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(f); err != nil || string(text) != "mapped" {
		t.Errorf("the file has %q, %v, want mapped", text, err)
	}
	if err := errors.Join(f.Close(), files[1].Close()); err != nil {
		t.Fatal(err)
	}
	if f, err := p.openDescriptor(maps[at]); err == nil {
		t.Errorf("without a descriptor, %s was opened", f.Name())
	}
}
