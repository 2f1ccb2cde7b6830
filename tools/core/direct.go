package core

import (
	"context"
	"fmt"
	"time"
)

const (
	probeBytes = 16 << 20 // of the process's memory that are written to measure how long writing all of it takes
	limitShare = 2        // the limit must be this many times the measured time: disks get slower as caches fill up
)

// takeDirect writes the core straight to the file while the process is stopped,
// using the memory of one batch. The cause is why there is no memory for a
// copy.
func (d *dump) takeDirect(ctx context.Context, from *copier, cause error) error {
	buffer := make([]byte, writeBatch)
	d.read = func(ctx context.Context, s span) ([]byte, error) {
		b := buffer[:s.size()]
		unread, err := from.copy(ctx, divide(b, s, false))
		d.result.Unread += unread
		return b, err
	}
	needed, err := d.measure(ctx)
	if err != nil {
		return err
	}
	if needed *= limitShare; needed > d.limit() {
		return fmt.Errorf("take core of process %d: %w; %w: to write %d MiB may take %v",
			d.target.PID(), cause, errTooLong, d.estimate>>20, needed.Round(time.Millisecond))
	}
	return d.whileStopped(ctx, func(ctx context.Context) (err error) {
		if d.regions, err = d.planner.plan(d.mappings); err != nil {
			return err
		}
		from.tracer = d.tracer
		return d.write(ctx)
	})
}

// measure writes part of the running process's memory to disk, and returns how
// long all of it would take at that speed.
func (d *dump) measure(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	written := uint64(0)
	for s := range pieces(spansHeld(d.regions)) {
		if written >= probeBytes {
			break
		}
		b, err := d.read(ctx, s)
		if err != nil {
			return 0, err
		}
		if err := d.out.put(written, b); err != nil {
			return 0, err
		}
		written += s.size()
	}
	if err := d.out.rewind(); err != nil {
		return 0, err
	}
	d.result.Unread = 0
	return time.Duration(float64(time.Since(began)) * float64(d.estimate) / float64(max(written, 1))), nil
}
