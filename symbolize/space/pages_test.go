package space

import (
	"bytes"
	"io"
	"testing"
)

// A countedMemory has the same byte everywhere below limit, and counts reads.
type countedMemory struct {
	value byte
	limit uint64
	reads int
}

func (m *countedMemory) ReadAt(p []byte, address uint64) (int, error) {
	m.reads++
	n := min(len(p), int(max(m.limit, address)-address))
	copy(p, bytes.Repeat([]byte{m.value}, n))
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

const maxTestPages = 16

func TestPagesAreReadOnce(t *testing.T) {
	m := &countedMemory{value: 1, limit: 8*PageSize + 16}
	pages := NewPages(m, maxTestPages)
	for _, tt := range []struct {
		name    string
		address uint64
		length  int
		want    int // bytes
		reads   int
	}{
		{"a first word", PageSize, 8, 8, 1},
		{"the page's last word", 2*PageSize - 8, 8, 8, 0},
		{"the whole page", PageSize, PageSize, PageSize, 0},
		{"over two pages", 2*PageSize - 4, 8, 8, 1},
		{"more than a page", PageSize, PageSize + 1, PageSize + 1, 1},
		{"on a page of which only a part can be read", 8 * PageSize, 16, 16, 1},
		{"there again", 8 * PageSize, 16, 16, 0},
		{"over the end of the memory", 8 * PageSize, 17, 16, 1},
		{"after its end", 9 * PageSize, 8, 0, 2},
		{"nothing", PageSize, 0, 0, 0},
	} {
		m.reads = 0
		p := make([]byte, tt.length)
		n, err := pages.ReadAt(p, tt.address)
		if n != tt.want || (err != nil) != (n < tt.length) || m.reads != tt.reads {
			t.Errorf("%s: %d, %v after %d reads, want %d after %d", tt.name, n, err, m.reads, tt.want, tt.reads)
		}
		if !bytes.Equal(p[:n], bytes.Repeat([]byte{1}, n)) {
			t.Errorf("%s: read %v, want ones", tt.name, p[:n])
		}
	}
}

func TestPagesAreKeptUntilForgotten(t *testing.T) {
	m := &countedMemory{value: 1, limit: 1 << 40}
	pages := NewPages(m, maxTestPages)
	check := func(when string, want byte) {
		t.Helper()
		var got [1]byte
		if _, err := pages.ReadAt(got[:], PageSize); err != nil || got[0] != want {
			t.Errorf("read %d, %v %s, want %d", got[0], err, when, want)
		}
	}
	check("at first", 1)
	m.value = 2
	check("before pages are forgotten", 1)
	pages.Forget()
	check("once pages are forgotten", 2)
	m.value = 3
	if now := pages.Reread(PageSize); len(now) != PageSize || now[0] != 3 {
		t.Errorf("the page holds %d bytes of %d, want %d of 3", len(now), now[0], PageSize)
	}
	check("once the page was read again", 3)
	for i := range uint64(3 * maxTestPages) {
		if page := pages.Page(i * PageSize); len(page) != PageSize || len(pages.kept) > maxTestPages {
			t.Fatalf("page %d has %d bytes, and %d are kept, want %d and %d at most", i, len(page), len(pages.kept), PageSize, maxTestPages)
		}
	}
}
