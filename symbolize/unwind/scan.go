package unwind

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// Encodings of pointers in .eh_frame (Linux Standard Base, Core, DWARF extensions).
const (
	encodingAbsolute = 0x00
	encodingUint4    = 0x03
	encodingUint8    = 0x04
	encodingInt4     = 0x0b
	encodingInt8     = 0x0c
	encodingForm     = 0x0f
	encodingRelative = 0x10 // to the pointer's own address
	encodingIndirect = 0x80
)

// maxRows bounds the rows of one file; node 26 has a third of them.
const maxRows = 1 << 20

// A common entry is what the functions that refer to it have in common.
type common struct {
	arch          *Arch
	codeAlignment uint64
	dataAlignment int64
	returns       uint64 // the register that stands for the return address
	encoding      byte   // of pointers to functions
	sized         bool   // functions say how much augmentation data they have
	signal        bool
	initial       rules
}

// A function is one entry of the table. Its rows are a part of all.
type function struct {
	start, end uint32
	rows       Span
	frameless  bool
}

// A scanner makes rows of a table of unwind instructions. A table has hundreds of
// thousands of them, so it keeps nothing else.
type scanner struct {
	table     section
	start     int    // where part is in the table
	part      []byte // what was read last
	buf       []byte
	commons   map[int]*common // by their place in the table; nil where not understood
	functions []function
	rows      []Row
	scratch   []Row // of one function
}

const (
	head      = 8 // bytes of an entry: its length, and what tells its kind
	readBytes = 2 * maxFrameEntry
)

// scan reads all entries of a table.
func scan(table section) *scanner {
	s := &scanner{
		table: table, commons: make(map[int]*common), buf: make([]byte, min(readBytes, table.size)),
		functions: make([]function, 0, table.size/functionBytes), rows: make([]Row, 0, table.size/rowBytes),
	}
	for at := 0; len(s.rows) < maxRows; {
		word := s.bytes(at, 4)
		if word == nil {
			break
		}
		length := int(binary.LittleEndian.Uint32(word))
		if length == 0 { // the end of one object file's table
			at += 4
			continue
		}
		end := at + 4 + length
		if length < 4 || end > table.size {
			break
		}
		if length <= maxFrameEntry {
			s.entry(at, end)
		}
		at = end
	}
	return s
}

// entry reads an entry from its length on, which is a function's or common.
func (s *scanner) entry(at, end int) {
	entry := s.bytes(at, end-at)
	if len(entry) < head {
		return
	}
	if back := int(binary.LittleEndian.Uint32(entry[4:])); back != 0 {
		s.function(s.commonAt(at+4-back), operands{entry[head:], false}, s.table.address+uint64(at+head))
	}
}

// bytes returns n bytes from a place on, until it is called again; nil if they cannot be read.
func (s *scanner) bytes(at, n int) []byte {
	if at < s.start || at+n > s.start+len(s.part) {
		if n > len(s.buf) || at+n > s.table.size {
			return nil
		}
		got, _ := s.table.ReadAt(s.buf[:min(len(s.buf), s.table.size-at)], int64(at)) // what was read decides
		s.start, s.part = at, s.buf[:got]
		if n > got {
			return nil
		}
	}
	return s.part[at-s.start:][:n]
}

// commonAt returns the common entry at a place in the table, or nil.
func (s *scanner) commonAt(at int) *common {
	if c, known := s.commons[at]; known {
		return c
	}
	c := s.readCommonAt(at)
	s.commons[at] = c
	return c
}

func (s *scanner) readCommonAt(at int) *common {
	var first [head]byte
	if at < 0 || at > s.table.size-head {
		return nil
	}
	if n, _ := s.table.ReadAt(first[:], int64(at)); n < head || binary.LittleEndian.Uint32(first[4:]) != 0 {
		return nil
	}
	length := int(binary.LittleEndian.Uint32(first[:]))
	if length < 4 || length > maxFrameEntry || at+4+length > s.table.size {
		return nil
	}
	rest := make([]byte, length-4)
	if n, _ := s.table.ReadAt(rest, int64(at+head)); n < len(rest) {
		return nil
	}
	return readCommon(s.table.arch, operands{rest, false})
}

