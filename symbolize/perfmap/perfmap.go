// Package perfmap reads perf maps: the files in which runtimes that compile as
// they go, such as node --perf-basic-prof, say which code is where. Each line is
// "START SIZE NAME", both numbers hexadecimal; it is appended when code is made.
//
// The file lies in /tmp and is as true as who wrote it. So nothing but a regular
// file of root's or the process's own user is read, and not without end.
package perfmap

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/symbolize/internal/interval"
)

// Limits. A large node service writes some 100,000 lines of 100 bytes.
const (
	maxFile    = 256 << 20 // bytes
	maxLine    = 4 << 10   // bytes; a longer line is skipped
	maxEntries = 1 << 20
	chunk      = 64 << 10 // bytes read at once
	maxNames   = 64 << 20 // bytes of all names
)

// A Map is what a perf map said when it was read last. It must not be used
// concurrently.
type Map struct {
	file Source // nil if the Map was made of a reader
	r    *bufio.Reader

	size    int64  // bytes read so far
	line    []byte // a line that is not all there yet
	long    bool   // and is too long
	skipped int

	entries []entry // in the file's order
	names   []byte
	index   interval.Map // address to index in entries
}

// An entry is one line.
type entry struct {
	start, end   uint64
	name, length uint32 // in names
}

// A Symbol is what the map says of some code.
type Symbol struct {
	Name        string // as written, any bytes: for node with a kind and a tier in front ("JS:*f file.js:1:2")
	Start, Size uint64
}

// A Source is a file that grows while it is read.
type Source interface {
	ReadNew(p []byte, offset int64) (int, error) // as io.ReaderAt, but may read less
	Size() (int64, error)
	Close() error
}

// OpenFile opens the perf map of a process, which it names by its PID in its own
// namespace, below the process's root folder. The file must belong to root or to
// uid. An error that is os.ErrNotExist means that the process writes none. The root
// stays the caller's.
func OpenFile(root *os.File, pid, uid int) (*os.File, error) {
	path := fmt.Sprintf("tmp/perf-%d.map", pid)
	f, err := open(root, path, uid)
	if err != nil {
		return nil, fmt.Errorf("open /%s of the process: %w", path, err)
	}
	return f, nil
}

// Open reads a perf map. The Map's Close closes the file; if Open fails it stays
// the caller's.
func Open(file Source) (*Map, error) {
	m := New(&cursor{file: file})
	m.file = file
	return m, m.Refresh()
}

// A cursor reads a source from its start.
type cursor struct {
	file Source
	at   int64
}

func (c *cursor) Read(p []byte) (int, error) {
	n, err := c.file.ReadNew(p, c.at)
	c.at += int64(n)
	return n, err
}

// open opens a regular file of root's or uid's. No link leads out of root, the
// last part of path is none, and nothing else is opened even to look at it.
func open(root *os.File, path string, uid int) (*os.File, error) {
	fd, err := unix.Openat2(int(root.Fd()), path, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("not a regular file")
	}
	if stat.Uid != 0 && int64(stat.Uid) != int64(uid) {
		return nil, fmt.Errorf("it belongs to user %d, not to root or to the process's user %d", stat.Uid, uid)
	}
	opened, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(opened), "/"+path), nil
}

// New returns a Map of what r has, empty until Refresh.
func New(r io.Reader) *Map {
	return &Map{r: bufio.NewReaderSize(r, chunk)}
}

// Close closes the file that Open opened. The Map can still be looked at.
func (m *Map) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// Refresh reads what was appended since; a last line without its end waits for
// it. A file that has become shorter was begun anew, and so is the Map. Where
// the map is larger than is sensible the rest is left unread, with an error;
// what was read stays.
func (m *Map) Refresh() error {
	if err := m.restart(); err != nil {
		return fmt.Errorf("read perf map: %w", err)
	}
	before := len(m.entries)
	err := m.read()
	if len(m.entries) > before {
		spans := make([]interval.Span, len(m.entries))
		for i, e := range m.entries {
			spans[i] = interval.Span{Start: e.start, End: e.end, Ref: uint32(i)}
		}
		m.index = interval.New(spans)
	}
	if err != nil {
		return fmt.Errorf("read perf map: %w", err)
	}
	return nil
}

// Lookup returns the code that holds address: where lines overlap, the last.
func (m *Map) Lookup(address uint64) (Symbol, bool) {
	i, ok := m.index.Lookup(address)
	if !ok {
		return Symbol{}, false
	}
	e := m.entries[i]
	return Symbol{Name: string(m.names[e.name : e.name+e.length]), Start: e.start, Size: e.end - e.start}, true
}

// Skipped counts the lines that made no sense.
func (m *Map) Skipped() int { return m.skipped }

// restart forgets everything if the file is shorter than what was read of it.
func (m *Map) restart() error {
	if m.file == nil {
		return nil
	}
	size, err := m.file.Size()
	if err != nil || size >= m.size {
		return err
	}
	m.r.Reset(&cursor{file: m.file})
	*m = Map{file: m.file, r: m.r, skipped: m.skipped}
	return nil
}

// read takes lines until there are no more.
func (m *Map) read() error {
	for {
		if m.size >= maxFile || len(m.entries) >= maxEntries || len(m.names) >= maxNames {
			return fmt.Errorf("it goes on after %d bytes and %d lines, too much to read", m.size, len(m.entries))
		}
		part, err := m.r.ReadSlice('\n')
		m.size += int64(len(part))
		if len(m.line)+len(part) > maxLine {
			m.long = true
			m.line = m.line[:0]
		} else if !m.long {
			m.line = append(m.line, part...)
		}
		switch {
		case err == nil:
			if m.long || !m.add(bytes.TrimSuffix(m.line, []byte("\n"))) {
				m.skipped++
			}
			m.line, m.long = m.line[:0], false
		case err == io.EOF:
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// add takes one line and reports whether it made sense.
func (m *Map) add(line []byte) bool {
	first, rest, _ := bytes.Cut(line, []byte(" "))
	second, name, ok := bytes.Cut(rest, []byte(" "))
	start, startErr := number(first)
	size, sizeErr := number(second)
	if !ok || len(name) == 0 || startErr != nil || sizeErr != nil || size == 0 || size > math.MaxUint64-start {
		return false
	}
	m.entries = append(m.entries, entry{start, start + size, uint32(len(m.names)), uint32(len(name))})
	m.names = append(m.names, name...)
	return true
}

// number parses a hexadecimal number, with "0x" in front or without.
func number(text []byte) (uint64, error) {
	return strconv.ParseUint(string(bytes.TrimPrefix(text, []byte("0x"))), 16, 64)
}
