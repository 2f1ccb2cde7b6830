package jscore

import (
	"debug/elf"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize"
	"ustack/symbolize/unwind/x86"
	"ustack/symbolize/v8"
)

// Bounds on what is disassembled.
const (
	maxInstruction  = 16      // bytes of one
	maxDisassembled = 1 << 20 // bytes of one function
)

// A Listing is instructions in the order of their addresses.
type Listing struct {
	Of           string        `json:"of,omitempty"` // the function, if it is known
	Instructions []Instruction `json:"instructions"`
	Cut          bool          `json:"cut,omitempty"` // the function has more
}

// An Instruction is one of machine code.
type Instruction struct {
	Address Address `json:"address"`
	Label   string  `json:"label,omitempty"` // its function and the offset there
	Bytes   string  `json:"bytes"`           // hexadecimal
	Text    string  `json:"text"`
	Source  string  `json:"source,omitempty"` // the line that it was made from, where that changes
}

// instructionAt disassembles the instruction at an address.
func (d *Dump) instructionAt(address uint64) (Instruction, error) {
	b := make([]byte, maxInstruction)
	n, err := d.ReadAt(b, address)
	if n == 0 {
		return Instruction{}, err
	}
	return d.decode(b[:n], address)
}

// decode disassembles the first instruction in b, which is at an address.
func (d *Dump) decode(b []byte, address uint64) (Instruction, error) {
	text, size := decodeX86(b, address, d.symbolBefore)
	if d.core.Machine() == elf.EM_AARCH64 {
		text, size = decodeARM(b, address, d.symbolOf)
	}
	if size == 0 {
		return Instruction{}, fmt.Errorf("read an instruction at %x: %w", address, errNoCode)
	}
	return Instruction{Address: Address(address), Bytes: hex.EncodeToString(b[:size]), Text: text}, nil
}

// unknownInstruction is the text of an instruction that is not known.
const unknownInstruction = "(unknown)"

// decodeX86 disassembles an instruction of x86-64. Size is 0 if there is none.
func decodeX86(b []byte, address uint64, symbol x86asm.SymLookup) (text string, size int) {
	if inst, err := x86asm.Decode(b, 64); err == nil && inst.Op != 0 && inst.Len <= len(b) {
		return x86asm.GNUSyntax(inst, address, symbol), inst.Len
	}
	if size = int(x86.Decode(b).Length); size > len(b) {
		size = 0
	}
	return unknownInstruction, size
}

// decodeARM is decodeX86 for arm64.
func decodeARM(b []byte, address uint64, symbol func(uint64) string) (text string, size int) {
	const wide = 4
	if len(b) < wide {
		return "", 0
	}
	inst, err := arm64asm.Decode(b)
	if err != nil {
		return unknownInstruction, wide
	}
	text = arm64asm.GNUSyntax(inst)
	for _, arg := range inst.Args {
		if relative, ok := arg.(arm64asm.PCRel); ok {
			to := address + uint64(relative)
			if inst.Op == arm64asm.ADRP {
				to = address&^0xfff + uint64(relative)
			}
			text += fmt.Sprintf(" // %x %s", to, symbol(to))
		}
	}
	return strings.TrimRight(text, " "), wide
}

// symbolOf names an address of a file: the function or variable, and the offset there;
// "" if it has no name.
func (d *Dump) symbolOf(address uint64) string {
	p, ok := d.Part(address)
	if !ok {
		return ""
	}
	f := p.Native(address, address)
	if f.Name == "" || f.Name == symbolize.Unknown {
		return ""
	}
	name := filepath.Base(f.Module) + "`" + f.Name
	if f.Offset > 0 {
		name += fmt.Sprintf("+%#x", f.Offset)
	}
	return name
}

// symbolBefore is symbolOf with the address at which the symbol begins.
func (d *Dump) symbolBefore(address uint64) (name string, base uint64) {
	p, ok := d.Part(address)
	if !ok {
		return "", 0
	}
	f := p.Native(address, address)
	if f.Name == "" || f.Name == symbolize.Unknown {
		return "", 0
	}
	return f.Name, address - f.Offset
}

// A stretch is a range of machine code with a name.
type stretch struct {
	name       string
	start, end uint64
}

