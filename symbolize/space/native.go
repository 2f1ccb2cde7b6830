package space

import (
	"ustack/symbolize"
	"ustack/symbolize/unwind"
)

// Native names pc by the function that contains within: the address of the instruction
// that is running or was called from.
func (p Part) Native(pc, within uint64) symbolize.Frame {
	f := symbolize.Frame{Module: p.Path, Offset: pc - p.Start + p.Offset}
	if p.Module.ELF == nil {
		return f
	}
	address, ok := p.Module.ELF.Address(f.Offset)
	if !ok {
		f.Name = symbolize.Unknown
		return f
	}
	f.Offset = address
	if symbol, ok := p.Module.ELF.Lookup(address - (pc - within)); ok {
		f.Name, f.Offset = symbol.Demangled(), address-symbol.Address
	}
	return f
}

// Caller moves a cursor in the part to the caller, by the file's unwind table. It returns
// unwind.ErrOutermost for a thread's first function.
func (s *Space) Caller(p Part, at unwind.Cursor) (unwind.Cursor, error) {
	table, err := p.Module.unwindTable()
	if err != nil {
		return unwind.Cursor{}, err
	}
	address, ok := p.Module.ELF.Address(at.PC - p.Start + p.Offset)
	if !ok {
		return unwind.Cursor{}, unwind.ErrNoEntry
	}
	return table.Caller(at, address, s.Word)
}
