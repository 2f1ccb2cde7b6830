package process

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	maxStatus = 1 << 20  // bytes; the kernel writes about one KiB
	maxMaps   = 64 << 20 // bytes; 65,530 mappings, the usual limit, take some 6 MB
)

// Comm is the process's short name: the program's, unless the process changed it.
// At most 15 bytes, of any value.
func (p *Process) Comm() (string, error) {
	comm, err := p.read("comm", maxStatus)
	if err != nil {
		return "", p.fault("read name of", err)
	}
	return strings.TrimSuffix(string(comm), "\n"), nil
}

// Exe is the path of the program in the process's own mount namespace; the file
// may have been removed or replaced.
func (p *Process) Exe() (string, error) {
	path := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(p.dir, "exe", path)
	if err != nil {
		return "", p.fault("read program of", err)
	}
	return strings.TrimSuffix(string(path[:n]), deleted), nil
}

// NamespacePID is the process's PID in its innermost PID namespace.
func (p *Process) NamespacePID() (int, error) {
	all, err := p.status("NSpid")
	if err != nil {
		return 0, err
	}
	numbers := strings.Fields(all)
	if len(numbers) == 0 {
		return 0, fmt.Errorf("read status of process %d: NSpid is empty", p.pid)
	}
	return strconv.Atoi(numbers[len(numbers)-1])
}

// Inside is NamespacePID if it differs from PID, as in a container; else 0, also if it
// cannot be read.
func (p *Process) Inside() int {
	if n, err := p.NamespacePID(); err == nil && n != p.pid {
		return n
	}
	return 0
}

// UID is the effective user ID of the process, as our user namespace maps it.
func (p *Process) UID() (int, error) {
	all, err := p.status("Uid") // real, effective, saved, for files
	if err != nil {
		return 0, err
	}
	numbers := strings.Fields(all)
	if len(numbers) < 2 {
		return 0, fmt.Errorf("read status of process %d: user %q", p.pid, all)
	}
	return strconv.Atoi(numbers[1])
}

// Parent is the PID of the process's parent, or 0 if our PID namespace does not have it.
func (p *Process) Parent() (int, error) {
	number, err := p.status("PPid")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(number)
}

// IsKernel reports whether the process is one of the kernel's own threads, which have no memory: those
// are children of process 2. It is false for them outside the initial PID namespace, where none is seen.
func (p *Process) IsKernel() bool {
	const kthreadd = 2
	parent, err := p.Parent()
	return p.pid == kthreadd || err == nil && parent == kthreadd
}

// Root opens the process's root folder with O_PATH. Callers that open files below
// it must keep symbolic links from leading out of it (openat2).
func (p *Process) Root() (*os.File, error) {
	root, err := p.open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return nil, p.fault("open root of", err)
	}
	return root, nil
}

// Maps returns the process's mappings, by address. The kernel writes the list
// page by page: a mapping made meanwhile may be missing.
func (p *Process) Maps() ([]Mapping, error) {
	text, err := p.read("maps", maxMaps)
	if err == nil && !p.Alive() {
		err = unix.ESRCH // the text may be incomplete
	}
	if err != nil {
		return nil, p.fault("read maps of", err)
	}
	return parseMaps(text)
}

// status returns a field of the status file.
func (p *Process) status(name string) (string, error) {
	text, err := p.read("status", maxStatus)
	if err != nil {
		return "", p.fault("read status of", err)
	}
	value, ok := field(text, name)
	if !ok {
		return "", fmt.Errorf("read status of process %d: no %s", p.pid, name)
	}
	return value, nil
}

// read returns a whole file from the process's folder.
func (p *Process) read(name string, limit int64) ([]byte, error) {
	f, err := p.open(name, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(text)) > limit {
		err = fmt.Errorf("%s is longer than %d bytes", name, limit)
	}
	return text, err
}

// open opens a file in the process's folder.
func (p *Process) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(p.dir, name, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), fmt.Sprintf("/proc/%d/%s", p.pid, name)), nil
}
