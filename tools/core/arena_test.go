package core

import (
	"context"
	"errors"
	"os"
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
	if _, err := a.take(uint64(len(a.memory)) + 1); !errors.Is(err, errShort) {
		t.Errorf("take of too much = %v, want %v", err, errShort)
	}
}

func TestCopyLargerThanTheMachineIsRefused(t *testing.T) {
	if _, err := newArena(t.Context(), 1<<46); !errors.Is(err, errShort) || !strings.Contains(err.Error(), "MiB available") {
		t.Errorf("newArena = %v, want %v and how much there is", err, errShort)
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

func TestWhoCopiesIsKilledFirst(t *testing.T) {
	score := func() string {
		t.Helper()
		text, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	before := score()
	a, err := newArena(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := score(); got != killFirst {
		t.Errorf("oom_score_adj = %s, want %s", got, killFirst)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := score(); got != before {
		t.Errorf("oom_score_adj afterwards = %s, want %s", got, before)
	}
}
