package core

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestMemoryIsThereBeforeItIsUsed(t *testing.T) {
	const size = 8 << 20
	a, err := newArena(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	pages := make([]byte, len(a.memory)/int(pageSize()))
	if err := mincore(a.memory, pages); err != nil {
		t.Fatal(err)
	}
	for i, there := range pages {
		if there&1 == 0 {
			t.Fatalf("page %d is not there", i)
		}
	}
	if b, err := a.take(size + arenaSpare); err != nil || len(b) != size+arenaSpare {
		t.Errorf("take = %d bytes, %v, want all", len(b), err)
	}
	if _, err := a.take(uint64(len(a.memory)) + 1); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("take of too much = %v, want %v", err, unix.ENOMEM)
	}
}

func TestCopyLargerThanTheMachineIsRefused(t *testing.T) {
	available, err := memAvailable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = newArena(t.Context(), available)
	if !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "snapshot") {
		t.Errorf("newArena = %v, want %v and what to do instead", err, unix.ENOMEM)
	}
}

func TestAllocationIsCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newArena(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("newArena = %v, want %v", err, context.Canceled)
	}
}

// mincore tells for each page whether it is in memory.
func mincore(memory, pages []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)),
		uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		return errno
	}
	return nil
}
