package main

import (
	"bufio"
	"fmt"
	"io"
)

// A feed prints what comes, until enough is printed or the output does not take more. Its
// methods are not called at the same time.
type feed struct {
	out   *bufio.Writer
	count uint64 // how much is enough; 0: there is no limit
	shown uint64
	stop  chan struct{} // closed then
	over  bool
	err   error
}

func newFeed(w io.Writer, count uint64) *feed {
	return &feed{out: bufio.NewWriterSize(w, outBytes), count: count, stop: make(chan struct{})}
}

// add prints what write writes.
func (f *feed) add(write func(io.Writer) error) {
	if f.over {
		return
	}
	f.note(write(f.out))
	f.shown++
	if f.shown == f.count {
		f.end()
	}
}

// flush prints what there is.
func (f *feed) flush() { f.note(f.out.Flush()) }

// note keeps the first error, which ends the run.
func (f *feed) note(err error) {
	if err == nil || f.err != nil {
		return
	}
	f.err = fmt.Errorf("write: %w", err)
	f.end()
}

func (f *feed) end() {
	if !f.over {
		f.over = true
		close(f.stop)
	}
}

// close prints the rest, and returns the first error.
func (f *feed) close() error {
	f.flush()
	return f.err
}
