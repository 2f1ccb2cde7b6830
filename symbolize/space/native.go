package space

import (
	"ustack/symbolize"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/unwind"
)

// Native names pc by the function that contains within: the address of the instruction
// that is running or was called from.
func (p Part) Native(pc, within uint64) symbolize.Frame {
	return p.Mapping.Native(p.Module.ELF, pc, within)
}

// Native names pc, which is mapped, by the function of the file that contains within: the
// address of the instruction that is running or was called from. The file is nil if it could
// not be opened: then the frame has its offset in the file.
func (m Mapping) Native(file *elfsym.File, pc, within uint64) symbolize.Frame {
	f := symbolize.Frame{Module: m.Path, Offset: pc - m.Start + m.Offset}
	if file == nil {
		return f
	}
	address, ok := file.Address(within - m.Start + m.Offset)
	if !ok {
		f.Name = symbolize.Unknown
		return f
	}
	f.Offset = address + (pc - within)
	if symbol, ok := file.Lookup(address); ok {
		f.Name, f.Offset = symbol.Demangled(), f.Offset-symbol.Address
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
