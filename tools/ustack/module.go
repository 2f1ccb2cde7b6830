package ustack

import (
	"fmt"
	"os"

	"ustack/symbolize/elfsym"
)

// A Module is a file that a process has mapped and runs code of.
type Module struct {
	file *os.File
	elf  *elfsym.File
}

// Module returns the file that defines symbol in process pid, which is looked
// at; nil if none does. The caller closes it.
func (t *Table) Module(pid int, symbol string) (*Module, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	g, ok := t.targets[pid]
	if !ok {
		return nil, nil
	}
	for _, m := range g.code {
		if m.binary == nil || m.binary.elf == nil || !m.File() {
			continue
		}
		if _, ok := m.binary.elf.Symbol(symbol); !ok {
			continue
		}
		file, err := g.process.OpenFile(m.Mapping)
		if err != nil {
			return nil, err
		}
		return &Module{file, m.binary.elf}, nil
	}
	return nil, nil
}

// Path is a path by which this process, and the kernel for it, finds the file.
func (m *Module) Path() string { return fmt.Sprintf("/proc/self/fd/%d", m.file.Fd()) }

// Offset returns where in the file the function is; false if it has none of
// that name.
func (m *Module) Offset(symbol string) (uint64, bool) {
	s, ok := m.elf.Symbol(symbol)
	if !ok {
		return 0, false
	}
	return m.elf.Offset(s.Address)
}

// Close lets go of the file.
func (m *Module) Close() error { return m.file.Close() }

// Generation returns what the kernel knows the program in process pid by; 0 if
// the process is not looked at. No two programs have the same.
func (t *Table) Generation(pid int) uint32 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if g, ok := t.targets[pid]; ok {
		return g.generation
	}
	return 0
}
