// Package core writes and reads ELF cores of Linux processes on 64-bit machines.
//
// Write takes a core of a live process, which runs on. What is in it are the
// registers of all threads and the memory that the process has touched; a page
// that it never touched is a hole, and read-only parts of files, such as code,
// are left to the files, which debuggers find by path and build id. What the
// program wants in no core (MADV_DONTDUMP) is in none.
//
// Open reads any ELF core: the kernel's, gdb's, one of Write, compressed or not.
package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ustack/symbolize/process"
)

// DefaultMaxStop is how long a process may be stopped unless Options say otherwise.
const DefaultMaxStop = 10 * time.Second

// errTooLong is why a core was abandoned.
var errTooLong = errors.New("the process would be stopped for longer than allowed (raise the limit)")

// Options say how to take a core. The zero value is useful.
type Options struct {
	Thread   int                      // TID of the thread that comes first, as the one that it is about; the main thread if 0 or gone
	Note     []byte                   // put in a note of its own, which File.Note returns; nothing if empty
	Full     bool                     // the read-only parts of files, too
	MaxStop  time.Duration            // the core is given up rather than stop the process for longer; DefaultMaxStop if 0
	Resumed  func()                   // called when the threads are as they were before they were stopped; may be nil
	Progress func(done, total uint64) // called now and then, with bytes of memory written; may be nil

	direct bool // as if there were too little memory for a copy; for tests
}

// A Result describes a core.
type Result struct {
	Path     string        // empty for Snapshot's
	Disk     int64         // bytes that the file takes on disk
	Resident uint64        // bytes of memory that it holds
	Threads  int           // whose registers it has
	Stopped  time.Duration // how long the process was stopped
	Direct   bool          // written to the file while the process was stopped, for want of memory for a copy
	Unread   int           // pages that could not be read; zero in the core
}

// Write takes a core of the process pid and writes it to path: whole, or not at
// all. It is compressed if path ends in ".zst". A file that is there already
// is an error, and stays. The file has mode 0600 and belongs to the process's user.
// An error beside a Result says that the core is whole, and what went wrong after.
//
// The process is stopped while its memory is copied into memory of ours, which is
// allocated before; the file is written when it runs on. Where that memory is not
// available, the file is written during the stop, if that can be done in
// Options.MaxStop.
//
// The process is resumed on every path, and by the kernel if this process dies at
// any moment. If this process cannot resume it in time because it does not run, such
// as after SIGSTOP, the kernel kills this process soon after MaxStop: a supervisor
// that must outlive that runs Write in a process of its own.
func Write(ctx context.Context, pid int, path string, o Options) (*Result, error) {
	target, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	out, err := create(path, pid)
	if err != nil {
		return nil, err
	}
	d := &dump{target: target, out: out, options: o}
	d.result.Path = path
	err = d.run(ctx)
	closeErr := errors.Join(d.close(), out.discard())
	if err != nil {
		return nil, errors.Join(err, closeErr)
	}
	return &d.result, closeErr
}

// Snapshot is like Write, but opens the core, whose file is in the folder for
// temporary files (TMPDIR) and never has a name: nothing is left of it when it is
// closed or this process dies.
func Snapshot(ctx context.Context, pid int, o Options) (*File, *Result, error) {
	target, err := process.Open(pid)
	if err != nil {
		return nil, nil, err
	}
	defer target.Close()
	out, err := createTemporary()
	if err != nil {
		return nil, nil, err
	}
	d := &dump{target: target, out: out, options: o}
	if err := errors.Join(d.run(ctx), d.close()); err != nil {
		return nil, nil, errors.Join(err, out.discard())
	}
	f, err := openFile(out.file)
	if err = errors.Join(err, out.discard()); err != nil {
		return nil, nil, fmt.Errorf("open the snapshot of process %d: %w", pid, err)
	}
	return f, &d.result, nil
}
