package trace

import (
	"fmt"
	"slices"
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
	kept    map[uint64]*keptStack
	missing uint64
}

// A keptStack is a stack, with its frames as they were found last.
type keptStack struct {
	stack  Stack
	frames []symbolize.Frame
	placed bool // all functions of scripts have lines
}

// Take keeps a stack; it is a Tool's Stack.
func (s *Stacks) Take(hash uint64, stack Stack) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.kept == nil || len(s.kept) >= maxStacks {
		s.kept = make(map[uint64]*keptStack)
		if err := loader.RemoveKeys(s.Sent, func(uint64) bool { return true }); err != nil { // it sends them again
			s.Table.Warn(fmt.Errorf("forget stacks: %w", err))
		}
		_ = s.Sent.Put(hash, uint8(1)) // this one is kept
	}
	s.kept[hash] = &keptStack{stack: stack}
}

// Frames returns the frames of the stack with that hash, without the kernel's own. It counts the
// stacks that are missing. A script's lines may be known only some time after its first stack.
func (s *Stacks) Frames(hash uint64) []symbolize.Frame {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	k := s.kept[hash]
	if k == nil {
		s.missing++
		return nil
	}
	if !k.placed {
		k.find(s.Table)
	}
	return k.frames
}

// find finds the frames.
func (k *keptStack) find(t *Table) {
	k.frames, _ = t.Frames(k.stack)
	for len(k.frames) > 0 && k.frames[0].Kind == symbolize.Kernel {
		k.frames = k.frames[1:]
	}
	k.placed = !slices.ContainsFunc(k.frames, func(f symbolize.Frame) bool {
		return f.Kind == symbolize.JS && f.File != "" && f.Line == 0
	})
}

// Missing returns how many stacks were missing.
func (s *Stacks) Missing() uint64 {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.missing
}
