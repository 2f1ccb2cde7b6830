package trace

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/contain"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/kallsyms"
)

// The parts of a frame's word: its kind in the top bits, then what distinguishes it
// from others of that kind.
const (
	kindShift = bpf.TraceFrameBitsFRAME_KIND_SHIFT
	tierShift = bpf.TraceFrameBitsFRAME_ID_BITS
	typeShift = bpf.TraceFrameBitsFRAME_PC_BITS
	idMask    = 1<<tierShift - 1
	pcMask    = 1<<typeShift - 1
	isReturn  = 1 << typeShift // of native code: the address is where a call returns to
)

// patience is the least time between two reads of a process's mappings after one
// that did not explain an address: that is junk, most likely.
const patience = 50 * time.Millisecond

func kindOf(word uint64) bpf.TraceFrameKind { return bpf.TraceFrameKind(word >> kindShift) }

// A Stack is one stack as the kernel sent it.
type Stack struct {
	PID, TID  int
	Thread    string // the thread's name at the time
	Truncated bool   // deeper than the kernel records
	Addon     bool   // an add-on's code is on it, or code not described yet
	NewCode   bool   // it runs through code not described yet
	broken    bool
	owner     *target
	words     []uint64
	positions []uint64 // of the frames, by their distance from the root: words may have more at the leaf
}

// Stack handles a kernel record about a stack. It names the native frames at once:
// their process may be gone by the time Frames is called.
func (t *Table) Stack(raw []byte) (hash uint64, stack Stack) {
	r := Decode[bpf.TraceStack](raw)
	t.mutex.Lock()
	defer t.mutex.Unlock()
	s := Stack{
		PID: int(r.Ids >> 32), TID: int(uint32(r.Ids)),
		Thread:    string(r.Comm[:slices.Index(append(r.Comm[:], 0), 0)]),
		Truncated: r.Flags&uint32(bpf.TraceStackFlagSTACK_TRUNCATED) != 0,
		Addon:     r.Flags&uint32(bpf.TraceStackFlagSTACK_ADDON) != 0,
		NewCode:   r.Flags&uint32(bpf.TraceStackFlagSTACK_NEW_CODE) != 0,
		broken:    r.Flags&uint32(bpf.TraceStackFlagSTACK_BROKEN) != 0,
		owner:     t.owners[uint32(r.Owner>>32)],
	}
	for _, f := range r.Frames[:min(int(r.Count), len(r.Frames))] {
		s.words = append(s.words, f.Word)
		s.positions = append(s.positions, f.Position)
	}
	if s.owner != nil {
		s.words = t.nameWasm(s.owner, s.words)
		t.settle(s.owner, s.words, r.Flags&uint32(bpf.TraceStackFlagSTACK_NEW_CODE) != 0 || !s.owner.findsStrays(s.positions))
		t.readPositions(s.owner, r) // in mappings as they are now
	}
	return r.Hash, s
}

// settle names the addresses among words while the target's mappings can be read.
// It rereads the mappings if the stack runs through code that is not in them.
func (t *Table) settle(g *target, words []uint64, rescan bool) {
	rescan = rescan || !g.finds(words)
	if rescan && time.Since(g.described) > g.patience && g.alive() {
		if err := t.describe(g); g.failed(err) {
			t.warn(err)
		}
		g.patience = 0
		if !g.finds(words) {
			g.patience = patience
		}
	}
	for i, word := range words {
		if hasPC(word) {
			t.native(g, placeOf(words, i))
		}
	}
}

// A place is where a frame is in machine code.
type place struct {
	pc     uint64 // the next instruction, or the one that a call returns to
	within uint64 // an address of the same function: a call may be a function's last instruction
}

// placeOf returns the place given by the i-th of a stack's words.
func placeOf(words []uint64, i int) place {
	word := words[i]
	p := place{pc: word & pcMask, within: word & pcMask}
	returned := word&isReturn != 0
	switch kindOf(word) {
	case bpf.TraceFrameKindFRAME_NATIVE:
	case bpf.TraceFrameKindFRAME_KERNEL:
		p = place{pc: word, within: word}
		returned = i > 0
	default:
		returned = i > 0 && kindOf(words[i-1]) != bpf.TraceFrameKindFRAME_KERNEL
	}
	if returned {
		p.within--
	}
	return p
}

// finds reports whether all addresses among words are in mappings.
func (g *target) finds(words []uint64) bool {
	for i, word := range words {
		if hasPC(word) && g.find(placeOf(words, i).within) == nil {
			return false
		}
	}
	return true
}

