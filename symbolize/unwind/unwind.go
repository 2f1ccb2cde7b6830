// Package unwind finds the caller of a function of machine code from the tables
// that compilers write for exceptions (.eh_frame), on x86-64 and arm64. Where code keeps
// no frame pointers, there is no other way.
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
type Table struct {
	arch    *Arch
	entries frame.FrameDescriptionEntries
	entry   uint64 // where the program begins; 0 in a library
}

// startBytes are how many bytes at its beginning a program calls its C library from. In C
// libraries before glibc 2.31 (sysdeps/aarch64/start.S), no table describes them.
const startBytes = 48

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
	u, err := parse(s.arch, data, s.address)
	if err != nil {
		return nil, err
	}
	u.entry = f.Entry
	return u, nil
}

var errNoTable = errors.New("read unwind tables: there are none")

// A section is an .eh_frame, which is in a file, and loaded at an address.
type section struct {
	io.ReaderAt
	size    int
	address uint64
	arch    *Arch
}

// findSection finds the section .eh_frame of an ELF file.
func findSection(f *elf.File) (section, error) {
	arch := ArchOf(f.Machine)
	if arch == nil {
		return section{}, fmt.Errorf("read unwind tables: those of %v are not understood", f.Machine)
	}
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
	return section{s, int(s.Size), s.Addr, arch}, nil
}

// parse reads a table that is loaded at address.
func parse(arch *Arch, data []byte, address uint64) (u *Table, err error) {
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
	if arch.HasLink() {
		for _, e := range entries {
			e.Instructions = withoutSigns(e.Instructions)
		}
	}
	return &Table{arch: arch, entries: entries}, nil
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
	Arch  *Arch
	PC    uint64
	Regs  [RegisterCount]uint64
	Known uint32 // one bit for each
	Leaf  bool   // PC is the next instruction, not a return address
	Signs uint64 // bits of return addresses that may be a signature
}

// SP returns the stack pointer, 0 if it is not known.
func (c *Cursor) SP() uint64 {
	sp, _ := c.Get(c.Arch.SP)
	return sp
}

func (c *Cursor) FP() uint64 { return c.Regs[c.Arch.FP] }

// Get returns a register, false if its value is no longer known.
func (c *Cursor) Get(reg uint64) (uint64, bool) {
	if reg >= c.Arch.Registers || c.Known>>reg&1 == 0 {
		return 0, false
	}
	return c.Regs[reg], true
}

// Set sets these registers and makes all others unknown.
func (c *Cursor) Set(pc, sp, fp uint64) {
	*c = Cursor{Arch: c.Arch, Signs: c.Signs, PC: pc &^ c.Signs, Known: 1<<c.Arch.SP | 1<<c.Arch.FP}
	c.Regs[c.Arch.SP], c.Regs[c.Arch.FP] = sp, fp
}

// Climb moves to the caller whose frame pointer is fp, and to which a return address, pc,
// leads, from a frame whose two words are at frame.
func (c *Cursor) Climb(pc, frame, fp uint64) {
	c.Set(pc, frame+16, fp)
	if c.Arch.HasLink() { // the two words may be anywhere in the frame
		c.Known &^= 1 << c.Arch.SP
	}
}

// Caller returns the cursor in the caller of the function at c, whose code is at
// address in the file.
func (u *Table) Caller(c Cursor, address uint64, read func(uint64) (uint64, error)) (next Cursor, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("unwind: %v", fault)
		}
	}()
	c.Arch = u.arch
	if !c.Leaf {
		address-- // the call may be the function's last instruction
	}
	entry, err := u.entries.FDEForPC(address)
	switch {
	case err != nil && u.entry != 0 && address-u.entry < startBytes:
		return c, ErrOutermost
	case err != nil:
		return c, ErrNoEntry
	}
	if isSignal(entry) {
		return signalCaller(c, read)
	}
	rules, err := entry.EstablishFrame(address)
	if err != nil {
		return c, fmt.Errorf("unwind: %w", err)
	}
	cfa, err := c.frameAddress(rules, read)
	if err != nil {
		return c, err
	}
	next, err = restored(rules, c, cfa, read)
	if err != nil {
		return c, err
	}
	if next.PC, err = c.returns(rules, cfa, read); err != nil {
		return c, err
	}
	next.Regs[u.arch.SP] = cfa
	next.Known |= 1 << u.arch.SP
	return next, nil
}

// returns returns the return address of the function at c, whose frame begins at cfa.
func (c *Cursor) returns(rules *frame.FrameContext, cfa uint64, read func(uint64) (uint64, error)) (uint64, error) {
	rule, ok := rules.Regs[rules.RetAddrReg]
	isLink := c.Leaf && rules.RetAddrReg == c.Arch.Link // the library has no rule for a register that was restored
	switch {
	case isLink && (!ok || rule.Rule == frame.RuleUndefined || rule.Rule == frame.RuleSameVal):
		if pc, known := c.Get(c.Arch.Link); known && pc != 0 {
			return pc &^ c.Signs, nil
		}
		return 0, ErrOutermost
	case ok && rule.Rule == frame.RuleUndefined:
		return 0, ErrOutermost
	case !ok || rule.Rule != frame.RuleOffset:
		return 0, errNoRule
	}
	pc, err := read(cfa + uint64(rule.Offset))
	return pc &^ c.Signs, err
}

// frameAddress returns where a function's frame begins: the caller's stack
// pointer. If the function's is not known, and calls are linked, it has called another with
// the frame pointer where the caller's was saved.
func (c *Cursor) frameAddress(rules *frame.FrameContext, read func(uint64) (uint64, error)) (uint64, error) {
	rule, saved := rules.CFA, rules.Regs[c.Arch.FP]
	if _, known := c.Get(c.Arch.SP); !known && rule.Reg == c.Arch.SP && c.Arch.HasLink() && saved.Rule == frame.RuleOffset {
		return c.FP() - uint64(saved.Offset), nil
	}
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
	next := Cursor{Arch: c.Arch, Signs: c.Signs, Known: c.Known & c.Arch.saved, Regs: c.Regs}
	for reg, rule := range rules.Regs {
		if reg >= c.Arch.Registers {
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
	next := Cursor{Arch: c.Arch, Signs: c.Signs, Known: c.Arch.All(), Leaf: true}
	var err error
	at := c.SP() + c.Arch.context
	for reg, word := range c.Arch.contextWords {
		if next.Regs[reg], err = read(at + 8*word); err != nil {
			return c, err
		}
	}
	next.PC, err = read(at + 8*c.Arch.contextPC)
	return next, err
}
