package jscore

import (
	"fmt"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/value"
)

// Disassemble adds to t the machine code of v: a function, or a Code object. It adds a row
// that says why if there is none.
func (d *Dump) Disassemble(t *Table, v v8.Value) error {
	h := d.Heap()
	o, err := value.ObjectOf(h, v, "JSFunction", "Code")
	if err != nil {
		return err
	}
	var shared v8.Value
	var c code.Code
	if h.IsFunction(o) {
		if c, err = d.codeOf(v); err != nil {
			return err
		}
		if shared, err = h.FieldOf(o, "JSFunction", "shared"); err != nil {
			return err
		}
		if c.Builtin {
			t.add("disassembly", "none: %s", d.whyNone(shared))
			return nil
		}
	} else if d.v8.Codes == nil {
		return errNoCode
	} else if c, err = d.v8.Codes.Code(v); err != nil {
		return err
	}
	t.Disassembly = d.list(stretch{fmt.Sprintf("%v code %x", c.Tier, c.Address|1), c.Start, c.Start + c.Size})
	if !c.Builtin {
		d.addSource(t.Disassembly, c, shared)
	}
	return nil
}

// whyNone says what a function has instead of machine code.
func (d *Dump) whyNone(shared v8.Value) string {
	start, size, err := code.Bytecodes(d.Heap(), shared)
	if err != nil {
		return "it is one of V8's own, or was not compiled (dis shows V8's own code)"
	}
	return fmt.Sprintf("it is interpreted (bytecodes at %x to %x)", start, start+size)
}

// addSource adds to instructions the lines of source that they were made from, as far as V8
// keeps positions.
func (d *Dump) addSource(l *Listing, c code.Code, shared v8.Value) {
	table, err := d.v8.Codes.Table(c, shared)
	if err != nil {
		return
	}
	s := sourceLines{dump: d, byShared: map[v8.Value]*sharedLines{}}
	last := ""
	for i := range l.Instructions {
		one := &l.Instructions[i]
		places, err := table.At(int(uint64(one.Address) - c.Start))
		if err != nil || len(places) == 0 {
			continue
		}
		if line := s.at(places[0]); line != "" && line != last {
			one.Source, last = line, line
		}
	}
}

// sourceLines has the scripts of functions.
type sourceLines struct {
	dump     *Dump
	byShared map[v8.Value]*sharedLines
}

// sharedLines are a function's script.
type sharedLines struct {
	name  string
	line  func(offset int) int
	first int // number of the first line
	lines []string
}

// at returns the line of a place; "" if it is not known.
func (s *sourceLines) at(p code.Place) string {
	of, ok := s.byShared[p.Shared]
	if !ok {
		of = s.read(p.Shared)
		s.byShared[p.Shared] = of
	}
	if of == nil || p.Offset < 0 {
		return ""
	}
	n := of.line(p.Offset)
	text := fmt.Sprintf("%s line %s", of.name, symbolize.LineText(n, p.Nearest))
	if i := n - of.first; i >= 0 && i < len(of.lines) {
		text += ": " + shortened(of.lines[i], maxShown)
	}
	return text
}

// read reads a function's script; nil if it cannot be read.
func (s *sourceLines) read(shared v8.Value) *sharedLines {
	f, err := s.dump.Heap().FunctionOf(shared)
	if err != nil || f.Script == 0 {
		return nil
	}
	script := s.dump.Script(f)
	if script.Source == nil {
		return nil
	}
	first, _ := script.Source.Position(0)
	lines, err := s.dump.scriptLines(f)
	if err != nil {
		lines = nil // the numbers are known
	}
	line := func(offset int) int { n, _ := script.Source.Position(offset); return n }
	return &sharedLines{script.Name, line, first, lines}
}
