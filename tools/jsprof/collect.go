package jsprof

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"ustack/bpf"
	"ustack/tools/flamegraph"
	"ustack/tools/ustack"
)

// lookAfter is how long events may wait that the kernel does not wake us for.
const lookAfter = 50 * time.Millisecond

// A collector takes in the kernel's events while sampling goes on, and adds up
// its counts.
type collector struct {
	session *session
	reader  *ringbuf.Reader
	done    chan struct{} // closed when the reader has ended
	err     error         // why it ended, nil at close or flush

	mutex  sync.Mutex
	stacks map[bpf.JsprofStackKey]*counted
	fresh  int // stacks announced since the counts were last taken out
}

type counted struct {
	ustack.Stack
	count uint64
}

func newCollector(s *session) (*collector, error) {
	reader, err := ringbuf.NewReader(s.objects.Events)
	if err != nil {
		return nil, fmt.Errorf("open the kernel's events: %w", err)
	}
	c := &collector{
		session: s,
		reader:  reader,
		done:    make(chan struct{}),
		stacks:  make(map[bpf.JsprofStackKey]*counted),
	}
	go c.read()
	return c, nil
}

// close ends the reader and waits for it.
func (c *collector) close() error {
	err := c.reader.Close()
	<-c.done
	return err
}

func (c *collector) read() {
	defer close(c.done)
	var record ringbuf.Record
	for {
		c.reader.SetDeadline(time.Now().Add(lookAfter))
		err := c.reader.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			continue
		}
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, ringbuf.ErrClosed) {
			return
		}
		if err != nil {
			c.err = fmt.Errorf("read the kernel's events: %w", err)
			return
		}
		c.take(record.RawSample)
	}
}

func (c *collector) take(raw []byte) {
	const kindBytes = 4
	if len(raw) < kindBytes {
		return
	}
	switch bpf.JsprofEventKind(binary.NativeEndian.Uint32(raw)) {
	case bpf.JsprofEventKindEVENT_FUNCTION:
		c.session.table.Function(raw)
	case bpf.JsprofEventKindEVENT_SCRIPT:
		c.session.table.Script(raw)
	case bpf.JsprofEventKindEVENT_EXEC:
		c.session.targets.Exec(raw)
	case bpf.JsprofEventKindEVENT_STACK:
		hash, stack := c.session.table.Stack(raw)
		key := bpf.JsprofStackKey{Ids: uint64(stack.PID)<<32 | uint64(stack.TID), Hash: hash}
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.fresh++
		if _, ok := c.stacks[key]; !ok {
			c.stacks[key] = &counted{Stack: stack}
		}
	}
}

// relieve takes the counts out of the kernel before its map is full.
func (c *collector) relieve() {
	c.mutex.Lock()
	full := c.fresh > int(c.session.objects.Counts.MaxEntries())/2
	c.mutex.Unlock()
	if full {
		if err := c.drain(); err != nil && c.session.o.Warn != nil {
			c.session.o.Warn(err)
		}
	}
}

// drain moves the kernel's counts to the stacks.
func (c *collector) drain() error {
	var keys []bpf.JsprofStackKey
	var key bpf.JsprofStackKey
	var count uint64
	counts := c.session.objects.Counts
	entries := counts.Iterate()
	for entries.Next(&key, &count) {
		keys = append(keys, key)
	}
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) {
		return fmt.Errorf("read the kernel's counts: %w", err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.fresh = 0
	for _, key := range keys {
		if err := counts.LookupAndDelete(&key, &count); err != nil {
			if errors.Is(err, ebpf.ErrKeyNotExist) {
				continue
			}
			return fmt.Errorf("take out the kernel's counts: %w", err)
		}
		if c.stacks[key] == nil {
			c.stacks[key] = &counted{}
		}
		c.stacks[key].count += count
	}
	return nil
}

// profile is all that was seen. Sampling must have stopped.
func (c *collector) profile() (*flamegraph.Profile, error) {
	if err := c.reader.Flush(); err != nil {
		return nil, fmt.Errorf("flush the kernel's events: %w", err)
	}
	<-c.done
	if err := errors.Join(c.err, c.drain()); err != nil {
		return nil, err
	}
	objects := &c.session.objects
	p := &flamegraph.Profile{
		Lost:      c.count(objects.Lost),
		Truncated: c.count(objects.Truncated),
	}
	for _, s := range c.stacks {
		if s.count == 0 {
			continue
		}
		frames, unknown := c.session.table.Frames(s.Stack)
		p.Samples += s.count
		p.UnknownFrames += s.count * uint64(unknown)
		p.Stacks = append(p.Stacks, flamegraph.Stack{
			Count: s.count, PID: s.PID, TID: s.TID, Thread: s.Thread, Frames: frames,
		})
	}
	return p, nil
}

// count reads one of the kernel's counters.
func (c *collector) count(v *ebpf.Variable) uint64 {
	var n uint64
	if err := v.Get(&n); err != nil && c.session.o.Warn != nil {
		c.session.o.Warn(fmt.Errorf("read a counter of the kernel's: %w", err))
	}
	return n
}
