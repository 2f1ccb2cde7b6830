package process

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const deleted = " (deleted)" // the kernel's suffix for the path of a removed file

// A Mapping is a range of a process's addresses and what is mapped there.
type Mapping struct {
	Start, End uint64 // End is exclusive
	Perms      Perms
	Offset     uint64 // of Start in the file
	Dev        uint64 // of the file, as unix.Mkdev makes it
	Inode      uint64 // 0 if there is no file
	Path       string // as the process's mount namespace names it; "[vdso]", "[heap]", …; may be empty
	Deleted    bool   // Path is no longer the file
}

// Anonymous reports whether the mapping is plain memory that the process
// allocated, with or without a name of its own ("[anon:v8]"). The initial heap
// and stack, which the kernel made, do not count.
func (m Mapping) Anonymous() bool {
	return m.Inode == 0 && (m.Path == "" || strings.HasPrefix(m.Path, "[anon:"))
}

// File reports whether the mapping maps a file.
func (m Mapping) File() bool { return m.Inode != 0 }

// Perms are a mapping's permissions.
type Perms uint8

const (
	permRead Perms = 1 << iota
	permWrite
	permExec
	permShared
)

// Read reports whether the mapping may be read.
func (p Perms) Read() bool { return p&permRead != 0 }

// Write reports whether it may be written to.
func (p Perms) Write() bool { return p&permWrite != 0 }

// Exec reports whether it may be executed.
func (p Perms) Exec() bool { return p&permExec != 0 }

// Shared reports whether writes reach the file and other processes.
func (p Perms) Shared() bool { return p&permShared != 0 }

// String returns the permissions as the kernel writes them, such as "r-xp".
func (p Perms) String() string {
	text := []byte("---p")
	for i, letter := range []byte("rwxs") {
		if p&(1<<i) != 0 {
			text[i] = letter
		}
	}
	return string(text)
}

// parseMaps reads the text of a maps file.
func parseMaps(text []byte) ([]Mapping, error) {
	var all []Mapping
	for line := range strings.Lines(string(text)) {
		m, err := parseMapping(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return nil, fmt.Errorf("read mapping %q: %w", line, err)
		}
		all = append(all, m)
	}
	return all, nil
}

// parseMapping parses a line: "start-end perms offset major:minor inode path",
// all hexadecimal except the inode. The path is padded with spaces.
func parseMapping(line string) (m Mapping, err error) {
	addresses, rest, _ := strings.Cut(line, " ")
	perms, rest, _ := strings.Cut(rest, " ")
	offset, rest, _ := strings.Cut(rest, " ")
	device, rest, _ := strings.Cut(rest, " ")
	inode, path, _ := strings.Cut(rest, " ")
	start, end, _ := strings.Cut(addresses, "-")
	major, minor, _ := strings.Cut(device, ":")

	var n numbers
	m.Start, m.End = n.parse(start, 16), n.parse(end, 16)
	m.Offset = n.parse(offset, 16)
	m.Dev = unix.Mkdev(uint32(n.parse(major, 16)), uint32(n.parse(minor, 16)))
	m.Inode = n.parse(inode, 10)
	if n.err != nil {
		return Mapping{}, n.err
	}
	if m.End < m.Start {
		return Mapping{}, fmt.Errorf("ends at %#x, before it starts", m.End)
	}
	m.Path = strings.TrimLeft(path, " ")
	if m.Inode != 0 {
		m.Path, m.Deleted = strings.CutSuffix(m.Path, deleted)
		m.Path = strings.ReplaceAll(m.Path, `\012`, "\n") // the one byte that the kernel escapes
	}
	for i, letter := range []byte("rwxs") {
		if i < len(perms) && perms[i] == letter {
			m.Perms |= 1 << i
		}
	}
	return m, nil
}

// numbers parses several numbers and keeps the first error.
type numbers struct{ err error }

func (n *numbers) parse(text string, base int) uint64 {
	value, err := strconv.ParseUint(text, base, 64)
	if n.err == nil {
		n.err = err
	}
	return value
}
