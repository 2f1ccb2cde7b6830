// Package unwind finds the caller of a function of machine code from the tables
// that compilers write for exceptions (.eh_frame), on x86-64. Where code keeps no
// frame pointers, there is no other way.
package unwind

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-delve/delve/pkg/dwarf/frame"

	"ustack/symbolize/elfsym"
)

// Limits on unwind tables; those of node have 5 MiB. A maliciously built table
// takes some ten times its size in memory.
const (
	maxFrameTable = 32 << 20
	maxFrameEntry = 64 << 10 // bytes of one function's instructions
)

// A Table knows, for each instruction of one file, the return address of its
// function and the caller's registers.
type Table struct{ entries frame.FrameDescriptionEntries }

// New reads the section .eh_frame of an ELF file.
func New(file io.ReaderAt) (*Table, error) {
	f, err := elfsym.Parse(file)
	if err != nil {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	s, err := findSection(f)
	if err != nil {
		return nil, err
	}
	data := make([]byte, s.size)
	if n, err := s.ReadAt(data, 0); n < len(data) {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	return parse(data, s.address)
}

var errNoTable = errors.New("read unwind tables: there are none")

// A section is an .eh_frame, which is in a file, and loaded at an address.
type section struct {
	io.ReaderAt
	size    int
	address uint64
}

// findSection finds the section .eh_frame of an ELF file.
func findSection(f *elf.File) (section, error) {
	s := f.Section(".eh_frame")
	if s == nil || s.Type == elf.SHT_NOBITS || s.Addr == 0 || s.Size == 0 {
		return section{}, errNoTable
	}
	if s.Size > maxFrameTable || s.Flags&elf.SHF_COMPRESSED != 0 {
		return section{}, fmt.Errorf("read unwind tables: they have %d bytes, or are compressed", s.Size)
	}
	if n, err := s.ReadAt(make([]byte, 1), int64(s.Size)-1); n < 1 {
		return section{}, fmt.Errorf("read the end of unwind tables: %w", err)
	}
	return section{s, int(s.Size), s.Addr}, nil
}

// parse reads a table that is loaded at address.
func parse(data []byte, address uint64) (u *Table, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library panics if a table is damaged
			u, err = nil, fmt.Errorf("read unwind tables: %v", fault)
		}
	}()
	entries, err := frame.Parse(data, binary.LittleEndian, 0, 8, address)
	if err != nil {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e *frame.FrameDescriptionEntry) bool {
		return e.CIE == nil || e.Begin() == 0 || e.End() <= e.Begin() ||
			len(e.Instructions) > maxFrameEntry || len(e.CIE.InitialInstructions) > maxFrameEntry
	})
	slices.SortFunc(entries, func(a, b *frame.FrameDescriptionEntry) int {
		return cmp.Compare(a.Begin(), b.Begin())
	})
	return &Table{entries}, nil
}

var (
	ErrNoEntry = errors.New("no unwind table covers it")
	errNoRule  = errors.New("the unwind table's rule is not understood")
	// ErrOutermost means that the function is a thread's first.
	ErrOutermost = errors.New("the function has no caller")
)

// A Cursor is a position in an unwind: the registers, and which of them are
// known.
type Cursor struct {
	PC    uint64
	Regs  [RegisterCount]uint64
	Known uint32 // one bit for each
	Leaf  bool   // PC is the next instruction, not a return address
}

func (c *Cursor) SP() uint64 { return c.Regs[SP] }
func (c *Cursor) FP() uint64 { return c.Regs[FP] }

// Get returns a register, false if its value is no longer known.
func (c *Cursor) Get(reg uint64) (uint64, bool) {
	if reg >= RegisterCount || c.Known>>reg&1 == 0 {
		return 0, false
	}
	return c.Regs[reg], true
}

// Set sets these registers and makes all others unknown.
func (c *Cursor) Set(pc, sp, fp uint64) {
	*c = Cursor{PC: pc, Known: 1<<SP | 1<<FP}
	c.Regs[SP], c.Regs[FP] = sp, fp
}

// Caller returns the cursor in the caller of the function at c, whose code is at
// address in the file.
func (u *Table) Caller(c Cursor, address uint64, read func(uint64) (uint64, error)) (next Cursor, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("unwind: %v", fault)
		}
	}()
	if !c.Leaf {
		address-- // the call may be the function's last instruction
	}
	entry, err := u.entries.FDEForPC(address)
	if err != nil {
		return c, ErrNoEntry
	}
	if isSignal(entry) {
		return signalCaller(c, read)
	}
	rules, err := entry.EstablishFrame(address)
	if err != nil {
		return c, fmt.Errorf("unwind: %w", err)
	}
	cfa, err := c.frameAddress(rules.CFA, read)
	if err != nil {
		return c, err
	}
	next, err = restored(rules, c, cfa, read)
	if err != nil {
		return c, err
	}
	ret, ok := rules.Regs[rules.RetAddrReg]
	switch {
	case ok && ret.Rule == frame.RuleUndefined:
		return c, ErrOutermost
	case !ok || ret.Rule != frame.RuleOffset:
		return c, errNoRule
	}
	if next.PC, err = read(cfa + uint64(ret.Offset)); err != nil {
		return c, err
	}
	next.Regs[SP] = cfa
	next.Known |= 1 << SP
	return next, nil
}

// frameAddress returns where a function's frame begins: the caller's stack
// pointer.
func (c *Cursor) frameAddress(rule frame.DWRule, read func(uint64) (uint64, error)) (uint64, error) {
	if rule.Rule == frame.RuleExpression {
		return evaluate(rule.Expression, *c, read)
	}
	base, ok := c.Get(rule.Reg)
	if rule.Rule != frame.RuleCFA || !ok {
		return 0, errNoRule
	}
	return base + uint64(rule.Offset), nil
}

// restored returns the registers of the caller of the function at c, whose frame
// begins at cfa.
func restored(rules *frame.FrameContext, c Cursor, cfa uint64, read func(uint64) (uint64, error)) (Cursor, error) {
	next := Cursor{Known: c.Known & calleeSaved, Regs: c.Regs}
	for reg, rule := range rules.Regs {
		if reg >= RegisterCount {
			continue
		}
		address := cfa + uint64(rule.Offset)
		var err error
		switch rule.Rule {
		case frame.RuleSameVal, frame.RuleUndefined: // the library also uses RuleUndefined for "restored"
			continue
		case frame.RuleExpression:
			address, err = evaluate(rule.Expression, c, read)
		case frame.RuleOffset:
		default:
			next.Known &^= 1 << reg
			continue
		}
		if err == nil {
			next.Regs[reg], err = read(address)
		}
		if err != nil {
			return c, err
		}
		next.Known |= 1 << reg
	}
	return next, nil
}

// isSignal reports whether entry describes the code that a signal handler returns
// to.
func isSignal(entry *frame.FrameDescriptionEntry) bool {
	return slices.Contains([]byte(entry.CIE.Augmentation), 'S')
}

// signalCaller returns the cursor in the code that a signal interrupted. The
// stack pointer points to what the kernel has pushed for the signal's handler.
func signalCaller(c Cursor, read func(uint64) (uint64, error)) (Cursor, error) {
	next := Cursor{Known: 1<<RegisterCount - 1, Leaf: true}
	var err error
	at := c.SP() + contextRegisters
	for reg, word := range contextWords {
		if next.Regs[reg], err = read(at + 8*word); err != nil {
			return c, err
		}
	}
	next.PC, err = read(at + 8*contextPC)
	return next, err
}
