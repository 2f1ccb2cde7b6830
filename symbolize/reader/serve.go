package reader

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ustack/symbolize/contain"
	"ustack/symbolize/perfmap"
	"ustack/symbolize/process"
)

// maxRead bounds one read: the other process is trusted, its arithmetic need not
// be.
const maxRead = 1 << 20

// Messages between the two processes.
type (
	// A Request names a file: by a mapping, as a process's perf map, or by its
	// path below a root folder or our own root.
	Request struct {
		PID     int
		Mapping process.Mapping
		PerfMap bool
		Root    string
		Path    string
	}
	// An Outcome is nothing, or an error.
	Outcome struct {
		Text  string // empty: no error
		Cause Cause
	}
	Opened struct { // a file
		Outcome
		ID    int  // its descriptor in the helper
		Local bool // reading it needs no server
		Owner int  // a user's number
		Mode  os.FileMode
	}
	Range struct { // to read
		ID     int
		Offset int64
		Length int
	}
	Part struct { // of a file, short at its end
		Outcome
		Data []byte
	}
	Size struct { // of a file
		Outcome
		Bytes int64
	}
)

// A Cause is a kind of error that callers distinguish.
type Cause int

const (
	other Cause = iota
	notExist
	gone
	permission
)

var causes = map[Cause]error{notExist: os.ErrNotExist, gone: process.ErrGone, permission: process.ErrPermission}

// outcome converts err for sending.
func outcome(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	o := Outcome{Text: err.Error()}
	for cause, sentinel := range causes {
		if errors.Is(err, sentinel) {
			o.Cause = cause
		}
	}
	return o
}

func (o Outcome) error() error {
	if o.Text == "" {
		return nil
	}
	return &answered{o.Text, causes[o.Cause]}
}

// answered is an error that the helper returned.
type answered struct {
	text  string
	cause error // a sentinel, or nil
}

func (a *answered) Error() string { return a.text }
func (a *answered) Unwrap() error { return a.cause }

// Files are the files that the helper has open.
type Files struct {
	mutex sync.Mutex
	open  map[int]*os.File
}

// serve answers requests until the connection is closed.
func serve(conn net.Conn) {
	server := rpc.NewServer()
	if err := server.Register(&Files{open: make(map[int]*os.File)}); err != nil {
		panic(err) // rpc rejects its methods
	}
	server.ServeConn(conn)
}

// Open opens a file.
func (f *Files) Open(r Request, reply *Opened) error {
	file, err := open(r)
	reply.Outcome = outcome(err)
	if err != nil {
		return nil
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	reply.ID = int(file.Fd())
	reply.Local = isLocal(reply.ID)
	reply.Owner, reply.Mode = owner(file)
	f.open[reply.ID] = file
	return nil
}

// owner returns the owner and the mode of a file; nobody's and 0 if they are not known.
func owner(file *os.File) (user int, mode os.FileMode) {
	info, err := file.Stat()
	if err != nil {
		return nobody, 0
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nobody, 0
	}
	return int(stat.Uid), info.Mode()
}

const nobody = -1 // no user's number

// localTypes are the file systems (statfs f_type) that depend only on a block
// device or memory. Overlay file systems are not included: their layers may be
// anywhere.
var localTypes = []int64{
	unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC,
	unix.SQUASHFS_MAGIC, unix.EROFS_SUPER_MAGIC_V1, unix.TMPFS_MAGIC,
}

func isLocal(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && slices.Contains(localTypes, fs.Type)
}

func open(r Request) (file *os.File, err error) {
	defer contain.Panic(&err, "open a file of process %d", r.PID)
	if r.Root != "" {
		return process.OpenBelow(r.Root, r.Path)
	}
	if r.Path != "" {
		return openRegular(r.Path)
	}
	p, err := process.Open(r.PID)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	if r.PerfMap {
		return openPerfMap(p)
	}
	return p.OpenFile(r.Mapping)
}

// openRegular opens a regular file: opening any other may block forever or have
// side effects.
func openRegular(path string) (*os.File, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, fmt.Errorf("open %s: not a regular file", path)
	}
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
}

func openPerfMap(p *process.Process) (*os.File, error) {
	pid, err := p.NamespacePID()
	if err != nil {
		return nil, err
	}
	uid, err := p.UID()
	if err != nil {
		return nil, err
	}
	root, err := p.Root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return perfmap.OpenFile(root, pid, uid)
}

func (f *Files) file(id int) (*os.File, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if file, ok := f.open[id]; ok {
		return file, nil
	}
	return nil, os.ErrClosed
}

// Read reads part of a file.
func (f *Files) Read(r Range, reply *Part) error {
	file, err := f.file(r.ID)
	if err != nil || r.Length < 0 || r.Length > maxRead {
		return errors.Join(err, errors.New("no such part"))
	}
	data := make([]byte, r.Length)
	n, err := file.ReadAt(data, r.Offset)
	if errors.Is(err, io.EOF) {
		err = nil // a short read
	}
	reply.Data, reply.Outcome = data[:n], outcome(err)
	return nil
}

// Size returns the length of a file.
func (f *Files) Size(id int, reply *Size) error {
	file, err := f.file(id)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	reply.Outcome = outcome(err)
	if err == nil {
		reply.Bytes = info.Size()
	}
	return nil
}

// Reopen opens a file again, which requires its server to answer.
func (f *Files) Reopen(id int, reply *Outcome) error {
	again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", id))
	if err == nil {
		err = again.Close()
	}
	*reply = outcome(err)
	return nil
}

// Close closes a file.
func (f *Files) Close(id int, _ *struct{}) error {
	f.mutex.Lock()
	file, ok := f.open[id]
	delete(f.open, id)
	f.mutex.Unlock()
	if !ok {
		return os.ErrClosed
	}
	return file.Close()
}
