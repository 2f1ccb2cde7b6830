package trace

import (
	"debug/elf"
	enc "encoding/binary"
	"fmt"
	"iter"
	"path"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/process"
	"ustack/symbolize/reader"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
)

// A Module is a file that a process has mapped and whose code it runs.
type Module struct {
	ID      FileID
	file    *reader.File // the table closes it
	elf     *elfsym.File
	path    string // in the process
	process *process.Process
	bias    uint64 // of addresses in the process relative to those in the file
}

// Module returns the file that defines symbol in process pid, which must be traced;
// nil if no file does. The Module is valid until the table is closed.
func (t *Table) Module(pid int, symbol string) (*Module, error) {
	return t.Object(pid, "", symbol)
}

// Modules returns the files whose code process pid, which must be traced, has mapped and whose
// path or base name is object; all if object is empty. They are valid until the table is closed.
func (t *Table) Modules(pid int, object string) (all []*Module) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok {
		return nil
	}
	seen := make(map[*elfsym.File]bool) // a file may have several mappings
	for _, m := range g.code {
		if object != "" && object != m.Path && object != path.Base(m.Path) {
			continue
		}
		if module := m.module(g.process); module != nil && !seen[module.elf] {
			seen[module.elf] = true
			all = append(all, module)
		}
	}
	return all
}

// Release returns the layout of the V8 in process pid, or what keeps it from being known.
func (t *Table) Release(pid int) (*release.Release, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok {
		return nil, process.ErrGone
	}
	if g.err != nil {
		return nil, g.err
	}
	if g.binary == nil || g.binary.v8 == nil {
		return nil, v8.ErrNotV8
	}
	return g.binary.v8.Release, nil
}

// Symbols yields the file's symbols whose raw name begins with one of the prefixes, as
// elfsym.File does.
func (m *Module) Symbols(prefixes ...string) iter.Seq[elfsym.Symbol] {
	return m.elf.Symbols(prefixes...)
}

// Machine returns the architecture that the file is for.
func (m *Module) Machine() elf.Machine { return m.elf.Machine() }

// Base returns the last element of the file's path in the process.
func (m *Module) Base() string { return path.Base(m.path) }

// Offset returns where the file has an address of it.
func (m *Module) Offset(address uint64) (offset uint64, ok bool) { return m.elf.Offset(address) }

// Object is like Module, for a file whose path or base name is object; for any file
// if object is empty.
func (t *Table) Object(pid int, object, symbol string) (*Module, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok {
		return nil, nil
	}
	for _, m := range g.code {
		if object != "" && object != m.Path && object != path.Base(m.Path) {
			continue
		}
		module := m.module(g.process)
		if module == nil {
			continue
		}
		if _, ok := module.Address(symbol); ok {
			return module, nil
		}
	}
	return nil, nil
}

// module returns the file whose code m maps in process p, nil if no such file can be read.
func (m *mapping) module(p *process.Process) *Module {
	if m.binary == nil || m.binary.elf == nil || !m.File() {
		return nil
	}
	file, ok := m.binary.file.(*reader.File)
	if !ok {
		return nil
	}
	return &Module{fileOf(m.Mapping), file, m.binary.elf, m.Path, p, space.Bias(m.binary.elf, []space.Mapping{m.ofFile()})}
}

// Path returns a path by which the kernel finds the file. It returns an error if the
// file's server does not answer: a process that opened the file then could not be killed.
func (m *Module) Path() (string, error) { return m.file.Path(), m.file.Alive() }

// ReadAt reads the file.
func (m *Module) ReadAt(p []byte, offset int64) (int, error) { return m.file.ReadAt(p, offset) }

// Address returns where a symbol is, as an address of the file.
func (m *Module) Address(symbol string) (address uint64, ok bool) {
	s, ok := m.elf.Symbol(symbol)
	return s.Address, ok
}

// Pointer reads the address that the process holds at an address. Both are file
// addresses.
func (m *Module) Pointer(at uint64) (address uint64, ok bool) {
	var value [8]byte
	_, err := m.process.ReadAt(value[:], at+m.bias)
	return enc.NativeEndian.Uint64(value[:]) - m.bias, err == nil
}

// Live returns where the process has a file address.
func (m *Module) Live(address uint64) uint64 { return address + m.bias }

// ReadMemory reads the process's memory at an address of the process.
func (m *Module) ReadMemory(p []byte, at uint64) (int, error) { return m.process.ReadAt(p, at) }

// Int reads a C int of the process by its symbol.
func (m *Module) Int(symbol string) (int, error) {
	address, ok := m.Address(symbol)
	if !ok {
		return 0, fmt.Errorf("no symbol %s", symbol)
	}
	var value [4]byte
	if _, err := m.process.ReadAt(value[:], address+m.bias); err != nil {
		return 0, fmt.Errorf("read %s: %w", symbol, err)
	}
	return int(int32(enc.NativeEndian.Uint32(value[:]))), nil
}

// Generation returns the kernel's number for the program in process pid; 0 if the
// process is not traced. No two programs have the same.
func (t *Table) Generation(pid int) uint32 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if g, ok := t.targets[pid]; ok {
		return g.generation
	}
	return 0
}

// Inside returns the PID of the traced process pid in its own PID namespace; 0 if it is
// the same.
func (t *Table) Inside(pid int) int {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if g, ok := t.targets[pid]; ok {
		return g.inside
	}
	return 0
}

// maxCode bounds how much of a function is read: libuv's longest that is probed
// has some 700 bytes.
const maxCode = 1 << 12

// Code returns a function's machine code and its offset in the file; nil if the file
// has no function of that name.
func (m *Module) Code(symbol string) (code []byte, offset uint64) {
	s, ok := m.elf.Symbol(symbol)
	if !ok {
		return nil, 0
	}
	offset, ok = m.elf.Offset(s.Address)
	if !ok {
		return nil, 0
	}
	code = make([]byte, min(s.Size, maxCode))
	n, _ := m.elf.ReadAt(code, s.Address) // damaged data ends it
	return code[:n], offset
}

// Leaf returns the file that a stack's first frame is in, with the addresses in that
// file of all the stack's native frames; nil if it is in no file or its process has
// gone. The Module is valid until the table is closed.
func (t *Table) Leaf(s Stack) (m *Module, addresses []uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if s.owner == nil || !s.owner.alive() || len(s.words) == 0 || !hasPC(s.words[0]) {
		return nil, nil
	}
	at := s.owner.find(s.words[0] & pcMask)
	if at == nil {
		return nil, nil
	}
	if m = at.module(s.owner.process); m == nil {
		return nil, nil
	}
	for _, word := range s.words {
		if hasPC(word) {
			addresses = append(addresses, word&pcMask-m.bias)
		}
	}
	return m, addresses
}

// Name returns the name of the function at a file address, empty if it has none.
func (m *Module) Name(address uint64) string {
	s, _ := m.elf.Lookup(address)
	return s.Demangled()
}
