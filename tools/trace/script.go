package trace

import (
	"errors"
	"fmt"

	"ustack/bpf"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
)

type scriptKey struct {
	owner uint64 // generation, thread
	id    int32
}

type script struct {
	name   string
	wasm   bool         // a WebAssembly module's: its functions in JavaScript are wrappers
	source *code.Source // nil if it could not be read
	mapURL string       // of its source map; empty if it names none
	gone   bool         // the process ended before its source could be read
	asked  int          // how often the kernel was asked to announce it again
}

// Script handles a kernel record about a script, and reads the lines of its source
// while it is there.
func (t *Table) Script(raw []byte) {
	n := Decode[bpf.TraceName](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	key := scriptKey{n.Owner, n.Script}
	s := script{name: text(n), wasm: n.Flags&uint32(bpf.TraceNameFlagNAME_WASM) != 0}
	if g := t.owners[uint32(n.Owner>>32)]; g != nil && g.binary != nil && !s.wasm {
		g.noteIsolate(n.Owner, n.Address)
		t.readSent(&s, g, key, n.Id)
	}
	t.keepScript(key, s)
}

// A script is read scriptReads times before the kernel is asked for it again: the first
// quickReads of them at once, the others with pauses between, longer than most scavenges take.
const (
	quickReads  = 4
	scriptReads = 20
)

// readSent reads into s the script whose object was at address when the kernel saw it. If
// the object is no longer there, the collector has moved it, and the kernel is asked to
// announce its address again.
func (t *Table) readSent(s *script, g *target, key scriptKey, address uint64) {
	err := errMoving
	for tries := 0; tries < scriptReads && errors.Is(err, errMoving); tries++ { // most collections move no script
		if tries >= quickReads && !g.pause() {
			break
		}
		s.source, s.mapURL, err = t.readScript(g, key, address)
	}
	s.asked = t.scripts[key].asked
	if err != nil && g.alive() && s.asked < maxTries {
		s.asked++
		t.sendAgain(t.maps.Scripts, &bpf.TraceScriptKey{Owner: key.owner, Script: int64(key.id)})
	}
	s.gone = g.closed || err != nil && !g.hasMemory()
}

// readScript reads the lines of a script, the URL of its source map and, if that is
// wanted, its text. If it returns an error, some of that is missing, or is what was read
// before. The error is errMoving if it may be read soon.
func (t *Table) readScript(g *target, key scriptKey, address uint64) (source *code.Source, mapURL string, err error) {
	known := t.scripts[key]
	if g.closed {
		return known.source, known.mapURL, nil
	}
	heap, err := v8.NewHeap(g.process, g.binary.v8)
	if err != nil { // asking again would not help
		t.warn(ofProcess(g.process.PID(), fmt.Errorf("read the lines of functions: %w", err)))
		return known.source, known.mapURL, nil
	}
	before, whole := g.collections(key.owner)
	source = known.source
	if !source.Fixed() {
		read, err := code.ReadScript(heap, address, int(key.id))
		if err != nil {
			return known.source, known.mapURL, err
		}
		source = &read
	}
	url, hasURL := t.readMapURL(heap, address, key)
	text, hasText := t.readText(heap, address, key)
	after, still := g.collections(key.owner)
	settled := whole && still && after == before
	switch {
	case hasText && (settled || source.Fixed()):
		t.keepText(key, text)
	case !settled && !source.Fixed():
		return known.source, known.mapURL, errMoving
	}
	if !settled || !hasURL || !hasText {
		return source, known.mapURL, errMoving
	}
	return source, url, nil
}

// errMoving reports that V8 may have moved what was being read.
var errMoving = errors.New("V8 is moving objects")

// hasMemory reports whether the target's memory can still be read: a process loses it
// shortly before it has ended.
func (g *target) hasMemory() bool {
	if g.closed || len(g.code) == 0 {
		return false
	}
	_, err := g.process.ReadAt(make([]byte, 1), g.code[0].Start)
	return err == nil
}
