// Package descriptors reads what the file descriptors of a process refer to: files,
// pipes, and sockets with their addresses. A List's binary form is for a core.
package descriptors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Bounds on what is read of one process.
const (
	maxDescriptors = 1 << 16 // open files; most processes may have 2^10 to 2^20
	maxName        = 1 << 12 // bytes of a path; the kernel's PATH_MAX
	maxNames       = 1 << 24 // bytes of all names together
	namesAtOnce    = 1 << 9  // entries of a directory between two checks of the context
)

// A Kind is what a descriptor refers to.
type Kind uint8

// Kinds of descriptors.
const (
	Unknown   Kind = iota // it could not be read
	File                  // anything with a path, such as a device
	Pipe                  // or FIFO without a name
	Socket                // see Descriptor.Socket
	Anonymous             // an object of the kernel without a path: eventfd, eventpoll, memfd …
)

// kinds are the names of the kinds.
var kinds = [...]string{"unknown", "file", "pipe", "socket", "anonymous"}

// String returns the kind as programs read it.
func (k Kind) String() string {
	if int(k) >= len(kinds) {
		k = Unknown
	}
	return kinds[k]
}

// A Descriptor is a file descriptor of a process.
type Descriptor struct {
	FD     int
	Kind   Kind
	Name   string    // the path in the process's mount namespace, any bytes; of a pipe or an anonymous object the kernel's name: "[eventpoll]"
	Socket *Endpoint // nil if it is no socket, or none of TCP, UDP or Unix that is bound, or could not be read

	inode uint64 // of a socket
}

// A List is the descriptors of a process, by number.
type List struct {
	All     []Descriptor
	Partial bool // some are missing, for lack of time or room
}

// Find returns the descriptor of that number.
func (l *List) Find(fd int) (Descriptor, bool) {
	i, found := slices.BinarySearchFunc(l.All, fd, func(d Descriptor, fd int) int { return cmp.Compare(d.FD, fd) })
	if !found {
		return Descriptor{}, false
	}
	return l.All[i], true
}

// Read reads the descriptors of the process pid, and in the process's network namespace what
// its sockets are connected to. Once ctx is done it returns what it has, as Partial. Nothing
// happens to the process.
func Read(ctx context.Context, pid int) (*List, error) {
	folder, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, fmt.Errorf("list the descriptors of process %d: %w", pid, err)
	}
	defer folder.Close()
	l := new(List)
	if err := l.readLinks(ctx, folder); err != nil {
		return nil, fmt.Errorf("list the descriptors of process %d: %w", pid, err)
	}
	slices.SortFunc(l.All, func(a, b Descriptor) int { return cmp.Compare(a.FD, b.FD) })
	l.readEndpoints(ctx, pid)
	return l, nil
}

// readLinks reads the links of a directory of descriptors.
func (l *List) readLinks(ctx context.Context, folder *os.File) error {
	buffer, bytes := make([]byte, maxName), 0
	for {
		names, err := folder.Readdirnames(namesAtOnce)
		for _, name := range names {
			if len(l.All) == maxDescriptors || bytes > maxNames || ctx.Err() != nil {
				l.Partial = true
				return nil
			}
			fd, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			n, err := unix.Readlinkat(int(folder.Fd()), name, buffer)
			if errors.Is(err, unix.ENOENT) {
				continue // closed meanwhile
			}
			d := describe(string(buffer[:max(n, 0)]))
			d.FD = fd
			bytes += len(d.Name)
			l.All = append(l.All, d)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// describe describes what a link in the directory of descriptors refers to.
func describe(link string) Descriptor {
	kind, what, _ := strings.Cut(link, ":")
	switch {
	case link == "":
		return Descriptor{}
	case kind == "/memfd":
		return Descriptor{Kind: Anonymous, Name: link}
	case strings.HasPrefix(kind, "/"):
		return Descriptor{Kind: File, Name: link}
	case kind == "socket":
		inode, _ := strconv.ParseUint(strings.Trim(what, "[]"), 10, 64) // 0: no socket has it
		return Descriptor{Kind: Socket, inode: inode}
	case kind == "pipe":
		return Descriptor{Kind: Pipe, Name: link}
	case kind == "anon_inode":
		return Descriptor{Kind: Anonymous, Name: what}
	}
	return Descriptor{Kind: Anonymous, Name: link}
}

// Between returns the descriptors that a process had at any time between two readings. What is
// not the same in both is Unknown, and of a socket what differs.
func Between(before, after *List) *List {
	l := &List{Partial: before.Partial || after.Partial}
	a, b := before.All, after.All
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].FD < b[0].FD:
			l.All = append(l.All, Descriptor{FD: a[0].FD})
			a = a[1:]
		case len(a) == 0 || b[0].FD < a[0].FD:
			l.All = append(l.All, Descriptor{FD: b[0].FD})
			b = b[1:]
		default:
			l.All = append(l.All, common(a[0], b[0]))
			a, b = a[1:], b[1:]
		}
	}
	return l
}

// common returns what is the same of two descriptors of one number.
func common(a, b Descriptor) Descriptor {
	if a.Kind != b.Kind || a.Name != b.Name || a.inode != b.inode {
		return Descriptor{FD: a.FD}
	}
	if a.Socket == nil || b.Socket == nil {
		a.Socket = nil
		return a
	}
	e := *a.Socket
	if e.State != b.Socket.State {
		e.State = 0
	}
	if e.Local != b.Socket.Local {
		e.Local = ""
	}
	if e.Remote != b.Socket.Remote {
		e.Remote = ""
	}
	a.Socket = &e
	return a
}