// hasPC reports whether the frame's word holds an address in the process.
func hasPC(word uint64) bool {
	switch kindOf(word) {
	case bpf.TraceFrameKindFRAME_NATIVE, bpf.TraceFrameKindFRAME_CODE, bpf.TraceFrameKindFRAME_LOST:
		return true
	case bpf.TraceFrameKindFRAME_TYPED:
		return word&pcMask != 0
	}
	return false
}

// find returns the executable mapping that holds pc, or nil.
func (g *target) find(pc uint64) *mapping {
	at, ok := slices.BinarySearchFunc(g.code, pc, func(m mapping, pc uint64) int { return cmp.Compare(m.Start, pc) })
	if !ok {
		at--
	}
	if at < 0 || pc >= g.code[at].End {
		return nil
	}
	return &g.code[at]
}

// native names the machine code at a place. It caches the frame unless it is unknown.
func (t *Table) native(g *target, at place) symbolize.Frame {
	f, ok := g.natives[at]
	if !ok {
		f = t.resolve(g, at)
		if f.Name != symbolize.Unknown && len(g.natives) < maxNatives {
			g.natives[at] = f
		}
	}
	return f
}

func (t *Table) resolve(g *target, at place) symbolize.Frame {
	m := g.find(at.within)
	if m == nil {
		return symbolize.Frame{Name: symbolize.Unknown, Offset: at.pc}
	}
	if m.Anonymous() {
		return t.jitted(g, at)
	}
	var file *elfsym.File
	if m.binary != nil {
		file = m.binary.elf
	}
	return m.ofFile().Native(file, at.pc, at.within)
}

// jitted names code that is in no file, from the perf map if the process writes one.
func (t *Table) jitted(g *target, at place) symbolize.Frame {
	var f symbolize.Frame
	ok, err := false, error(nil)
	if !g.closed {
		f, ok, err = g.perf.lookup(&t.files, g.process, at.within)
	}
	if g.failed(err) {
		t.warn(err)
	}
	if !ok {
		return symbolize.Frame{Name: symbolize.Unknown, Module: jit, Offset: at.pc}
	}
	f.Offset += at.pc - at.within
	return f
}

// position returns the position of the i-th of the stack's words.
func (s *Stack) position(i int) uint64 {
	if i -= len(s.words) - len(s.positions); i < 0 {
		return 0
	}
	return s.positions[i]
}

// Frames returns the stack with names, leaf first, and how many of its frames could
// not be explained.
func (t *Table) Frames(s Stack) (frames []symbolize.Frame, unknown int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	frames, unknown, err := t.name(s)
	if err != nil {
		t.warn(err)
		return []symbolize.Frame{{Name: symbolize.Unknown}}, 1
	}
	return frames, unknown
}

func (t *Table) name(s Stack) (frames []symbolize.Frame, unknown int, err error) {
	defer contain.Panic(&err, "name a stack of process %d", s.PID)
	if s.owner != nil { // a library may have been loaded since
		t.settle(s.owner, s.words, false)
	}
	frames = make([]symbolize.Frame, 0, len(s.words)+1)
	for i, word := range s.words {
		f := t.frame(s.owner, word, placeOf(s.words, i))
		last := len(frames) - 1
		if f.Kind == symbolize.JS && f.Tier == symbolize.NoTier && last >= 0 && inHandler(frames[last]) {
			f.Tier = symbolize.Interpreted
		}
		if f.Name == symbolize.Unknown || f == unknownWasm {
			unknown++
		}
		if f.Kind == symbolize.JS {
			frames = append(frames, t.execute(s.owner, word, s.position(i), &f)...)
			last = len(frames) - 1
		}
		if last >= 0 && isWrapper(f) && frames[last] == f {
			continue // the wrapper's code, and the function it is called for
		}
		frames = append(frames, f)
	}
	nameRegExps(frames)
	if s.owner != nil && !s.Truncated {
		var started bool
		if frames, started = s.owner.nameStart(s.words, frames); started {
			return frames, unknown, nil
		}
	}
	switch {
	case s.Truncated:
		frames = append(frames, symbolize.Frame{Name: symbolize.Truncated})
	case s.broken && !isOutermost(frames):
		frames = append(frames, symbolize.Frame{Name: symbolize.Broken})
	}
	return frames, unknown, nil
}

