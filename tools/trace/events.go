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

// lookAfter is how long events that the kernel does not wake us for may wait.
const lookAfter = 50 * time.Millisecond

// A Receiver handles what the kernel sends for a tool. A hit comes before its stack.
type Receiver struct {
	Stack func(raw []byte)
	Hit   func(raw []byte) // may be nil
	// Wakes says that the kernel wakes us for everything that matters, so that no
	// polling is needed.
	Wakes bool
}

// Events handles what the kernel sends: functions, scripts and processes for a
// Table and its Targets, the rest for a Receiver.
type Events struct {
	reader  *ringbuf.Reader
	table   *Table
	targets *Targets
	to      Receiver
	done    chan struct{} // closed when the reader has ended
	err     error         // why it ended, nil after Close or Flush
}

// Listen starts reading the events of a ring buffer.
func Listen(events *ebpf.Map, targets *Targets, to Receiver) (*Events, error) {
	reader, err := ringbuf.NewReader(events)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's events: %w", err)
	}
	e := &Events{reader: reader, table: targets.table, targets: targets, to: to, done: make(chan struct{})}
	go e.read()
	return e, nil
}

// Close stops reading.
func (e *Events) Close() error {
	err := e.reader.Close()
	<-e.done
	return err
}

// Flush handles what has been sent so far, then stops reading.
func (e *Events) Flush() error {
	if err := e.reader.Flush(); err != nil {
		return fmt.Errorf("flush the kernel's events: %w", err)
	}
	<-e.done
	e.table.ReportDropped()
	return e.err
}

func (e *Events) read() {
	defer close(e.done)
	var record ringbuf.Record
	for {
		if !e.to.Wakes {
			e.reader.SetDeadline(time.Now().Add(lookAfter))
		}
		err := e.reader.ReadInto(&record)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			continue
		case errors.Is(err, ringbuf.ErrFlushed), errors.Is(err, ringbuf.ErrClosed):
			return
		case err != nil:
			e.err = fmt.Errorf("read the kernel's events: %w", err)
			return
		}
		if err := e.take(record.RawSample); err != nil {
			e.table.Trouble(err)
		}
	}
}

// take handles one record. An error in one does not affect the next.
func (e *Events) take(raw []byte) (err error) {
	defer contain.Panic(&err, "take in what the kernel sent")
	const kindBytes = 4
	if len(raw) < kindBytes {
		return nil
	}
	switch bpf.JsprofEventKind(enc.NativeEndian.Uint32(raw)) {
	case bpf.JsprofEventKindEVENT_FUNCTION:
		e.table.Function(raw)
	case bpf.JsprofEventKindEVENT_SCRIPT:
		e.table.Script(raw)
	case bpf.JsprofEventKindEVENT_TEXT:
		e.table.Text(raw)
	case bpf.JsprofEventKindEVENT_WASM:
		e.table.Wasm(raw)
	case bpf.JsprofEventKindEVENT_EXEC:
		e.targets.Exec(raw)
	case bpf.JsprofEventKindEVENT_STACK:
		e.to.Stack(raw)
	case bpf.JsprofEventKindEVENT_HIT:
		e.to.Hit(raw)
	}
	return nil
}
