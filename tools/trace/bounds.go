package trace

import (
	"fmt"

	"ustack/tools/sourcemaps"
)

// Limits on what is kept for programs that create functions without end. Large
// programs run some 10,000.
const (
	maxFunctions = 1 << 17
	maxScripts   = 1 << 15
	maxLines     = 1 << 24   // of all scripts; each takes four bytes
	maxNatives   = 1 << 17   // places in machine code, of one process
	maxMapURL    = 64 << 20  // characters of a source map's URL, which may be the map itself
	maxMapURLs   = 256 << 20 // bytes of all such URLs
)

// dropped counts what was discarded for lack of room, and what came too late.
type dropped struct {
	functions, scripts, sources uint64
	lines                       uint64 // functions of ended processes without one
	linesErr                    error  // why the first of those has none
}

// keepScript stores a script and its source if there is room.
func (t *Table) keepScript(key scriptKey, s script) {
	old, known := t.scripts[key]
	if !known && len(t.scripts) >= maxScripts {
		t.dropped.scripts++
		return
	}
	t.lines -= old.source.Lines()
	if t.lines+s.source.Lines() > maxLines {
		t.dropped.sources++
		s.source = nil
	}
	t.lines += s.source.Lines()
	t.originals.keep(&s, old)
	t.scripts[key] = s
}

// reportDropped adds a diagnostic for each sort of data that was dropped. It is called
// once, at the end.
func (t *Table) reportDropped() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, lost := range []struct {
		count  uint64
		format string
		limit  int
	}{
		{t.positions.full, "%d pieces of code have no executing lines: at most %d are kept, and 64 MB of their tables", maxTables},
		{t.dropped.functions, "%d functions have no names: at most %d are kept", maxFunctions},
		{t.dropped.scripts, "%d scripts have no names, and their functions no lines: at most %d are kept", maxScripts},
		{uint64(t.originals.finder.Unreported()), "source maps of %d more scripts cannot be used: at most %d are reported", sourcemaps.MaxWarnings},
		{uint64(t.originals.dropped), "source maps in %d scripts are not used: at most %d bytes are kept", maxMapURLs},
		{t.dropped.sources, "functions of %d scripts have no lines: at most %d lines are kept", maxLines},
	} {
		if lost.count > 0 {
			t.warn(fmt.Errorf(lost.format, lost.count, lost.limit))
		}
	}
	if t.dropped.lines > 0 {
		t.warn(fmt.Errorf("%d functions have no line, because their process ended before its scripts could be read: %w", t.dropped.lines, t.dropped.linesErr))
	}
}
