// Package core writes and reads ELF cores of Linux processes on 64-bit
// machines.
//
// Write takes a core of a live process, which then continues. The core holds
// the registers of all threads and the memory that the process has touched. A
// page that it never touched is a hole. Read-only parts of files, such as code,
// are omitted: debuggers find the files by path and build id. Memory that the
// program excludes from cores (MADV_DONTDUMP) is never included.
//
// Open reads any ELF core, whether written by the kernel, gdb or Write,
// compressed or not.
package core

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ustack/symbolize/process"
)

// DefaultMaxStop is how long a process may be stopped if Options do not set a
// limit.
const DefaultMaxStop = 10 * time.Second

// errTooLong is why a core was abandoned.
var errTooLong = errors.New("the process would be stopped for longer than allowed (raise the limit)")

// Options say how to take a core. The zero value is useful.
type Options struct {
	Thread   int                      // TID of the thread to put first, as the one that the core is about; the main thread if 0 or if it has ended
	Note     []byte                   // stored in a note of its own, which File.Note returns; no note if empty
	Full     bool                     // include the read-only parts of files
	MaxStop  time.Duration            // abandon the core rather than stop the process for longer; DefaultMaxStop if 0
	Resumed  func()                   // called when the threads are in the state they were in before they were stopped; may be nil
	Progress func(done, total uint64) // called from time to time, with bytes of memory written; may be nil

	direct bool // act as if there were too little memory for a copy; for tests
}

// A Result describes a core.
type Result struct {
	Path     string        // empty for Snapshot
	Disk     int64         // bytes that the file takes on disk
	Resident uint64        // bytes of memory that it holds
	Threads  int           // whose registers it has
	Stopped  time.Duration // how long the process was stopped
	Direct   bool          // written to the file while the process was stopped, for lack of memory for a copy
	Unread   int           // pages that could not be read; zero in the core
}

// Write takes a core of the process pid and writes it to path, completely or
// not at all. It is compressed if path ends in ".zst". It is an error if the
// file already exists; that file is kept. The new file has mode 0600 and
// belongs to the process's user. An error returned with a Result means that the
// core is complete, but something went wrong afterwards.
//
// The process is stopped while its memory is copied into memory of this
// process, which is allocated beforehand; the file is written after the process
// has been resumed. If that memory is not available, the file is written during
// the stop, provided that this can be done within Options.MaxStop.
//
// The process is resumed on every path, and by the kernel if this process dies
// at any moment. If this process cannot resume it in time because it is not
// running, such as after SIGSTOP, the kernel kills this process soon after
// MaxStop: a supervisor that must survive that runs Write in a separate
// process.
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

// Snapshot is like Write, but opens the core, whose file is in the directory
// for temporary files (TMPDIR) and never has a name: nothing is left of it once
// it is closed or this process dies.
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
	f, err := openFile(ctx, out.file, OpenOptions{})
	if err = errors.Join(err, out.discard()); err != nil {
		return nil, nil, fmt.Errorf("open the snapshot of process %d: %w", pid, err)
	}
	return f, &d.result, nil
}
