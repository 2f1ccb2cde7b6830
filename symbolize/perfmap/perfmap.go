// Package perfmap reads perf maps: files in which runtimes with a just-in-time
// compiler, such as node --perf-basic-prof, record where their code is. Each line
// is "START SIZE NAME", both numbers hexadecimal; the runtime appends a line when
// it makes code.
//
// The file is in /tmp and only as trustworthy as whoever wrote it. So the package
// reads only regular files owned by root or by the process's user, and limits how
// much it reads.
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

// A Map is the content of a perf map when it was last read. It must not be used
// concurrently.
type Map struct {
	file Source // nil if the Map was made from a reader
	r    *bufio.Reader

	size    int64  // bytes read so far
	line    []byte // an incomplete line
	long    bool   // the incomplete line is too long
	skipped int

	entries []entry // in the file's order
	names   []byte
	index   interval.Map // maps an address to an index in entries
}

// An entry is one line.
type entry struct {
	start, end   uint64
	name, length uint32 // in names
}

// A Symbol describes a range of code in the map.
type Symbol struct {
	Name        string // as written, any bytes: node prefixes a kind and a tier ("JS:*f file.js:1:2")
	Start, Size uint64
}

// A Source is a file that grows while it is read.
type Source interface {
	ReadNew(p []byte, offset int64) (int, error) // as io.ReaderAt, but may read less
	Size() (int64, error)
	Close() error
}

// OpenFile opens the perf map of a process, which is named by the PID in the
// process's own namespace, below the process's root folder. The file must belong
// to root or to uid. An error that is os.ErrNotExist means that the process
// writes none. The caller still owns root.
func OpenFile(root *os.File, pid, uid int) (*os.File, error) {
	path := fmt.Sprintf("tmp/perf-%d.map", pid)
	f, err := open(root, path, uid)
	if err != nil {
		return nil, fmt.Errorf("open /%s of the process: %w", path, err)
	}
	return f, nil
}

// Open reads a perf map. The Map's Close closes the file; if Open fails, the
// caller still owns it.
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

// open opens a regular file that belongs to root or to uid. No link leads out of
// root, the last element of path must not be a link, and no other kind of file is
// opened, not even to inspect it.
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

// New returns a Map of the perf map in r, empty until Refresh.
func New(r io.Reader) *Map {
	return &Map{r: bufio.NewReaderSize(r, chunk)}
}

// Close closes the file that Open opened. The Map can still be used for lookups.
func (m *Map) Close() error {
	if m.file == nil {
		return nil
	}
	return m.file.Close()
}

// Refresh reads what was appended since the last call; an incomplete last line is
// kept for the next. A file that has become shorter was rewritten, so the Map
// starts from scratch. If the file exceeds the limits, Refresh leaves the rest
// unread and returns an error; what was read is kept.
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

// Lookup returns the code that holds address. Where lines overlap, the last wins.
func (m *Map) Lookup(address uint64) (Symbol, bool) {
	i, ok := m.index.Lookup(address)
	if !ok {
		return Symbol{}, false
	}
	e := m.entries[i]
	return Symbol{Name: string(m.names[e.name : e.name+e.length]), Start: e.start, Size: e.end - e.start}, true
}

// Skipped returns the number of malformed lines.
func (m *Map) Skipped() int { return m.skipped }

// restart discards everything if the file is shorter than what was read from it.
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

// read reads lines until the end of the file.
func (m *Map) read() error {
	for {
		if m.size >= maxFile || len(m.entries) >= maxEntries || len(m.names) >= maxNames {
			return fmt.Errorf("it continues after %d bytes and %d lines, too much to read", m.size, len(m.entries))
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

// add parses one line and reports whether it is well formed.
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

// number parses a hexadecimal number, with or without a "0x" prefix.
func number(text []byte) (uint64, error) {
	return strconv.ParseUint(string(bytes.TrimPrefix(text, []byte("0x"))), 16, 64)
}