// stretchAround returns the function that contains an address: of a file, or made by V8.
func (d *Dump) stretchAround(address uint64) (stretch, bool) {
	if p, ok := d.Part(address); ok {
		if p.Module.ELF == nil {
			return stretch{}, false
		}
		s, ok := p.Module.ELF.Lookup(address - p.Module.Bias)
		if !ok {
			return stretch{}, false
		}
		start, size := s.Address+p.Module.Bias, s.Size
		if size == 0 {
			size = min(p.End-start, maxDisassembled)
		}
		return stretch{s.Demangled(), start, start + size}, start <= address && address < start+size
	}
	r, ok := d.Region(address)
	if !ok || !r.Exec || d.v8.Codes == nil {
		return stretch{}, false
	}
	c, err := d.v8.Codes.At(address, r.Start)
	if err != nil {
		return stretch{}, false
	}
	return stretch{fmt.Sprintf("%v code %x", c.Tier, c.Address|1), c.Start, c.Start + c.Size}, true
}

// DisOptions say what to disassemble around an address.
type DisOptions struct {
	Around int  // instructions before and after it; 10 if 0
	Window bool // those only, even at the start of a function
}

// Dis disassembles a function if address is its start, and else the instructions around
// address.
func (d *Dump) Dis(address uint64, o DisOptions) (*Listing, error) {
	if o.Around <= 0 {
		o.Around = 10
	}
	o.Around = min(o.Around, maxDisassembled)
	if _, err := d.instructionAt(address); err != nil {
		return nil, err
	}
	s, ok := d.stretchAround(address)
	if !ok { // nothing says where the instruction before begins
		l := d.list(stretch{"", address, address + uint64(o.Around+1)*maxInstruction})
		l.Instructions, l.Cut = l.Instructions[:min(o.Around+1, len(l.Instructions))], false
		return l, nil
	}
	l := d.list(s)
	if address != s.start || o.Window {
		l.narrow(address, o.Around)
	}
	return l, nil
}

// narrow keeps the instructions around an address.
func (l *Listing) narrow(address uint64, around int) {
	at := 0
	for i, one := range l.Instructions {
		if uint64(one.Address) <= address {
			at = i
		}
	}
	from, to := max(0, at-around), min(at+around+1, len(l.Instructions))
	l.Instructions, l.Cut = l.Instructions[from:to], false
}

// list disassembles a stretch, up to a bound or to what is no instruction.
func (d *Dump) list(s stretch) *Listing {
	l := &Listing{Of: s.name, Instructions: []Instruction{}}
	if s.end-s.start > maxDisassembled {
		s.end, l.Cut = s.start+maxDisassembled, true
	}
	code := make([]byte, s.end-s.start)
	n, _ := d.ReadAt(code, s.start) // what can be read is shown
	l.Cut = l.Cut || n < len(code)
	for at := 0; at < n; {
		one, err := d.decode(code[at:min(n, at+maxInstruction)], s.start+uint64(at))
		if err != nil {
			l.Cut = true
			break
		}
		if s.name != "" {
			one.Label = fmt.Sprintf("%s+%#x", s.name, at)
		}
		l.Instructions = append(l.Instructions, one)
		at += len(one.Bytes) / 2
	}
	return l
}

// WriteText writes a line for each instruction, after the lines of source.
func (l *Listing) WriteText(w io.Writer) error {
	var b strings.Builder
	if l.Of != "" {
		fmt.Fprintf(&b, "%s:\n", l.Of)
	}
	for _, one := range l.Instructions {
		if one.Source != "" {
			fmt.Fprintf(&b, "%s; %s\n", indent, one.Source)
		}
		offset := ""
		if one.Label != "" {
			offset = one.Label[strings.LastIndexByte(one.Label, '+'):]
		}
		fmt.Fprintf(&b, "%12s %8s  %s\n", one.Address, offset, one.Text)
	}
	if l.Cut {
		b.WriteString("        (the rest is not shown)\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Addresses returns the instructions' addresses.
func (l *Listing) Addresses() []v8.Value {
	values := make([]v8.Value, len(l.Instructions))
	for i, one := range l.Instructions {
		values[i] = v8.Value(one.Address)
	}
	return values
}
