package core

import (
	"context"
	"fmt"

	"ustack/symbolize/process"
)

// takeSnapshot makes a child that has the memory.
func (d *dump) takeSnapshot(ctx context.Context) error {
	var child *snapshot
	err := d.whileStopped(ctx, func(_ context.Context, stopped *tracee) (err error) {
		child, err = stopped.snapshot()
		return err
	})
	if child != nil {
		d.closes = append(d.closes, child.close)
	}
	if err != nil {
		return err
	}
	return d.planSnapshot(child.pid())
}

// planSnapshot finds the pages of the child pid.
func (d *dump) planSnapshot(pid int) error {
	child, err := process.Open(pid)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	defer child.Close()
	has, err := child.Maps()
	if err != nil {
		return fmt.Errorf("read maps of snapshot: %w", err)
	}
	lost := missing(d.mappings, has)
	for _, m := range d.mappings {
		if d.planner.known.at(m.Start).has("wf") { // wiped in children, as the program asked for
			lost = append(lost, m)
		}
	}
	kept, err := d.planner.plan(lost)
	if err != nil {
		return err
	}
	d.result.Unread = int(bytesHeld(kept) / pageSize())
	pagemap, err := openProc(pid, "pagemap")
	if err != nil {
		return err
	}
	d.closes = append(d.closes, pagemap.Close)
	d.planner.own = pagemap
	if d.regions, err = d.planner.plan(has); err != nil {
		return err
	}
	return d.readFrom(pid)
}

// readFrom makes the core's memory be read from the process pid as it is written.
func (d *dump) readFrom(pid int) error {
	from, err := openCopier(pid)
	if err != nil {
		return err
	}
	d.closes = append(d.closes, from.Close)
	buffer := make([]byte, writeBatch)
	d.read = func(ctx context.Context, s span) ([]byte, error) {
		b := buffer[:s.size()]
		unread, err := from.copy(ctx, b, []span{s})
		d.result.Unread += unread
		return b, err
	}
	return nil
}
