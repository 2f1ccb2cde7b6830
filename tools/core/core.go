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
	"time"

	"ustack/symbolize/process"
)

// A Way is how the process is kept from changing what is being read.
type Way int

const (
	// Stopped stops the threads while the resident pages are copied into memory.
	Stopped Way = iota
	// Snapshot stops the threads while a copy-on-write child is made, and
	// reads the child while the process runs on. Memory shared with other
	// processes is read as it is then.
	Snapshot
)

// DefaultMaxStop is how long a process may be stopped unless Options say otherwise.
const DefaultMaxStop = 10 * time.Second

// errTooLong is why a core was given up.
var errTooLong = errors.New("the process would be stopped for longer than allowed (raise the limit, or take a snapshot)")

// Options say how to take a core. The zero value is useful.
type Options struct {
	Way      Way
	Thread   int                      // TID of the thread that comes first, as the one that it is about; the main thread if 0 or gone
	Note     []byte                   // put in a note of its own, which File.Note returns; nothing if empty
	Full     bool                     // the read-only parts of files, too
	MaxStop  time.Duration            // the core is given up rather than stop the process for longer; DefaultMaxStop if 0
	Resumed  func()                   // called when the threads are as they were before they were stopped; may be nil
	Progress func(done, total uint64) // called now and then, with bytes of memory written; may be nil
}

// A Result says what became of a core.
type Result struct {
	Path     string
	Disk     int64         // bytes that the file takes on disk
	Resident uint64        // bytes of memory that it holds
	Threads  int           // whose registers it has
	Stopped  time.Duration // how long the process was stopped
	Unread   int           // pages that could not be read; zero in the core
}

// Write takes a core of the process pid and writes it to path: whole, or not at
// all. It is compressed if path ends in ".zst". A file that is there already
// is an error, and stays. However Write returns, the process runs on. The file is
// for the process's owner's eyes only. An error beside a Result says that the
// core is whole, and what went wrong after.
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
	closeErr := d.close()
	if err != nil {
		return nil, errors.Join(err, closeErr, out.discard())
	}
	return &d.result, closeErr
}
