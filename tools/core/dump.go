package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ustack/symbolize/process"
)

// A dump is a core in the making.
type dump struct {
	target  *process.Process
	out     *output
	options Options

	planner  planner
	estimate uint64 // of the bytes of memory that the core will hold

	// What the stop gives.
	threads  []Thread
	info     Info
	auxv     []byte
	mappings []process.Mapping
	regions  []region

	// read returns the bytes of a span, as long as at most writeBatch. It is asked
	// for all that the regions hold, in that order.
	read   func(ctx context.Context, s span) ([]byte, error)
	layout layout
	result Result
	closes []func() error
}

// close lets go of all that the dump holds but the file.
func (d *dump) close() error {
	var err error
	for _, f := range slices.Backward(d.closes) {
		err = errors.Join(err, f())
	}
	return err
}

// run takes the core and writes it.
func (d *dump) run(ctx context.Context) error {
	if err := d.prepare(); err != nil {
		return err
	}
	take := d.copyStopped
	if d.options.Way == Snapshot {
		take = d.takeSnapshot
	}
	if err := take(ctx); err != nil {
		return err
	}
	if err := d.write(ctx); err != nil {
		return err
	}
	disk, err := d.out.commit(d.layout.size)
	d.result.Disk = disk
	return err
}

// prepare finds out, while the process still runs, how much there will be.
func (d *dump) prepare() error {
	pid := d.target.PID()
	smaps, err := openProc(pid, "smaps")
	if err != nil {
		return err
	}
	defer smaps.Close()
	known, err := readDetails(smaps)
	if err != nil {
		return fault(pid, "read smaps of", err)
	}
	pagemap, err := openProc(pid, "pagemap")
	if err != nil {
		return err
	}
	d.closes = append(d.closes, pagemap.Close)
	d.planner = planner{source: d.target, full: d.options.Full, known: known, own: pagemap, shared: pagemap}
	mappings, err := d.target.Maps()
	if err != nil {
		return err
	}
	regions, err := d.planner.plan(mappings)
	if err != nil {
		return err
	}
	d.estimate = bytesHeld(regions)
	return d.out.room(d.estimate)
}

// whileStopped stops the threads, reads what cannot be read but then, and calls
// do. Should the time be over or ctx be done, the process runs on at once, and
// there is an error whatever do returns.
func (d *dump) whileStopped(ctx context.Context, do func(context.Context, *tracee) error) error {
	limit := d.options.MaxStop
	if limit == 0 {
		limit = DefaultMaxStop
	}
	began := time.Now()
	stopped, err := stopThreads(d.target.PID())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithDeadlineCause(ctx, began.Add(limit), errTooLong)
	defer cancel()
	release := sync.OnceValue(func() error {
		defer func() {
			d.result.Stopped = time.Since(began)
			if d.options.Resumed != nil {
				d.options.Resumed()
			}
		}()
		return stopped.resume()
	})
	defer context.AfterFunc(ctx, func() { release() })()
	err = d.readStopped(stopped)
	if err == nil {
		err = do(ctx, stopped)
	}
	resumeErr := release()
	if ctx.Err() != nil {
		err = fmt.Errorf("take core of process %d: %w", d.target.PID(), context.Cause(ctx))
	}
	return errors.Join(err, resumeErr)
}

// readStopped reads all but memory.
func (d *dump) readStopped(stopped *tracee) (err error) {
	pid := d.target.PID()
	d.threads = d.inOrder(stopped.threads())
	if d.info, err = readInfo(pid); err != nil {
		return err
	}
	if d.auxv, err = readProc(pid, "auxv"); err != nil {
		return err
	}
	d.mappings, err = d.target.Maps() // which also tells whether it is the process still, not its number's next
	return err
}

// inOrder puts the thread that the core is about first.
func (d *dump) inOrder(threads []Thread) []Thread {
	first := slices.IndexFunc(threads, func(t Thread) bool { return t.TID == d.options.Thread })
	if first < 0 {
		first = slices.IndexFunc(threads, func(t Thread) bool { return t.TID == d.target.PID() })
	}
	if first < 0 {
		return threads
	}
	return slices.Concat(threads[first:first+1], threads[:first], threads[first+1:])
}

// copyStopped copies all memory while the process is stopped.
func (d *dump) copyStopped(ctx context.Context) error {
	room, err := newArena(ctx, d.estimate)
	if err != nil {
		return err
	}
	d.closes = append(d.closes, room.Close)
	from, err := openCopier(d.target.PID())
	if err != nil {
		return err
	}
	defer from.Close()
	var copied []byte
	err = d.whileStopped(ctx, func(ctx context.Context, _ *tracee) error {
		if d.regions, err = d.planner.plan(d.mappings); err != nil {
			return err
		}
		if copied, err = room.take(bytesHeld(d.regions)); err != nil {
			return err
		}
		d.result.Unread, err = from.copy(ctx, copied, spansHeld(d.regions))
		return err
	})
	d.read = func(_ context.Context, s span) ([]byte, error) {
		b := copied[:s.size()]
		copied = copied[s.size():]
		return b, nil
	}
	return err
}

// spansHeld returns all that the regions hold.
func spansHeld(regions []region) []span {
	var all []span
	for _, r := range regions {
		all = append(all, r.held...)
	}
	return all
}

func bytesHeld(regions []region) uint64 { return total(spansHeld(regions)) }
