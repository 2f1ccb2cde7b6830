package dump

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"ustack/symbolize/space"
	"ustack/symbolize/unwind"
	"ustack/symbolize/v8/stack"
	"ustack/tools/core"
)

// prepare reads, while the process runs, what it can: the files' symbols and unwind
// tables, V8's layout, the threads' names and what they wait in.
func (t *taker) prepare(ctx context.Context) error {
	if t.space != nil {
		if err := t.space.Close(); err != nil {
			return err
		}
	}
	t.memory = newMemory(t.process)
	layout, err := t.layout()
	if err != nil {
		return err
	}
	if layout.Auxv, err = core.Auxv(t.process.PID()); err != nil {
		return err
	}
	t.space = space.New(t.memory, layout, space.Finder{Process: t.process, Files: &t.files})
	for _, m := range t.space.Modules() {
		switch {
		case m.Err != nil:
			t.warn(fmt.Errorf("%s: %w: its code has no names, and frames that it left no pointer for are not found", m.Path, m.Err))
		case m.ELF.Partial() != nil:
			t.warn(fmt.Errorf("%s: %w: some of its functions have no names", m.Path, m.ELF.Partial()))
		}
	}
	t.found = stack.Find(t.space)
	for _, missing := range t.found.Missing {
		t.warn(fmt.Errorf("%s: %w: %s", missing.What, missing.Err, missing.Then))
	}
	t.verify(ctx)
	t.readTables()
	t.names, t.waits = make(map[int]string), make(map[int]string)
	entries, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", t.process.PID()))
	for _, entry := range entries {
		if tid, err := strconv.Atoi(entry.Name()); err == nil {
			t.names[tid] = threadName(t.process.PID(), tid)
			t.waits[tid] = waitsIn(t.process.PID(), tid)
		}
	}
	return nil
}

// readTables has the symbols and unwind tables of all files be read.
func (t *taker) readTables() {
	for _, r := range t.space.Regions() {
		if p, ok := t.space.Part(r.Start); ok && r.Exec {
			p.Native(r.Start, r.Start)
			_, _ = t.space.Caller(p, unwind.Cursor{PC: r.Start}) // for its effect: there is no frame
		}
	}
}

// layout returns what is mapped in the process at the moment.
func (t *taker) layout() (space.Layout, error) {
	var l space.Layout
	all, err := t.process.Maps()
	if err != nil {
		return l, err
	}
	for _, m := range all {
		l.Regions = append(l.Regions, space.Region{Start: m.Start, End: m.End, Write: m.Perms.Write(), Exec: m.Perms.Exec()})
		if m.File() {
			path := m.Path
			if m.Deleted {
				path += " (deleted)"
			}
			l.Mappings = append(l.Mappings, space.Mapping{Start: m.Start, End: m.End, Offset: m.Offset, Path: path})
		}
	}
	return l, nil
}
