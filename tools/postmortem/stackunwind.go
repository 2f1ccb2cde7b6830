package postmortem

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-delve/delve/pkg/dwarf/frame"
)

// Limits on tables for unwinding; those of node have 5 MiB.
const (
	maxFrameTable = 64 << 20
	maxFrameEntry = 64 << 10 // bytes of one function's instructions
)

// An unwinder knows, for each instruction of one file, where its function's caller
// goes on and what the registers were there.
type unwinder struct{ entries frame.FrameDescriptionEntries }

// newUnwinder reads the section .eh_frame of an ELF file.
func newUnwinder(file io.ReaderAt) (*unwinder, error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	section := f.Section(".eh_frame")
	if section == nil || section.Type == elf.SHT_NOBITS || section.Addr == 0 {
		return nil, errors.New("read unwind tables: there are none")
	}
	if section.Size > maxFrameTable {
		return nil, fmt.Errorf("read unwind tables: they have %d bytes", section.Size)
	}
	data, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("read unwind tables: %w", err)
	}
	return parseUnwinder(data, section.Addr)
}

// parseUnwinder reads a table that is loaded at address.
func parseUnwinder(data []byte, address uint64) (u *unwinder, err error) {
	defer func() {
		if fault := recover(); fault != nil { // the library's way to say that a table is damaged
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
	return &unwinder{entries}, nil
}

var (
	errNoEntry = errors.New("no unwind table covers it")
	errNoRule  = errors.New("the unwind table's rule is not understood")
	// errOutermost says that the function is a thread's first.
	errOutermost = errors.New("the function has no caller")
)

// A cursor is where a walk up a stack is: registers, and which of them are known.
type cursor struct {
	pc    uint64
	regs  [generalRegisters]uint64
	known uint32 // a bit for each
	leaf  bool   // pc is the next instruction, not where a call returns to
}

func (c *cursor) sp() uint64 { return c.regs[regSP] }
func (c *cursor) fp() uint64 { return c.regs[regBP] }

// get returns a register, false if its value is not known any more.
func (c *cursor) get(reg uint64) (uint64, bool) {
	if reg >= generalRegisters || c.known>>reg&1 == 0 {
		return 0, false
	}
	return c.regs[reg], true
}

// setAll makes the cursor's registers no more than these.
func (c *cursor) setAll(pc, sp, fp uint64) {
	*c = cursor{pc: pc, known: 1<<regSP | 1<<regBP}
	c.regs[regSP], c.regs[regBP] = sp, fp
}

// covers reports whether an address in the file is of a function with a table.
func (u *unwinder) covers(address uint64) bool {
	_, err := u.entries.FDEForPC(address)
	return err == nil
}

// caller returns the cursor in the caller of the function at c, whose code is at
// address in the file.
func (u *unwinder) caller(c cursor, address uint64, read func(uint64) (uint64, error)) (next cursor, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("unwind: %v", fault)
		}
	}()
	if !c.leaf {
		address-- // the call may be the function's last instruction
	}
	entry, err := u.entries.FDEForPC(address)
	if err != nil {
		return c, errNoEntry
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
		return c, errOutermost
	case !ok || ret.Rule != frame.RuleOffset:
		return c, errNoRule
	}
	if next.pc, err = read(cfa + uint64(ret.Offset)); err != nil {
		return c, err
	}
	next.regs[regSP] = cfa
	next.known |= 1 << regSP
	return next, nil
}

// frameAddress returns where a function's frame begins, the stack pointer of its
// caller.
func (c *cursor) frameAddress(rule frame.DWRule, read func(uint64) (uint64, error)) (uint64, error) {
	if rule.Rule == frame.RuleExpression {
		return evaluate(rule.Expression, *c, read)
	}
	base, ok := c.get(rule.Reg)
	if rule.Rule != frame.RuleCFA || !ok {
		return 0, errNoRule
	}
	return base + uint64(rule.Offset), nil
}

// calleeSaved are the registers that a function leaves as they were unless its
// table says otherwise: rbx, rbp, r12 to r15.
const calleeSaved = 1<<3 | 1<<regBP | 1<<12 | 1<<13 | 1<<14 | 1<<15

// restored returns the registers that the caller of the function at c has, whose
// frame begins at cfa.
func restored(rules *frame.FrameContext, c cursor, cfa uint64, read func(uint64) (uint64, error)) (cursor, error) {
	next := cursor{known: c.known & calleeSaved, regs: c.regs}
	for reg, rule := range rules.Regs {
		if reg >= generalRegisters {
			continue
		}
		address := cfa + uint64(rule.Offset)
		var err error
		switch rule.Rule {
		case frame.RuleSameVal, frame.RuleUndefined: // also the library's word for "restored"
			continue
		case frame.RuleExpression:
			address, err = evaluate(rule.Expression, c, read)
		case frame.RuleOffset:
		default:
			next.known &^= 1 << reg
			continue
		}
		if err == nil {
			next.regs[reg], err = read(address)
		}
		if err != nil {
			return c, err
		}
		next.known |= 1 << reg
	}
	return next, nil
}

// isSignal reports whether entry is of the code that a signal's handler returns to.
func isSignal(entry *frame.FrameDescriptionEntry) bool {
	return slices.Contains([]byte(entry.CIE.Augmentation), 'S')
}

// What the kernel pushes for a signal's handler: a ucontext, with the registers
// of what was interrupted (include/uapi/asm/ucontext.h).
const (
	contextRegisters = 40
	contextPC        = 16
)

// contextWords are where registers are in a ucontext, in DWARF's order.
var contextWords = [generalRegisters]uint64{13, 12, 14, 11, 9, 8, 10, 15, 0, 1, 2, 3, 4, 5, 6, 7}

// signalCaller returns the cursor in what a signal interrupted. The stack pointer
// is at the ucontext.
func signalCaller(c cursor, read func(uint64) (uint64, error)) (cursor, error) {
	next := cursor{known: 1<<generalRegisters - 1, leaf: true}
	var err error
	at := c.sp() + contextRegisters
	for reg, word := range contextWords {
		if next.regs[reg], err = read(at + 8*word); err != nil {
			return c, err
		}
	}
	next.pc, err = read(at + 8*contextPC)
	return next, err
}