// readCommon decodes what follows the head of a common entry; nil if it is not
// understood.
func readCommon(arch *Arch, o operands) *common {
	c := &common{arch: arch, encoding: encodingAbsolute}
	version := o.byte()
	augmentation, rest, ok := bytes.Cut(o.rest, []byte{0})
	if !ok || version != 1 && version != 3 {
		return nil
	}
	o.rest = rest
	c.codeAlignment, c.dataAlignment = o.unsigned(), o.signed()
	if version == 1 {
		c.returns = uint64(o.byte())
	} else {
		c.returns = o.unsigned()
	}
	if len(augmentation) > 0 {
		if augmentation[0] != 'z' {
			return nil
		}
		c.sized = true
		c.augment(augmentation[1:], operands{o.block(), false})
	}
	m := machine{common: c}
	if o.bad || m.run(o.rest) != nil {
		return nil
	}
	c.initial = m.rules
	return c
}

// augment notes what an augmentation says of functions. What it does not know comes
// last, as it does in all tables.
func (c *common) augment(letters []byte, data operands) {
	for _, letter := range letters {
		switch letter {
		case 'R':
			c.encoding = data.byte()
		case 'S':
			c.signal = true
		case 'L':
			data.byte()
		case 'P':
			data.pointer(data.byte()&encodingForm, 0)
		}
	}
}

// function makes the rows of a function whose entry continues with o, which is loaded
// at address.
func (s *scanner) function(c *common, o operands, address uint64) {
	if c == nil || c.encoding&encodingIndirect != 0 {
		return
	}
	start := o.pointer(c.encoding, address)
	size := o.pointer(c.encoding&encodingForm, 0)
	if c.sized {
		o.block()
	}
	if o.bad || start == 0 || size == 0 || size > math.MaxUint32 || start > math.MaxUint32-size {
		return
	}
	m := machine{common: c, rules: c.initial, at: start, rows: s.scratch[:0]}
	if c.signal {
		m.rows = append(m.rows, Row{Start: uint32(start), Base: Signal})
	} else if m.run(o.rest) != nil || len(s.rows)+len(m.rows) > maxRows {
		m.rows = append(m.rows[:0], Row{Start: uint32(start)})
	} else {
		m.emit()
	}
	frameless := slices.ContainsFunc(m.rows, func(r Row) bool { return !r.framed(c.arch) })
	first := len(s.rows)
	s.rows = append(s.rows, foldPrologue(m.rows)...)
	s.scratch = m.rows
	s.functions = append(s.functions, function{
		uint32(start), uint32(start + size), Span{uint32(first), uint32(len(s.rows))}, frameless,
	})
}

// operands are decoded one after the other. Bad becomes true where one is missing.
type operands struct {
	rest []byte
	bad  bool
}

// take returns the next n bytes; zeros if there are fewer.
func (o *operands) take(n int) []byte {
	if n > len(o.rest) {
		o.bad = true
		return make([]byte, n)
	}
	taken := o.rest[:n]
	o.rest = o.rest[n:]
	return taken
}

func (o *operands) byte() byte { return o.take(1)[0] }

func (o *operands) unsigned() uint64 {
	n, size := binary.Uvarint(o.rest)
	if size <= 0 {
		o.bad = true
		return 0
	}
	o.rest = o.rest[size:]
	return n
}

func (o *operands) signed() int64 {
	n, rest, ok := signedLEB(o.rest)
	if !ok {
		o.bad = true
		return 0
	}
	o.rest = rest
	return n
}

// block returns bytes that follow their number.
func (o *operands) block() []byte {
	n := o.unsigned()
	if n > uint64(len(o.rest)) {
		o.bad = true
		return nil
	}
	return o.take(int(n))
}

// pointer decodes a pointer that is loaded at address.
func (o *operands) pointer(encoding byte, address uint64) uint64 {
	var n uint64
	switch encoding & encodingForm {
	case encodingUint4:
		n = uint64(binary.LittleEndian.Uint32(o.take(4)))
	case encodingInt4:
		n = uint64(int32(binary.LittleEndian.Uint32(o.take(4))))
	case encodingAbsolute, encodingUint8, encodingInt8:
		n = binary.LittleEndian.Uint64(o.take(8))
	default:
		o.bad = true
	}
	if encoding&encodingRelative != 0 {
		n += address
	}
	return n
}
