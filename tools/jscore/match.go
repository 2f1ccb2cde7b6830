package jscore

import (
	"context"
	"errors"
	"fmt"
	"io"

	"ustack/symbolize/v8"
)

// A Match is a number to find in memory.
type Match struct {
	Size        int // bytes: 1 to 8
	Value, Mask uint64
}

// A Matched is where a number was found.
type Matched struct {
	Address Address `json:"address"`
	label   string
}

const searchChunk = 1 << 20 // bytes, a multiple of a Match's sizes

// FindNumber finds the first number at address, or at a multiple of its size above that, in memory
// without a gap.
func (d *Dump) FindNumber(ctx context.Context, m Match, address uint64) (*Matched, error) {
	b := make([]byte, searchChunk)
	if n, err := d.ReadAt(b[:m.Size], address); n < m.Size {
		return nil, err
	}
	value := m.Value & (1<<(8*m.Size-1)<<1 - 1) // of its low bytes
	for at := address; ; at += searchChunk {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, _ := d.ReadAt(b, at) // where memory ends, the search does
		for i := 0; i+m.Size <= n; i += m.Size {
			if low(b[i:i+m.Size])&m.Mask == value {
				found := at + uint64(i)
				return &Matched{Address(found), d.label(found)}, nil
			}
		}
		if n < len(b) || at > ^uint64(searchChunk) {
			return nil, fmt.Errorf("%w from there to %x, where memory ends", errNoMatch, at+uint64(n))
		}
	}
}

var errNoMatch = errors.New("no such number")

// WriteText writes the address.
func (m *Matched) WriteText(w io.Writer) error {
	_, err := fmt.Fprintln(w, m.label)
	return err
}

// Addresses returns the address.
func (m *Matched) Addresses() []v8.Value { return []v8.Value{v8.Value(m.Address)} }
