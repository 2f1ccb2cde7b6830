// Package kallsyms names the kernel's functions from the kernel's own list of
// symbols.
package kallsyms

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrHidden means that the kernel lists its symbols but hides their addresses.
var ErrHidden = errors.New("the kernel hides its addresses " +
	"(run as root, or with CAP_SYSLOG; the sysctl kernel.kptr_restrict must not be 2)")

const (
	path = "/proc/kallsyms"

	maxText     = 128 << 20 // bytes; a distribution's kernel with all modules has some 15 MB
	maxFunction = 1 << 20   // bytes; code further than this from a symbol does not belong to it
)

// A Table holds the kernel's functions at one time, as modules and BPF programs
// come and go. It takes some 40 bytes per function.
type Table struct {
	addresses []uint64 // ascending
	names     []uint32 // for each address, an offset in text
	text      string   // "name\tmodule\n" for each, without tab and module for the kernel proper
}

// Open reads the running kernel's list. It fails with ErrHidden, if the list has no
// functions, or if it cannot be read.
func Open() (*Table, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read kernel symbols: %w (is /proc mounted, the kernel built with CONFIG_KALLSYMS?)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	defer f.Close()
	t, err := Read(f)
	if err == nil && len(t.addresses) == 0 {
		return nil, errors.New("read kernel symbols: " + path + " lists no functions (is something mounted over it?)")
	}
	return t, err
}

// Read reads a list in the format of /proc/kallsyms: "ADDRESS TYPE NAME",
// followed by "\t[MODULE]" for a module's symbol. Lines in another format are
// skipped.
func Read(r io.Reader) (*Table, error) {
	limited := &io.LimitedReader{R: r, N: maxText}
	p := parser{}
	lines := bufio.NewScanner(limited)
	for lines.Scan() {
		p.line(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read kernel symbols: %w", err)
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("read kernel symbols: more than %d bytes", maxText)
	}
	if p.hidden && len(p.functions) == 0 {
		return nil, fmt.Errorf("read kernel symbols: %w", ErrHidden)
	}
	return p.table(), nil
}

// Lookup returns the function that holds address, the module it belongs to (such
// as "ext4"; empty for the kernel proper), and the offset of address in it. Of
// functions that start together it returns the first in the list, as the kernel
// does.
func (t *Table) Lookup(address uint64) (name, module string, offset uint64, ok bool) {
	i, found := slices.BinarySearch(t.addresses, address)
	if !found {
		i--
	}
	if i < 0 || address-t.addresses[i] >= maxFunction {
		return "", "", 0, false
	}
	line, _, _ := strings.Cut(t.text[t.names[i]:], "\n")
	name, module, _ = strings.Cut(line, "\t")
	if name == endOfCode {
		return "", "", 0, false
	}
	return name, module, address - t.addresses[i], true
}

// endOfCode is the symbol where the kernel's own functions end.
const endOfCode = "_etext"

// A parser collects functions line by line.
type parser struct {
	functions []function
	text      strings.Builder
	hidden    bool // a symbol had the address zero
}

type function struct {
	address uint64
	name    uint32 // in text
}

// line parses one line and keeps it if it is a function.
func (p *parser) line(line string) {
	number, rest, _ := strings.Cut(line, " ")
	kind, name, _ := strings.Cut(rest, " ")
	name, module, _ := strings.Cut(name, "\t")
	address, err := strconv.ParseUint(number, 16, 64)
	if err != nil || name == "" || len(kind) != 1 || !strings.Contains("tTwWi", kind) || strings.Contains(module, "\t") {
		return
	}
	if address == 0 {
		p.hidden = true
		return
	}
	p.functions = append(p.functions, function{address, uint32(p.text.Len())})
	p.text.WriteString(name)
	if module != "" {
		p.text.WriteByte('\t')
		p.text.WriteString(strings.Trim(module, "[]"))
	}
	p.text.WriteByte('\n')
}

// table sorts the functions and keeps the first of those that start together.
func (p *parser) table() *Table {
	slices.SortStableFunc(p.functions, func(a, b function) int { return cmp.Compare(a.address, b.address) })
	p.functions = slices.CompactFunc(p.functions, func(a, b function) bool { return a.address == b.address })
	t := &Table{
		addresses: make([]uint64, len(p.functions)),
		names:     make([]uint32, len(p.functions)),
		text:      strings.Clone(p.text.String()),
	}
	for i, f := range p.functions {
		t.addresses[i], t.names[i] = f.address, f.name
	}
	return t
}
