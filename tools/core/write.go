package core

import (
	"context"
	"iter"
)

const writeBatch = 4 << 20 // bytes of memory written at once

// write writes the core.
func (d *dump) write(ctx context.Context) error {
	d.files.finish(ctx, d.target.PID(), d.threads)
	d.layout = layOut(d.regions, d.notes())
	d.result.Threads, d.result.Resident = len(d.threads), bytesHeld(d.regions)
	if err := d.out.room(uint64(len(d.layout.header)) + d.result.Resident); err != nil {
		return err
	}
	if err := d.out.put(0, d.layout.header); err != nil {
		return err
	}
	done := uint64(0)
	for _, s := range d.layout.segments {
		for piece := range pieces(s.held) {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			b, err := d.read(ctx, piece)
			if err != nil {
				return err
			}
			if err := d.out.put(s.offset+(piece.start-s.start), b); err != nil {
				return err
			}
			done += piece.size()
			if d.options.Progress != nil {
				d.options.Progress(done, d.result.Resident)
			}
		}
	}
	return nil
}

// notes returns the core's notes, in the kernel's order.
func (d *dump) notes() []byte {
	var n notes
	for i, t := range d.threads {
		n.addThread(t, d.info)
		if i > 0 {
			continue
		}
		n.addInfo(d.info)
		n.add("CORE", noteAuxv, d.auxv)
		n.addFiles(d.mappings)
		n.addResident(d.resident)
		n.addDescriptors(d.files.complete)
		if len(d.options.Note) > 0 {
			n.add(noteOwner, noteEvent, d.options.Note)
		}
	}
	return n.Bytes()
}

// pieces yields what the spans hold, cut to what is written at once.
func pieces(spans []span) iter.Seq[span] {
	return func(yield func(span) bool) {
		for _, s := range spans {
			for s.size() > 0 {
				piece := span{s.start, min(s.end, s.start+writeBatch)}
				if !yield(piece) {
					return
				}
				s.start = piece.end
			}
		}
	}
}
