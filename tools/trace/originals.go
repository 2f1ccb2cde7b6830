package trace

import (
	"errors"

	"ustack/symbolize"
	"ustack/symbolize/reader"
	"ustack/symbolize/sourcemap"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/tools/sourcemaps"
)

// originals finds the positions in sources that scripts were made from.
type originals struct {
	finder  *sourcemaps.Finder
	maps    map[scriptKey]*sourcemap.Map // nil for scripts without one
	found   map[definition]symbolize.Frame
	urls    int // bytes of the URLs that are kept
	dropped int // scripts whose map there was no room for
}

// A definition is a function of a script that has a source map.
type definition struct {
	script scriptKey
	frame  symbolize.Frame
}

func newOriginals(o sourcemaps.Options, files *reader.Reader) *originals {
	return &originals{
		finder: sourcemaps.New(o, files),
		maps:   make(map[scriptKey]*sourcemap.Map),
		found:  make(map[definition]symbolize.Frame),
	}
}

// readMapURL reads the URL of the source map of the script at address. It reports whether
// the script and the URL were there: the collector may move them meanwhile.
func (t *Table) readMapURL(heap *v8.Heap, address uint64, key scriptKey) (url string, ok bool) {
	url, err := code.ReadMapURL(heap, address, int(key.id), maxMapURL)
	if errors.Is(err, code.ErrTooLong) {
		t.warnOfMap(err)
		return "", true
	}
	return url, err == nil
}

// keep drops the URL of a script's source map if there is no room to keep it until the map
// is needed. The script replaces old.
func (o *originals) keep(s *script, old script) {
	o.urls -= len(old.mapURL)
	if o.urls+len(s.mapURL) > maxMapURLs {
		o.dropped++
		s.mapURL = ""
	}
	o.urls += len(s.mapURL)
}

// original returns the frame of a function with the name and position of the source that
// its script was made from, if the script has a source map.
func (t *Table) original(g *target, key scriptKey, f symbolize.Frame) symbolize.Frame {
	if f.Line == 0 {
		return f
	}
	m := t.sourceMap(g, key)
	if m == nil {
		return f
	}
	at := definition{key, f}
	found, ok := t.originals.found[at]
	if !ok {
		found = m.Defined(f)
		if len(t.originals.found) < maxFunctions {
			t.originals.found[at] = found
		}
	}
	return found
}

// sourceMap returns the script's source map, nil if it has none. It is looked for once.
func (t *Table) sourceMap(g *target, key scriptKey) *sourcemap.Map {
	o := t.originals
	if m, ok := o.maps[key]; ok || g == nil {
		return m
	}
	s, ok := t.scripts[key]
	if !ok {
		return nil
	}
	url := s.mapURL
	if g.root == nil && !sourcemap.IsInline(url) { // the process ended before its root could be opened
		url = ""
	}
	m, err := o.finder.Find(sourcemaps.Script{Name: s.name, URL: url, Root: g.root})
	if err != nil {
		t.warnOfMap(ofProcess(g.process.PID(), err))
	}
	o.maps[key] = m
	o.urls -= len(s.mapURL)
	s.mapURL = ""
	t.scripts[key] = s
	return m
}

// warnOfMap adds a diagnostic about a script's source map, unless there are many.
func (t *Table) warnOfMap(err error) {
	if t.originals.finder.Reports(err) {
		t.warn(err)
	}
}
