package verify

import (
	"errors"
	"io"
	"testing"

	"ustack/symbolize/space"
)

var errWrong = errors.New("wrong")

// A changingMemory has, in each byte, the number of the page that the byte is in. Every
// read of one page returns something else.
type changingMemory struct {
	size     uint64
	changing uint64 // address of the page that changes
	reads    int
}

func (m *changingMemory) ReadAt(p []byte, address uint64) (int, error) {
	m.reads++
	for i := range p {
		at := address + uint64(i)
		if at >= m.size {
			return i, io.ErrUnexpectedEOF
		}
		p[i] = byte(at / space.PageSize)
		if at&^(space.PageSize-1) == m.changing {
			p[i] = byte(m.reads)
		}
	}
	return len(p), nil
}

func (m *changingMemory) Regions() []space.Region { return []space.Region{{End: m.size, Write: true}} }

func (m *changingMemory) NextData(address uint64) (uint64, bool) { return address, address < m.size }

const noPage = 1 << 40

func TestPageIsReadOnce(t *testing.T) {
	m := &changingMemory{size: 3*space.PageSize + 100, changing: noPage}
	s := newSteadyMemory(m)
	for at := uint64(space.PageSize); at < 2*space.PageSize; at += 8 {
		var word [8]byte
		if n, err := s.ReadAt(word[:], at); n != len(word) || err != nil || word != [8]byte{1, 1, 1, 1, 1, 1, 1, 1} {
			t.Fatalf("read at %#x = %d, %v, %v, want the word of page 1", at, n, err, word)
		}
	}
	if m.reads != 1 {
		t.Errorf("reads = %d, want 1", m.reads)
	}
}

func TestReadsAreThoseOfTheMemory(t *testing.T) {
	m := &changingMemory{size: 3*space.PageSize + 100, changing: noPage}
	s := newSteadyMemory(m)
	for _, tt := range []struct {
		name    string
		address uint64
		length  int
		want    int
	}{
		{"over two pages", space.PageSize - 4, 8, 8},
		{"over four pages", space.PageSize - 4, 2*space.PageSize + 8, 2*space.PageSize + 8},
		{"in the last page", 3*space.PageSize + 90, 10, 10},
		{"up to the end", 3*space.PageSize + 90, 20, 10},
		{"after the end", 3*space.PageSize + 100, 8, 0},
		{"in no page", 5 * space.PageSize, 8, 0},
		{"of nothing", 0, 0, 0},
	} {
		p := make([]byte, tt.length)
		n, err := s.ReadAt(p, tt.address)
		if n != tt.want || (err != nil) != (n < tt.length) {
			t.Errorf("read %s = %d, %v, want %d bytes", tt.name, n, err, tt.want)
		}
		for i, b := range p[:n] {
			if want := byte((tt.address + uint64(i)) / space.PageSize); b != want {
				t.Fatalf("read %s: byte %d = %d, want %d", tt.name, i, b, want)
			}
		}
	}
}

func TestExaminationOfChangingMemoryIsNotSteady(t *testing.T) {
	for _, tt := range []struct {
		name     string
		changing uint64
		read     uint64
		fails    int // attempts that fail
		steady   bool
		err      error
		tries    int
	}{
		{"succeeds", noPage, 0, 0, true, nil, 1},
		{"fails on steady memory", noPage, 0, maxTries, true, errWrong, 1},
		{"fails on memory that changes", 0, 0, maxTries, false, nil, maxTries},
		{"fails where other memory changes", 0, space.PageSize, maxTries, true, errWrong, 1},
		{"succeeds on memory that has changed", 0, 0, 2, true, nil, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSteadyMemory(&changingMemory{size: 4 * space.PageSize, changing: tt.changing})
			tries := 0
			steady, err := s.examine(func() error {
				var word [8]byte
				if _, err := s.ReadAt(word[:], tt.read); err != nil {
					t.Fatal(err)
				}
				if tries++; tries <= tt.fails {
					return errWrong
				}
				return nil
			})
			if steady != tt.steady || !errors.Is(err, tt.err) || tries != tt.tries {
				t.Errorf("steady = %v, error %v after %d tries, want %v, %v, %d", steady, err, tries, tt.steady, tt.err, tt.tries)
			}
		})
	}
}

// TestChangedPageIsReadAgain: once a check has failed, the next try reads what the memory
// has now, not what was read before.
func TestChangedPageIsReadAgain(t *testing.T) {
	m := &changingMemory{size: space.PageSize}
	s := newSteadyMemory(m)
	var read []byte
	if steady, err := s.examine(func() error {
		var b [1]byte
		if _, err := s.ReadAt(b[:], 0); err != nil {
			t.Fatal(err)
		}
		read = append(read, b[0])
		return errWrong
	}); steady || err != nil {
		t.Errorf("examine = %v, %v, want that it is not steady", steady, err)
	}
	for i, b := range read {
		if int(b) != i+1 {
			t.Errorf("tries read %v, want what each read of the memory returns", read)
			break
		}
	}
}

func TestSteadyMemoryIsBounded(t *testing.T) {
	const pages = maxPages + maxPages/2
	s := newSteadyMemory(&changingMemory{size: pages * space.PageSize, changing: noPage})
	for i := range uint64(pages) {
		var b [1]byte
		if _, err := s.ReadAt(b[:], i*space.PageSize); err != nil || b[0] != byte(i) {
			t.Fatalf("read of page %d = %d, %v", i, b[0], err)
		}
		if len(s.used) > maxReads {
			t.Fatalf("after %d pages, %d are used, want at most %d", i+1, len(s.used), maxReads)
		}
	}
}
