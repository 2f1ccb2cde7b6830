package trace

import (
	enc "encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"ustack/bpf"
	"ustack/symbolize/contain"
)

// UsualPoll is how long events that the kernel does not wake us for may wait, if they are shown at
// once or may be many.
const UsualPoll = 50 * time.Millisecond

// events reads a ring buffer of the kernel's.
type events struct {
	reader   *ringbuf.Reader
	handlers map[bpf.TraceEventKind]func(record []byte)
	poll     time.Duration // how long events may wait; 0: the kernel wakes us for all that matter
	table    *Table
	done     chan struct{} // closed when the reader has ended
	err      error         // why it ended, nil after Close or Flush
}

// listen starts reading. Errors in records are diagnostics of the table.
func listen(buffer *ebpf.Map, handlers map[bpf.TraceEventKind]func([]byte), poll time.Duration, table *Table) (*events, error) {
	reader, err := ringbuf.NewReader(buffer)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's events: %w", err)
	}
	e := &events{reader: reader, handlers: handlers, poll: poll, table: table, done: make(chan struct{})}
	go e.read()
	return e, nil
}

// Close stops reading.
func (e *events) Close() error {
	err := e.reader.Close()
	<-e.done
	return err
}

// Flush handles what has been sent so far, then stops reading.
func (e *events) Flush() error {
	if err := e.reader.Flush(); err != nil {
		return fmt.Errorf("flush the kernel's events: %w", err)
	}
	<-e.done
	return e.err
}

func (e *events) read() {
	defer close(e.done)
	var record ringbuf.Record
	e.wait()
	for {
		err := e.reader.ReadInto(&record)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			e.wait()
			continue
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, ringbuf.ErrClosed):
			return
		case err != nil:
			e.err = fmt.Errorf("read the kernel's events: %w", err)
			return
		}
		if err := e.take(record.RawSample); err != nil {
			e.table.Warn(err)
		}
	}
}

// wait lets the reader wait that long for the next event, if the kernel does not announce all.
func (e *events) wait() {
	if e.poll > 0 {
		e.reader.SetDeadline(time.Now().Add(e.poll))
	}
}

// take handles one record. An error in one does not affect the next.
func (e *events) take(raw []byte) (err error) {
	defer contain.Panic(&err, "take in what the kernel sent")
	const kindBytes = 4
	if len(raw) < kindBytes {
		return nil
	}
	kind := bpf.TraceEventKind(enc.NativeEndian.Uint32(raw))
	handle := e.handlers[kind]
	if handle == nil {
		return fmt.Errorf("the kernel sent a record of unknown kind %d", kind)
	}
	handle(raw)
	return nil
}
