package trace

import (
	"errors"
	"fmt"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

// Bounds on the texts of scripts that are kept.
const (
	maxText  = 64 << 20  // UTF-16 units of one
	maxTexts = 128 << 20 // bytes of all
)

const noUser = -1

// currentUser returns who runs the target, by number; it may have changed.
func (g *target) currentUser() int {
	if g.closed {
		return g.user
	}
	if user, err := g.process.UID(); err == nil {
		g.user = user
	}
	return g.user
}

// texts are the sources of scripts and functions, which are kept on request.
type texts struct {
	wanted  bool
	scripts map[scriptKey]scriptText
	ends    map[functionKey]int // of functions whose code was read
	bytes   int
}

// A scriptText is a script's text, or why it could not be read.
type scriptText struct {
	text string
	err  error
}

// A functionKey is a function's place in a script.
type functionKey struct {
	script scriptKey
	start  int
}

func newTexts(wanted bool) texts {
	return texts{wanted: wanted, scripts: make(map[scriptKey]scriptText), ends: make(map[functionKey]int)}
}

// readText reads the text of the script at address, if that is wanted. It reports whether
// the script is still there.
func (t *Table) readText(heap *v8.Heap, address uint64, key scriptKey) (scriptText, bool) {
	if known, ok := t.texts.scripts[key]; !t.texts.wanted || ok && known.err == nil {
		return known, true
	}
	text, err := code.ReadText(heap, address, int(key.id), maxText)
	return scriptText{text, err}, !errors.Is(err, code.ErrNotScript)
}

// keepText keeps what readText returned, if that is wanted and there is room.
func (t *Table) keepText(key scriptKey, s scriptText) {
	if known, ok := t.texts.scripts[key]; !t.texts.wanted || ok && known.err == nil {
		return
	}
	if t.texts.bytes+len(s.text) > maxTexts {
		s = scriptText{err: fmt.Errorf("the texts of scripts have more than %d MB together", maxTexts>>20)}
	}
	t.texts.bytes += len(s.text)
	t.texts.scripts[key] = s
}

// keepEnds keeps where the texts of a table's functions end, if that is wanted.
func (t *Table) keepEnds(table *codeTable, ends map[v8.Value]int) {
	if !t.texts.wanted || len(t.texts.ends)+len(ends) > maxFunctions {
		return
	}
	for shared, fn := range table.inlined {
		t.texts.ends[functionKey{fn.script, fn.start}] = ends[shared]
	}
}

// A Source is the text of a file in which a function is defined.
type Source struct {
	Text     string
	Line     int    // at which the text begins
	From     string // where the text is from
	LastLine int    // of the function; 0 if it is not known
}

var (
	errNoText    = errors.New("the script was not read: the process ended, or stopped running it")
	errAmbiguous = errors.New("the process has several scripts of this name")
)

// Source returns the text of the file in which the function of a frame of process pid is
// defined, as Frames returned it. Options.Texts must be set.
func (t *Table) Source(pid int, f symbolize.Frame) (Source, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	found, err := Source{}, errNoText
	for _, key := range t.definedIn(pid, f) {
		s, cause := t.sourceIn(key, f)
		switch {
		case cause != nil && found.Text == "":
			err = cause
		case cause != nil || s == found:
		case found.Text != "":
			return Source{}, errAmbiguous
		default:
			found, err = s, nil
		}
	}
	return found, err
}

// definedIn returns the scripts of process pid that may define the function of a frame:
// those of its name, and of them those that are known to have a function at its place.
func (t *Table) definedIn(pid int, f symbolize.Frame) []scriptKey {
	name, line, column := f.File, f.Line, f.Column
	if f.GeneratedFile != "" {
		name, line, column = f.GeneratedFile, f.GeneratedLine, f.GeneratedColumn
	}
	var named, defining []scriptKey
	for key, s := range t.scripts {
		g := t.owners[uint32(key.owner>>32)]
		if s.name != name || s.source == nil || g == nil || g.process.PID() != pid {
			continue
		}
		named = append(named, key)
		if start, ok := s.source.Offset(line, column); ok && t.texts.ends[functionKey{key, start}] > 0 {
			defining = append(defining, key)
		}
	}
	if defining != nil {
		return defining
	}
	return named
}

// sourceIn returns the text of the frame's file, if a script or its source map has it.
func (t *Table) sourceIn(key scriptKey, f symbolize.Frame) (Source, error) {
	script := t.scripts[key]
	if f.GeneratedFile != "" {
		return t.originalSource(key, f)
	}
	kept, ok := t.texts.scripts[key]
	if !ok {
		return Source{}, errNoText
	}
	s := Source{Text: kept.text, From: "the process's memory"}
	s.Line, _ = script.source.Position(0)
	if end := t.endOf(key, f.Line, f.Column); end > 0 {
		s.LastLine, _ = script.source.Position(end - 1)
	}
	return s, kept.err
}

// originalSource returns the text of a source that a script was made from.
func (t *Table) originalSource(key scriptKey, f symbolize.Frame) (Source, error) {
	g, m := t.owners[uint32(key.owner>>32)], t.originals.maps[key]
	s := Source{Line: 1, From: "the source map"}
	var ok bool
	if s.Text, ok = m.Content(f.File); !ok {
		var err error
		if s.Text, err = t.originals.finder.Text(g.root, f.File, g.currentUser()); err != nil {
			return Source{}, err
		}
		s.From = "the file that the source map names"
	}
	if end := t.endOf(key, f.GeneratedLine, f.GeneratedColumn); end > 0 && m != nil {
		line, column := t.scripts[key].source.Position(end - 1)
		if p, ok := m.Original(line, column); ok && p.File == f.File {
			s.LastLine = p.Line
		}
	}
	return s, nil
}

// endOf returns the offset at which the function at a place in a script ends; 0 if that is
// not known.
func (t *Table) endOf(key scriptKey, line, column int) int {
	start, ok := t.scripts[key].source.Offset(line, column)
	if !ok {
		return 0
	}
	return t.texts.ends[functionKey{key, start}]
}
