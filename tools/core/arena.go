package core

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	arenaSpare = 64 << 20  // bytes that the process may grow by until it is stopped,
	arenaShare = 8         // and this part of its size
	arenaLeave = 128 << 20 // bytes of the machine's memory that a copy leaves free
	touchBatch = 64 << 20  // bytes touched between two looks at whether to give up
)

// An arena is memory to copy a stopped process into. All that is expected to be
// used is there before the process stops.
type arena struct{ memory []byte }

// newArena returns an arena for size bytes, which may turn out to be some more.
func newArena(ctx context.Context, size uint64) (*arena, error) {
	available, err := memAvailable()
	if err != nil {
		return nil, err
	}
	size += arenaSpare + size/arenaShare
	if size+arenaLeave > available {
		return nil, fmt.Errorf("copy memory: %w: %d MiB needed, %d MiB available (take a snapshot instead)",
			unix.ENOMEM, (size+arenaLeave)>>20, available>>20)
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("allocate %d MiB to copy to: %w", size>>20, err)
	}
	a := &arena{memory}
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE) // it is only faster
	if err := a.touch(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// touch makes all pages be there.
func (a *arena) touch(ctx context.Context) error {
	for at := 0; at < len(a.memory); at += os.Getpagesize() {
		if at%touchBatch == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a.memory[at] = 0
	}
	return nil
}

// take returns size bytes.
func (a *arena) take(size uint64) ([]byte, error) {
	if size > uint64(len(a.memory)) {
		return nil, fmt.Errorf("copy memory: %w: it grew to %d MiB meanwhile (try again, or take a snapshot)",
			unix.ENOMEM, size>>20)
	}
	return a.memory[:size], nil
}

func (a *arena) Close() error { return unix.Munmap(a.memory) }

// memAvailable is how many bytes the kernel holds to be free for programs
// without swapping.
func memAvailable() (uint64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, fmt.Errorf("find the free memory: %w", err)
	}
	_, rest, _ := bytes.Cut(text, []byte("MemAvailable:"))
	number, _, _ := strings.Cut(strings.TrimSpace(string(rest)), " ")
	kib, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("find the free memory: %w", err)
	}
	return kib << 10, nil
}
