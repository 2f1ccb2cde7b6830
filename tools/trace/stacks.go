package trace

import (
	"fmt"
	"sync"

	"github.com/cilium/ebpf"

	"ustack/loader"
	"ustack/symbolize"
)

// maxStacks bounds the stacks that are kept.
const maxStacks = 1 << 15

// Stacks are the stacks that the kernel sends once, and that events refer to by hash
// (bpf/once.h). Its methods may be called concurrently.
type Stacks struct {
	Table *Table
	Sent  *ebpf.Map // hashes of those that the kernel has sent

	mutex   sync.Mutex
	frames  map[uint64][]symbolize.Frame
	missing uint64
}

// Take keeps a stack; it is a Tool's Stack. The kernel's own frames are left out.
func (s *Stacks) Take(hash uint64, stack Stack) {
	frames, _ := s.Table.Frames(stack)
	for len(frames) > 0 && frames[0].Kind == symbolize.Kernel {
		frames = frames[1:]
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.frames == nil || len(s.frames) >= maxStacks {
		s.frames = make(map[uint64][]symbolize.Frame)
		if err := loader.RemoveKeys(s.Sent, func(uint64) bool { return true }); err != nil { // it sends them again
			s.Table.Warn(fmt.Errorf("forget stacks: %w", err))
		}
		_ = s.Sent.Put(hash, uint8(1)) // this one is kept
	}
	s.frames[hash] = frames
}

// Frames returns the frames of the stack with that hash. It counts those that are missing.
func (s *Stacks) Frames(hash uint64) []symbolize.Frame {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	frames, ok := s.frames[hash]
	if !ok {
		s.missing++
	}
	return frames
}

// Missing returns how many stacks were missing.
func (s *Stacks) Missing() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.missing
}
