package jscore

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ustack/symbolize/v8"
)

// RegisterList is a thread's registers.
type RegisterList struct {
	TID       int        `json:"tid"`
	Registers []Register `json:"registers"`
}

// A Register is one with its value.
type Register struct {
	Name   string  `json:"name"`
	Value  Address `json:"value"`
	Symbol string  `json:"symbol,omitempty"` // that the value is the address of
}

// registerNames are the registers of NT_PRSTATUS in the kernel's order.
var registerNames = map[elf.Machine][]string{
	elf.EM_X86_64: strings.Fields("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs rflags rsp ss fs_base gs_base ds es fs gs"),
	elf.EM_AARCH64: strings.Fields("x0 x1 x2 x3 x4 x5 x6 x7 x8 x9 x10 x11 x12 x13 x14 x15 x16 x17 x18 x19 x20 x21 x22 x23 x24 x25 x26 x27 x28 " +
		"x29 x30 sp pc pstate"),
}

// Registers returns the registers of the thread tid.
func (d *Dump) Registers(tid int) (*RegisterList, error) {
	const wordSize = 8
	for _, t := range d.core.Threads() {
		if t.TID != tid {
			continue
		}
		l := &RegisterList{TID: tid, Registers: []Register{}}
		for i, name := range registerNames[d.core.Machine()] {
			if (i+1)*wordSize > len(t.General) {
				break
			}
			value := binary.LittleEndian.Uint64(t.General[i*wordSize:])
			l.Registers = append(l.Registers, Register{name, Address(value), d.symbolOf(value)})
		}
		return l, nil
	}
	return nil, errors.New("the core has no registers of that thread")
}

// WriteText writes a line for each register, as mdb's regs does.
func (l *RegisterList) WriteText(w io.Writer) error {
	var b strings.Builder
	for _, r := range l.Registers {
		line := fmt.Sprintf("%%%-8s = 0x%016x %s", r.Name, uint64(r.Value), r.Symbol)
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the registers' values.
func (l *RegisterList) Addresses() []v8.Value {
	values := make([]v8.Value, len(l.Registers))
	for i, r := range l.Registers {
		values[i] = v8.Value(r.Value)
	}
	return values
}

// MappingList is ranges of a process's addresses.
type MappingList []MappedRange

// A MappedRange is a range of addresses that are mapped alike.
type MappedRange struct {
	Base  Address `json:"base"`
	Limit Address `json:"limit"` // up to, not including
	Size  uint64  `json:"size"`
	Perms string  `json:"perms"`
	Name  string  `json:"name"`
}

// Mappings lists the process's mappings whose names contain name.
func (d *Dump) Mappings(name string) MappingList {
	list := MappingList{}
	for _, r := range d.Regions() {
		m := MappedRange{Address(r.Start), Address(r.End), r.End - r.Start, "r", d.regionName(r)}
		if r.Write {
			m.Perms += "w"
		}
		if r.Exec {
			m.Perms += "x"
		}
		if strings.Contains(m.Name, name) {
			list = append(list, m)
		}
	}
	return list
}

// MappingOf returns the mapping that contains an address.
func (d *Dump) MappingOf(address uint64) (MappingList, error) {
	for _, m := range d.Mappings("") {
		if address >= uint64(m.Base) && address < uint64(m.Limit) {
			return MappingList{m}, nil
		}
	}
	return nil, errors.New("no memory there")
}

// WriteText writes a line for each mapping.
func (l MappingList) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%16s %16s %12s %-4s %s\n", "BASE", "LIMIT", "SIZE", "PERM", "NAME"); err != nil {
		return err
	}
	for _, m := range l {
		if _, err := fmt.Fprintf(w, "%16s %16s %12x %-4s %s\n", m.Base, m.Limit, m.Size, m.Perms, m.Name); err != nil {
			return err
		}
	}
	return nil
}

// Addresses returns where the mappings begin.
func (l MappingList) Addresses() []v8.Value {
	values := make([]v8.Value, len(l))
	for i, m := range l {
		values[i] = v8.Value(m.Base)
	}
	return values
}

// SymbolList is symbols of a process's files.
type SymbolList struct {
	Symbols []SymbolLine `json:"symbols"`
	Cut     bool         `json:"cut,omitempty"` // there are more
}

// A SymbolLine is a symbol of a process's file.
type SymbolLine struct {
	Value  Address `json:"value"` // where it is in the process
	Size   uint64  `json:"size"`
	Type   string  `json:"type"`
	Bind   string  `json:"bind"`
	Name   string  `json:"name"` // demangled
	Module string  `json:"module"`
}

// maxSymbols bounds the symbols that are listed; node has 250,000.
const maxSymbols = 1 << 20

