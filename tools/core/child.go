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
	return d.readSnapshot(child.pid())
}

// readSnapshot makes the child pid the source of the core's memory. The target
// may have ended by now.
func (d *dump) readSnapshot(pid int) error {
	child, err := process.Open(pid)
	if err != nil {
		return fmt.Errorf("open snapshot: %w", err)
	}
	d.closes = append(d.closes, child.Close)
	mappings, err := child.Maps()
	if err != nil {
		return fmt.Errorf("read maps of snapshot: %w", err)
	}
	pagemap, err := openProc(pid, "pagemap")
	if err != nil {
		return err
	}
	d.closes = append(d.closes, pagemap.Close)
	d.planner.source, d.planner.own = child, pagemap
	if d.regions, err = d.planner.plan(mappings); err != nil {
		return err
	}
	d.result.Unread = d.planner.lost(d.lacking(mappings))
	return d.readFrom(pid)
}

// lacking returns what the process had mapped and its child has not, or empty.
func (d *dump) lacking(child []process.Mapping) []process.Mapping {
	lacking := missing(d.mappings, child)
	for _, m := range d.mappings {
		if d.planner.known.at(m.Start).has("wf") { // wiped in children, as the program asked for
			lacking = append(lacking, m)
		}
	}
	return lacking
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
