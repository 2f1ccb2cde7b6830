package core

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"ustack/symbolize/process"
)

// A dump is a core being taken.
type dump struct {
	target  *process.Process
	out     *output
	options Options

	planner  planner
	tracer   *tracer // that has stopped the process
	estimate uint64  // of the bytes of memory that the core will hold

	// Read during the stop.
	threads  []Thread
	info     Info
	auxv     []byte
	mappings []process.Mapping
	resident []Run
	regions  []region

	files openFiles

	// read returns the bytes of a span of at most writeBatch bytes. It is
	// called for all that the regions hold, in order.
	read   func(ctx context.Context, s span) ([]byte, error)
	layout layout
	result Result
	closes []func() error
}

// close releases everything that the dump holds except the file.
func (d *dump) close() error {
	var err error
	for _, f := range slices.Backward(d.closes) {
		err = errors.Join(err, f())
	}
	return err
}

// run takes the core and writes it.
func (d *dump) run(ctx context.Context) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	disk, err := d.out.commit(d.layout.size)
	d.result.Disk = disk
	return err
}

// prepare estimates, while the process still runs, how much there will be.
func (d *dump) prepare(ctx context.Context) error {
	pid := d.target.PID()
	var group sync.WaitGroup
	group.Go(func() { d.files.readBefore(ctx, pid) })
	defer group.Wait()
	smaps, err := openProc(pid, "smaps")
	if err != nil {
		return err
	}
	defer smaps.Close()
	known, err := readDetails(smaps)
	if err != nil {
		return fault(pid, "read smaps of", err)
	}
	pages, err := openScanner(pid)
	if err != nil {
		return err
	}
	d.closes = append(d.closes, pages.Close)
	mounts, err := readProc(pid, "mountinfo")
	if err != nil {
		return err
	}
	d.planner = planner{
		source: d.target, full: d.options.Full, known: known, remote: remoteDevices(string(mounts)), pages: pages,
	}
	mappings, err := d.target.Maps()
	if err != nil {
		return err
	}
	if d.regions, err = d.planner.plan(mappings); err != nil {
		return err
	}
	d.estimate = bytesHeld(d.regions)
	return d.out.room(d.estimate)
}

// take takes the core in the way that the available memory allows.
func (d *dump) take(ctx context.Context) error {
	from, err := openCopier(d.target.PID())
	if err != nil {
		return err
	}
	d.closes = append(d.closes, from.Close)
	var room *arena
	err = errShort
	if !d.options.direct {
		room, err = newArena(ctx, d.estimate)
	}
	if errors.Is(err, errShort) {
		d.result.Direct = true
		return d.takeDirect(ctx, from, err)
	}
	if err != nil {
		return err
	}
	d.closes = append(d.closes, room.Close)
	if err := d.copyStopped(ctx, from, room); err != nil {
		return err
	}
	return d.write(ctx)
}

// limit is how long the process may be stopped.
func (d *dump) limit() time.Duration { return cmp.Or(d.options.MaxStop, DefaultMaxStop) }

// whileStopped stops the threads, reads what can be read only then, and calls do.
func (d *dump) whileStopped(ctx context.Context, do func(context.Context) error) error {
	o := StopOptions{MaxStop: d.limit(), Resumed: d.options.Resumed, traced: func(t *tracer) { d.tracer = t }}
	var err error
	d.result.Stopped, err = WhileStopped(ctx, d.target.PID(), o, func(ctx context.Context, threads []Thread) error {
		if err := d.readStopped(threads); err != nil {
			return err
		}
		return do(ctx)
	})
	return err
}

// readStopped reads everything but memory.
func (d *dump) readStopped(threads []Thread) (err error) {
	pid := d.target.PID()
	d.threads = d.inOrder(threads)
	if d.info, err = readInfo(pid); err != nil {
		return err
	}
	if d.auxv, err = readProc(pid, "auxv"); err != nil {
		return err
	}
	if d.mappings, err = d.target.Maps(); err != nil { // which also reports whether this is still the same process, or its pid was reused
		return err
	}
	if d.planner.pages != nil { // prepared
		d.resident, err = d.planner.resident(d.mappings)
	}
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

// copyStopped copies all memory into room while the process is stopped.
func (d *dump) copyStopped(ctx context.Context, from *copier, room *arena) error {
	var copied []byte
	err := d.whileStopped(ctx, func(ctx context.Context) (err error) {
		h := startHurry()
		d.regions, err = d.planner.plan(d.mappings)
		h.end()
		if err != nil {
			return err
		}
		if copied, err = room.take(bytesHeld(d.regions)); err != nil {
			return err
		}
		from.tracer = d.tracer
		d.result.Unread, err = from.copy(ctx, d.pieces(copied))
		return err
	})
	d.read = func(_ context.Context, s span) ([]byte, error) {
		b := copied[:s.size()]
		copied = copied[s.size():]
		return b, nil
	}
	return err
}

// pieces returns the pieces that fill dst with all that the regions hold.
func (d *dump) pieces(dst []byte) []piece {
	var all []piece
	for _, r := range d.regions {
		pin := d.planner.known.at(r.Start).unshared()
		for _, s := range r.held {
			all = append(all, divide(dst[:s.size()], s, pin)...)
			dst = dst[s.size():]
		}
	}
	return all
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