// identifier matches a text that is the same in a name of C++ as the linker knows it.
var identifier = regexp.MustCompile(`^\w+$`)

// Symbols lists the symbols whose names, as the linker knows them or demangled, contain
// text. An identifier is sought in the former only, which is faster.
func (d *Dump) Symbols(text string) *SymbolList {
	l := &SymbolList{Symbols: []SymbolLine{}}
	plain := identifier.MatchString(text)
	for _, m := range d.Modules() {
		if m.ELF == nil {
			continue
		}
		for s := range m.ELF.Symbols("") {
			if s.Type == elf.STT_TLS || s.Address == 0 || s.Name == "" {
				continue // it is at no address of its own
			}
			if !strings.Contains(s.Name, text) && (plain || !strings.Contains(s.Demangled(), text)) {
				continue
			}
			if len(l.Symbols) == maxSymbols {
				l.Cut = true
				return l
			}
			l.Symbols = append(l.Symbols, SymbolLine{
				Address(s.Address + m.Bias), s.Size, symbolTypes[s.Type], symbolBinds[s.Bind], s.Demangled(), filepath.Base(m.Path),
			})
		}
	}
	return l
}

// SymbolValue returns the address of the symbol with a name of the linker's, which may follow
// its file's: "uv_run", "libc.so.6`free".
func (d *Dump) SymbolValue(name string) (uint64, error) {
	file, symbol, ok := strings.Cut(name, "`")
	if !ok {
		file, symbol = "", name
	}
	found := map[uint64]string{}
	for _, m := range d.Modules() {
		module := filepath.Base(m.Path)
		if m.ELF == nil || file != "" && module != file {
			continue
		}
		for s := range m.ELF.Symbols(symbol) {
			if s.Name == symbol && s.Type != elf.STT_TLS && s.Address != 0 {
				found[s.Address+m.Bias] = module + "`" + symbol
			}
		}
	}
	switch len(found) {
	case 0:
		return 0, fmt.Errorf("no symbol %q", name)
	case 1:
		return slices.Collect(maps.Keys(found))[0], nil
	}
	files := slices.Compact(slices.Sorted(maps.Values(found)))
	return 0, fmt.Errorf("%d symbols are named %q, in %s (nm lists them)", len(found), name, strings.Join(files[:min(len(files), maxFiles)], ", "))
}

// maxFiles bounds the files that an error names.
const maxFiles = 4

// SymbolAt returns the symbol of the function that contains an address.
func (d *Dump) SymbolAt(address uint64) (*SymbolList, error) {
	p, ok := d.Part(address)
	if !ok || p.Module.ELF == nil {
		return nil, errors.New("in no file whose symbols are known")
	}
	s, ok := p.Module.ELF.Lookup(address - p.Module.Bias)
	if !ok {
		return nil, errors.New("no symbol there")
	}
	return &SymbolList{Symbols: []SymbolLine{{
		Address(s.Address + p.Module.Bias), s.Size, symbolTypes[s.Type], symbolBinds[s.Bind], s.Demangled(), filepath.Base(p.Module.Path),
	}}}, nil
}

var (
	symbolTypes = map[elf.SymType]string{
		elf.STT_NOTYPE: "NOTY", elf.STT_OBJECT: "OBJT", elf.STT_FUNC: "FUNC", elf.STT_SECTION: "SECT", elf.STT_FILE: "FILE",
		elf.STT_COMMON: "COMM", elf.STT_GNU_IFUNC: "IFUN",
	}
	symbolBinds = map[elf.SymBind]string{elf.STB_LOCAL: "LOCL", elf.STB_GLOBAL: "GLOB", elf.STB_WEAK: "WEAK"}
)

// WriteText writes a line for each symbol.
func (l *SymbolList) WriteText(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "%-16s  %-10s  %-4s  %-4s  %s\n", "VALUE", "SIZE", "TYPE", "BIND", "NAME"); err != nil {
		return err
	}
	for _, s := range l.Symbols {
		if _, err := fmt.Fprintf(w, "%016x  %-10d  %-4s  %-4s  %s`%s\n", uint64(s.Value), s.Size, s.Type, s.Bind, s.Module, s.Name); err != nil {
			return err
		}
	}
	if l.Cut {
		_, err := fmt.Fprintf(w, "(more than %d; the rest is not shown)\n", maxSymbols)
		return err
	}
	return nil
}

// Addresses returns where the symbols are.
func (l *SymbolList) Addresses() []v8.Value {
	values := make([]v8.Value, len(l.Symbols))
	for i, s := range l.Symbols {
		values[i] = v8.Value(s.Value)
	}
	return values
}
