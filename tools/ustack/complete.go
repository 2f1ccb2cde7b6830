package ustack

import (
	"errors"
	"slices"

	"ustack/bpf"
	"ustack/symbolize/unwind"
)

var errBeyond = errors.New("read stack: it was not copied that far")

// Complete adds to a stack the caller of its innermost function in user space, should
// that keep no frame, as glibc's that make system calls: the walk in the kernel goes by
// frame pointers and has passed it over. top are the words on the thread's stack from
// sp up; where they or the file's unwind table do not tell, nothing is added.
func (t *Table) Complete(s *Stack, sp uint64, top []uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at := slices.IndexFunc(s.words, func(word uint64) bool { return kindOf(word) != bpf.JsprofFrameKindFRAME_KERNEL })
	if s.owner == nil || sp == 0 || at < 0 || kindOf(s.words[at]) != bpf.JsprofFrameKindFRAME_NATIVE {
		return
	}
	caller := t.callerOf(s.owner, s.words[at]&pcMask, sp, top)
	if caller == 0 || at+1 < len(s.words) && s.words[at+1]&pcMask == caller {
		return
	}
	s.words = slices.Insert(s.words, at+1, uint64(bpf.JsprofFrameKindFRAME_NATIVE)<<kindShift|caller)
	t.settle(s.owner, s.words[at+1:at+2], false)
}

// callerOf returns where the innermost function, which is at pc, returns to in native
// code; 0 if that is not known. The file of V8 keeps frames.
func (t *Table) callerOf(g *target, pc, sp uint64, top []uint64) uint64 {
	m := g.find(pc)
	if m == nil || m.binary == nil || m.binary.elf == nil || m.binary == g.binary {
		return 0
	}
	address, ok := m.binary.elf.Address(pc - m.Start + m.Offset)
	if !ok || m.binary.unwindTable() == nil {
		return 0
	}
	c := unwind.Cursor{PC: pc, Known: 1 << unwind.SP, Leaf: true}
	c.Regs[unwind.SP] = sp
	next, err := m.binary.unwind.Caller(c, address, func(at uint64) (uint64, error) {
		if i := (at - sp) / 8; at%8 == 0 && at >= sp && i < uint64(len(top)) {
			return top[i], nil
		}
		return 0, errBeyond
	})
	if err != nil {
		return 0
	}
	if to := g.find(next.PC); to == nil || !to.File() || g.isBuiltin(to, next.PC) {
		return 0
	}
	return next.PC
}

// isBuiltin reports whether pc, in m, is in a builtin of V8's. Its frame is V8's: the
// walk in the kernel has met it.
func (g *target) isBuiltin(m *mapping, pc uint64) bool {
	if m.binary == nil || m.binary != g.binary {
		return false
	}
	start, end := builtins(*m)
	return pc >= start && pc < end
}

// unwindTable returns the file's, nil if it has none that can be read.
func (b *binary) unwindTable() *unwind.Table {
	if b.unwind == nil && !b.noUnwind {
		table, err := unwind.New(b.file)
		b.unwind, b.noUnwind = table, err != nil
	}
	return b.unwind
}
