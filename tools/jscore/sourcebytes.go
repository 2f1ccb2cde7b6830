package jscore

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
	"ustack/symbolize/v8/value"
)

// Bounds on the bytes shown.
const (
	DefaultBytes = 64
	maxBytes     = 1 << 26
)

// Bytes are the contents of a range of the process's memory.
type Bytes struct {
	Address Address `json:"address"`
	Data    []byte  `json:"data"`            // shorter than requested where memory ends
	Error   string  `json:"error,omitempty"` // why
}

// Bytes reads memory, as far as it can be read.
func (d *Dump) Bytes(address, length uint64) (*Bytes, error) {
	if length == 0 {
		length = DefaultBytes
	}
	if length > maxBytes {
		return nil, fmt.Errorf("read %d bytes at %x: more than %d", length, address, maxBytes)
	}
	b := &Bytes{Address: Address(address), Data: make([]byte, length)}
	n, err := d.ReadAt(b.Data, address)
	if n == 0 && err != nil {
		return nil, err
	}
	if b.Data = b.Data[:n]; err != nil {
		b.Error = err.Error()
	}
	return b, nil
}

// WriteText writes the bytes as mdb's dump does: sixteen a line, starting at a multiple
// of sixteen, with a mark above the first.
func (b *Bytes) WriteText(w io.Writer) error {
	const width = 16
	var text strings.Builder
	start := uint64(b.Address)
	mark := int(start % width)
	text.WriteString(dumpHeader(mark))
	for at := start - uint64(mark); at < start+uint64(len(b.Data)); at += width {
		var hex, ascii strings.Builder
		for i := range uint64(width) {
			if i%4 == 0 {
				hex.WriteByte(' ')
			}
			index := at + i - start
			if at+i < start || index >= uint64(len(b.Data)) {
				hex.WriteString("  ")
				ascii.WriteByte(' ')
				continue
			}
			c := b.Data[index]
			fmt.Fprintf(&hex, "%02x", c)
			if c < ' ' || c > '~' {
				c = '.'
			}
			ascii.WriteByte(c)
		}
		fmt.Fprintf(&text, "%12x: %s  %s\n", at, hex.String(), strings.TrimRight(ascii.String(), " "))
	}
	if b.Error != "" {
		fmt.Fprintf(&text, "<bad>: %s\n", b.Error)
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// dumpHeader numbers the columns and marks one.
func dumpHeader(mark int) string {
	const digits = "0123456789abcdef"
	var hex strings.Builder
	for i := range len(digits) {
		if i%4 == 0 {
			hex.WriteByte(' ')
		}
		if i == mark {
			hex.WriteString(`\/`)
		} else {
			hex.WriteString(" " + digits[i:i+1])
		}
	}
	return fmt.Sprintf("%12s  %s  %s\n", "", hex.String(), digits[:mark]+"v"+digits[mark+1:])
}

// A NodeBuffer says where the bytes of a Buffer, another view or an ArrayBuffer are.
type NodeBuffer struct {
	Object  Address `json:"object"`
	Address Address `json:"address"` // of the bytes; 0 if there are none
	Length  uint64  `json:"length"`  // in bytes
	OnHeap  bool    `json:"on_heap"`
	Bytes   *Bytes  `json:"bytes,omitempty"`
}

// NodeBuffer finds the bytes of the view or ArrayBuffer v, and reads them if requested.
func (d *Dump) NodeBuffer(v v8.Value, read bool) (*NodeBuffer, error) {
	h := d.Heap()
	o, err := h.Object(v)
	if err != nil {
		return nil, err
	}
	n := &NodeBuffer{Object: Address(v)}
	if o.Map.Kind == "JSArrayBuffer" {
		b, err := h.Buffer(o)
		if err != nil {
			return nil, err
		}
		n.Address, n.Length = Address(b.Address), b.Length
	} else {
		view, err := h.View(o)
		if err != nil {
			return nil, err
		}
		n.Address, n.Length, n.OnHeap = Address(view.Address), view.Bytes, view.OnHeap
	}
	if read && n.Length > 0 && n.Address != 0 {
		n.Bytes, err = d.Bytes(uint64(n.Address), min(n.Length, maxBytes))
	}
	return n, err
}

// WriteText writes the address, or the bytes.
func (n *NodeBuffer) WriteText(w io.Writer) error {
	if n.Bytes != nil {
		return n.Bytes.WriteText(w)
	}
	_, err := fmt.Fprintln(w, n.Address)
	return err
}

// Addresses returns where the bytes begin.
func (n *NodeBuffer) Addresses() []v8.Value { return []v8.Value{v8.Value(n.Address)} }

// Whatis describes what is at an address.
type Whatis struct {
	Address Address `json:"address"`
	Region  string  `json:"region,omitempty"` // the mapping that contains it: "heap", "stack of thread 42", a file
	Start   Address `json:"start,omitempty"`
	End     Address `json:"end,omitempty"`
	Symbol  string  `json:"symbol,omitempty"` // of code or data of a file
	Object  *Brief  `json:"object,omitempty"` // the V8 object that it is, or that contains it
	Offset  uint64  `json:"offset,omitempty"` // in that, in bytes
}

// Whatis finds out what is at an address, tagged or not.
func (d *Dump) Whatis(v v8.Value) (*Whatis, error) {
	w := &Whatis{Address: Address(v)}
	address := uint64(v)
	region, ok := d.Region(address)
	if !ok {
		return nil, errors.New("no memory there")
	}
	w.Region, w.Start, w.End = d.regionName(region), Address(region.Start), Address(region.End)
	if p, ok := d.Part(address); ok {
		if f := p.Native(address, address); f.Name != "" && f.Name != symbolize.Unknown {
			w.Symbol = f.Name
		}
		return w, nil
	}
	if d.v8.Heap == nil {
		return w, nil
	}
	if o, ok := heap.ObjectAround(d.v8.Heap, address, region.Start); ok {
		brief := value.BriefOf(d.v8.Heap, o.Ref())
		w.Object, w.Offset = &brief, address&^3-o.Address
	}
	return w, nil
}

// A V8Whatis says which object of V8's contains an address.
type V8Whatis struct {
	*Whatis
	Verbose bool `json:"-"` // WriteText writes all that is known, not only the object's address
}

// V8Whatis finds the V8 object that contains an address and begins at most back bytes
// before it; at any distance if back is 0.
func (d *Dump) V8Whatis(v v8.Value, back uint64) (*V8Whatis, error) {
	w, err := d.Whatis(v)
	switch {
	case err != nil:
		return nil, err
	case w.Object == nil:
		return nil, errors.New("in no object of V8's that is known")
	case back > 0 && w.Offset > back:
		return nil, fmt.Errorf("no object of V8's begins in the %d bytes before it", back)
	}
	return &V8Whatis{Whatis: w}, nil
}

// WriteText writes the object's address, or all that is known.
func (w *V8Whatis) WriteText(to io.Writer) error {
	if w.Verbose {
		return w.Whatis.WriteText(to)
	}
	_, err := fmt.Fprintln(to, w.Object.Address)
	return err
}

// regionName describes what a region is for.
func (d *Dump) regionName(r space.Region) string {
	if r.File != "" {
		return r.File
	}
	for _, t := range d.Threads() {
		if sp := t.Registers.SP; sp >= r.Start && sp < r.End {
			return fmt.Sprintf("stack of thread %d", t.TID)
		}
	}
	switch {
	case r.Exec:
		return "anonymous memory with code"
	case r.Write:
		return "anonymous memory"
	}
	return "anonymous memory, read-only"
}

// WriteText writes a line for each known fact.
func (w *Whatis) WriteText(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is ", w.Address)
	switch {
	case w.Object != nil && w.Offset == 0:
		fmt.Fprintf(&b, "%v", *w.Object)
	case w.Object != nil:
		fmt.Fprintf(&b, "at offset %d in %s (%v)", w.Offset, w.Object.Address, *w.Object)
	case w.Symbol != "":
		fmt.Fprintf(&b, "%s", w.Symbol)
	default:
		b.WriteString("nothing that is known")
	}
	fmt.Fprintf(&b, "\n%sin %s, %s to %s\n", indent, w.Region, w.Start, w.End)
	_, err := io.WriteString(to, b.String())
	return err
}

// Addresses returns the object's address, if there is one.
func (w *Whatis) Addresses() []v8.Value {
	if w.Object == nil {
		return nil
	}
	return []v8.Value{v8.Value(w.Object.Address)}
}