func (t *Table) frame(g *target, word uint64, at place) symbolize.Frame {
	switch kindOf(word) {
	case bpf.TraceFrameKindFRAME_KERNEL:
		return t.kernelFrame(at)
	case bpf.TraceFrameKindFRAME_GAP:
		return symbolize.Frame{Name: symbolize.Broken}
	case bpf.TraceFrameKindFRAME_JS:
		return t.jsFrame(g, word)
	case bpf.TraceFrameKindFRAME_DATA:
		return symbolize.Frame{Name: g.class(word & pcMask)}
	case bpf.TraceFrameKindFRAME_TEXT:
		fn := t.functions[word&idMask]
		if fn.regexp {
			return symbolize.Frame{Kind: symbolize.RegExp, Name: fn.name}
		}
		return symbolize.Frame{Name: fn.name}
	case bpf.TraceFrameKindFRAME_NAMED:
		return t.named[word&idMask].full()
	}
	if g == nil {
		return symbolize.Frame{Name: symbolize.Unknown, Offset: word & pcMask}
	}
	f := t.native(g, at)
	switch kindOf(word) {
	case bpf.TraceFrameKindFRAME_TYPED:
		f.Kind = symbolize.Typed
		f.Name = g.label(word, f)
		if name, ok := wrapperOf(f.Name); ok {
			f = symbolize.Frame{Kind: symbolize.Wasm, Name: name}
		}
	case bpf.TraceFrameKindFRAME_CODE:
		f.Kind = symbolize.Typed
		f.Name = strings.TrimPrefix(f.Name, builtinPrefix)
		if f.Name == symbolize.Unknown {
			f.Name = "[code]"
		}
	case bpf.TraceFrameKindFRAME_LOST:
		f.Name = symbolize.Unknown
	}
	return f
}

// builtinPrefix begins the name of each builtin's symbol.
const builtinPrefix = "Builtins_"

// label is a typed frame's name: what DTrace's ustack helper called its type, and
// the builtin that made it.
func (g *target) label(word uint64, f symbolize.Frame) string {
	label := "typed"
	if g.binary != nil && g.binary.v8 != nil {
		if name, ok := g.binary.v8.FrameTypes[uint8(word>>typeShift)]; ok {
			label = name
		}
	}
	if name, ok := strings.CutPrefix(f.Name, builtinPrefix); ok {
		return "<< " + label + " >> " + name
	}
	return "<< " + label + " >>"
}

func (t *Table) jsFrame(g *target, word uint64) symbolize.Frame {
	fn, ok := t.functions[word&idMask]
	if !ok { // its record was lost, and it was not sampled again
		return symbolize.Frame{Name: symbolize.Unknown, Module: jit}
	}
	f := symbolize.Frame{Kind: symbolize.JS, Tier: symbolize.Tier(word >> tierShift & 15), Name: fn.name}
	if fn.name == "" {
		f.Name = Anonymous
	}
	if fn.script.id == 0 {
		f.Kind, f.Tier = symbolize.Builtin, symbolize.NoTier
		if g != nil && g.binary != nil {
			f.Module = g.binary.path
		}
		return f
	}
	s := t.scripts[fn.script]
	if s.wasm {
		return symbolize.Frame{Kind: symbolize.Wasm, Name: toWasm}
	}
	f.File = s.name
	if s.source != nil && fn.start >= 0 {
		f.Line, f.Column = s.source.Position(fn.start)
	} else {
		f.Line, f.Column = fn.line, fn.column
	}
	return t.original(g, fn.script, f)
}

// Anonymous is the name of a function that has none.
const Anonymous = "(anonymous)"

// inHandler reports whether f is V8 interpreter code, which runs on the frame of the
// function that it interprets.
func inHandler(f symbolize.Frame) bool {
	return f.Kind == symbolize.Typed && (strings.HasSuffix(f.Name, "Handler") || strings.HasPrefix(f.Name, "Interpreter"))
}

// isOutermost reports whether the last frame is where threads begin, so that nothing
// above it was lost: it is in the C library, has no caller, and calls code outside it.
func isOutermost(frames []symbolize.Frame) bool {
	last := len(frames) - 1
	if last < 1 {
		return last < 0
	}
	return isLibc(frames[last]) && !isLibc(frames[last-1])
}

func isLibc(f symbolize.Frame) bool {
	name := path.Base(f.Module)
	return strings.HasPrefix(name, "libc.") || strings.HasPrefix(name, "libc-") || strings.HasPrefix(name, "ld-")
}

func (t *Table) kernelFrame(at place) symbolize.Frame {
	if t.kernel == nil && t.kernelErr == nil {
		if t.kernel, t.kernelErr = kallsyms.Open(); t.kernelErr != nil {
			t.warn(t.kernelErr)
		}
	}
	if t.kernel != nil {
		if name, module, offset, ok := t.kernel.Lookup(at.within); ok {
			return symbolize.Frame{Kind: symbolize.Kernel, Name: name, Module: cmp.Or(module, "[kernel]"), Offset: offset + (at.pc - at.within)}
		}
	}
	return symbolize.Frame{Kind: symbolize.Kernel, Name: symbolize.Unknown, Module: "[kernel]", Offset: at.pc}
}
