// Package reader opens and reads the files of targets in a separate process.
//
// A file may be on a server that does not answer: FUSE or NFS. A process that
// opens, reads or even closes such a file then blocks in the kernel, perhaps
// forever, immune to SIGKILL, and cannot exit. So only a helper process touches
// these files; when we exit, it is abandoned. A request that it does not answer
// in time is an error, and no more requests go to that file system. A file that
// the helper has found on a local disk or in memory is then read directly, which
// is several times faster.
package reader

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"ustack/symbolize/process"
)

// ErrUnresponsive means that a file system did not answer in time.
var ErrUnresponsive = errors.New("its file system does not answer (a dead FUSE or network file server?)")

// Limits on waiting. A healthy network file system answers in milliseconds, a
// busy machine's disk in a second.
const (
	patience     = 5 * time.Second
	lastPatience = 250 * time.Millisecond // while shutting down
	endPatience  = 200 * time.Millisecond // for the helper to exit
	maxStuck     = 8                      // abandoned requests at one time
	maxLast      = 2                      // of those while shutting down
)

// A Reader opens and reads files. The zero Reader is ready to use; its methods
// may be called concurrently.
type Reader struct {
	start  sync.Once
	client *rpc.Client
	pid    int // of the process that opens the files
	err    error
	ended  chan struct{} // closed when the helper has exited; nil without a helper

	hurry  context.Context
	mutex  sync.Mutex
	closed bool
	stuck  int
	last   int            // stuck while shutting down
	dead   map[uint64]int // by device: abandoned requests
}

// serves is set once Serve has been called: without that call a helper would run
// its whole program.
var serves atomic.Bool

// helperName is the helper's name, by which it recognizes itself.
const helperName = "ustack-files"

// Serve makes this process a helper if it was started as one. A program calls it
// first. In a program that does not, files are read in-process.
func Serve() {
	if os.Args[0] != helperName {
		serves.Store(true)
		return
	}
	const socket = 3
	conn, err := net.FileConn(os.NewFile(socket, "requests"))
	if err != nil {
		os.Exit(1)
	}
	serve(conn) // until the other process ends or closes it
	os.Exit(0)
}

// Hurry shortens all waits once ctx ends. It must be called before the first file
// is opened.
func (r *Reader) Hurry(ctx context.Context) { r.hurry = ctx }

// Close stops the helper. It does not wait for a helper that cannot exit.
func (r *Reader) Close() error {
	r.start.Do(func() { r.err = errors.New("closed") })
	r.mutex.Lock()
	closed := r.closed || r.client == nil
	r.closed = true
	r.mutex.Unlock()
	if closed {
		return nil
	}
	err := r.client.Close()
	if r.ended != nil {
		select {
		case <-r.ended:
		case <-time.After(endPatience):
		}
	}
	return err
}

// begin starts the helper.
func (r *Reader) begin() {
	r.dead = make(map[uint64]int)
	if r.hurry == nil {
		r.hurry = context.Background()
	}
	if !serves.Load() {
		ours, theirs := net.Pipe()
		go serve(theirs)
		r.client, r.pid = rpc.NewClient(ours), os.Getpid()
		return
	}
	if err := r.fork(); err != nil {
		r.err = fmt.Errorf("start the process that reads files: %w", err)
	}
}

// fork starts our own program as the helper. It shares only a socket with us, so
// that nothing that waits for our exit or our output waits for the helper.
func (r *Reader) fork() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	own, other := os.NewFile(uintptr(pair[0]), "requests"), os.NewFile(uintptr(pair[1]), "requests")
	defer own.Close()
	defer other.Close()
	conn, err := net.FileConn(own)
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{helperName}, Dir: "/", Env: []string{"GOMAXPROCS=2"},
		ExtraFiles:  []*os.File{other},
		SysProcAttr: &unix.SysProcAttr{Setsid: true}, // it must not get the terminal's signals
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, conn.Close())
	}
	r.client, r.pid, r.ended = rpc.NewClient(conn), cmd.Process.Pid, make(chan struct{})
	go func() {
		defer close(r.ended)
		_ = cmd.Wait() // its exit status does not matter
	}()
	return nil
}

// Mapped opens the file that m shows in p: process.OpenFile.
func (r *Reader) Mapped(p *process.Process, m process.Mapping) (*File, error) {
	return r.open(m.Path, Request{PID: p.PID(), Mapping: m}, m.Dev)
}

// PerfMap opens the perf map of p: perfmap.OpenFile.
func (r *Reader) PerfMap(p *process.Process) (*File, error) {
	f, err := r.open("perf map", Request{PID: p.PID(), PerfMap: true}, 0)
	if err == nil && !p.Alive() { // its PID may have been reused
		f.Close()
		return nil, fmt.Errorf("process %d: %w", p.PID(), process.ErrGone)
	}
	return f, err
}

// Below opens the regular file at path below a root folder, which no link leads
// out of. The caller still owns root.
func (r *Reader) Below(root *os.File, path string) (*File, error) {
	defer runtime.KeepAlive(root)
	folder := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), root.Fd())
	return r.open(path, Request{Root: folder, Path: path}, 0)
}

// Open opens the regular file at path.
func (r *Reader) Open(path string) (*File, error) {
	return r.open(path, Request{Path: path}, 0)
}

func (r *Reader) open(name string, request Request, device uint64) (*File, error) {
	var opened Opened
	late := func() { r.client.Go("Files.Close", opened.ID, new(struct{}), make(chan *rpc.Call, 1)) }
	if err := r.call("Files.Open", request, &opened, device, late); err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	if err := opened.error(); err != nil {
		return nil, err
	}
	f := &File{reader: r, name: name, id: opened.ID, device: device, owner: opened.Owner, mode: opened.Mode}
	if opened.Local {
		f.openDirect()
	}
	return f, nil
}

// call sends a request to the helper. If the reply comes too late, late is
// called, unless nil. The reply must not be used after an error.
func (r *Reader) call(method string, request, reply any, device uint64, late func()) error {
	r.start.Do(r.begin)
	if r.err != nil {
		return r.err
	}
	if err := r.mayAsk(device); err != nil {
		return err
	}
	call := r.client.Go(method, request, reply, make(chan *rpc.Call, 1))
	timer := time.NewTimer(patience)
	defer timer.Stop()
	hurry := r.hurry.Done()
	for {
		select {
		case <-call.Done:
			return call.Error
		case <-hurry:
			hurry = nil
			timer.Reset(lastPatience)
		case <-timer.C:
			r.abandon(call, device, late)
			return ErrUnresponsive
		}
	}
}

// mayAsk reports whether an answer can be expected.
func (r *Reader) mayAsk(device uint64) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case r.dead[device] > 0 || r.hurry.Err() != nil && r.last >= maxLast:
		return ErrUnresponsive
	case r.stuck >= maxStuck:
		return fmt.Errorf("%d file systems do not answer, and no more are asked", r.stuck)
	}
	return nil
}

// abandon stops waiting for an answer. If the answer arrives after all, the file
// system may be used again.
func (r *Reader) abandon(call *rpc.Call, device uint64, late func()) {
	count := func(n int) {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.stuck += n
		if device != 0 {
			r.dead[device] += n
		}
	}
	count(1)
	r.mutex.Lock()
	if r.hurry.Err() != nil {
		r.last++
	}
	r.mutex.Unlock()
	go func() {
		<-call.Done // at the latest when the client is closed
		count(-1)
		if late != nil && call.Error == nil {
			late()
		}
	}()
}
