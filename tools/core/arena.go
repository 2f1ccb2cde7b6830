package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const (
	arenaSpare = 64 << 20 // bytes by which the process may grow before it is stopped,
	arenaShare = 8        // and this fraction of its size
	touchBatch = 16 << 20 // bytes that one CPU touches between checks whether to give up
)

// errShort is why memory for a copy was not allocated.
var errShort = errors.New("not enough memory for a copy of the process")

// killFirst is the highest oom_score_adj.
const killFirst = "1000"

const scoreFile = "/proc/self/oom_score_adj"

// An arena is memory to copy a stopped process into. All of it is allocated
// before the process is stopped. While an arena exists, this process is the
// first that the kernel kills if memory runs out, so that the target is not.
type arena struct {
	memory []byte
	score  []byte // the previous oom_score_adj; empty if it is not known
}

// newArena returns an arena for size bytes and some more. The error is errShort
// if the machine or one of this process's control groups has too little memory
// for it.
func newArena(ctx context.Context, size uint64) (*arena, error) {
	size += arenaSpare + size/arenaShare
	free, err := freeMemory()
	if err != nil {
		return nil, err
	}
	if size > free.bytes {
		return nil, fmt.Errorf("%w: %d MiB needed, %d MiB available %s", errShort, size>>20, free.bytes>>20, free.where)
	}
	memory, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("%w: allocate %d MiB: %w", errShort, size>>20, err)
	}
	a := &arena{memory: memory}
	a.score, _ = os.ReadFile(scoreFile)
	_ = os.WriteFile(scoreFile, []byte(killFirst), 0) // works without it
	_ = unix.Madvise(memory, unix.MADV_HUGEPAGE)      // only makes it faster
	if err := a.touch(ctx); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// touch makes the kernel allocate all pages, using all CPUs.
func (a *arena) touch(ctx context.Context) error {
	var next atomic.Int64
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for ctx.Err() == nil {
				start := int(next.Add(touchBatch)) - touchBatch
				if start >= len(a.memory) {
					return
				}
				for at := start; at < min(start+touchBatch, len(a.memory)); at += os.Getpagesize() {
					a.memory[at] = 0
				}
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// take returns size bytes of the arena.
func (a *arena) take(size uint64) ([]byte, error) {
	if size > uint64(len(a.memory)) {
		return nil, fmt.Errorf("%w: it grew to %d MiB meanwhile (try again)", errShort, size>>20)
	}
	return a.memory[:size], nil
}

func (a *arena) Close() error {
	_ = os.WriteFile(scoreFile, a.score, 0) // the kernel always allows the previous value
	return unix.Munmap(a.memory)
}
