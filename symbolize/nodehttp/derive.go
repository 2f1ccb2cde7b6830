package nodehttp

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/arch/x86/x86asm"
)

const (
	// src/node_http_parser.cc: class Parser : AsyncWrap, StreamListener { llhttp_t parser_; … },
	// src/stream_base.h: a StreamListener is a vtable, its stream and the previous listener.
	listenerStream = 8
	llhttpAfter    = 16 // from the stream
	// deps/llhttp: what is read of llhttp_t, so that nothing else can be there.
	llhttpBytes = 88
	// src/stream_wrap.h: from a LibuvStreamWrap's StreamBase to the pointer to its handle.
	streamHandle = 0x40
	// A Parser has no more bytes: 64 strings for fields and values.
	maxParser = 1 << 14
)

// LoopMetrics is how far after the beginning of a loop (uv_loop_t) the address of its
// metrics is, in bytes.
const LoopMetrics = 0x28

// instructions yields the instructions of code with their places, up to the first that is
// not understood.
func instructions(code []byte) iter.Seq2[int, x86asm.Inst] {
	return func(yield func(int, x86asm.Inst) bool) {
		for at := 0; at < len(code); {
			inst, err := x86asm.Decode(code[at:], 64)
			if err != nil || !yield(at, inst) {
				return
			}
			at += inst.Len
		}
	}
}

// target returns the address that a direct call at an address leads to; 0 for others.
func target(inst x86asm.Inst, at uint64) uint64 {
	to, ok := inst.Args[0].(x86asm.Rel)
	if !ok {
		return 0
	}
	return at + uint64(inst.Len) + uint64(int64(to))
}

// parser finds where a Parser has its stream: before llhttp's parser, whose place is what
// llhttp's callbacks subtract from their argument.
func (f *finder) parser(l *Layout) error {
	_, listener, err := f.thunk(parserRead)
	if err != nil {
		return err
	}
	s, ok := f.function(parserBegin)
	if !ok {
		return errors.New("no callback for the beginning of a message")
	}
	code, _ := f.Code(s.Name)
	llhttp, ok := subtracted(code)
	if !ok || llhttp != listener+listenerStream+llhttpAfter {
		return fmt.Errorf("a Parser's llhttp_t is %#x bytes after its beginning, its StreamListener %#x", llhttp, listener)
	}
	l.Stream = listener + listenerStream
	return nil
}

// subtracted returns what code subtracts first from its first argument.
func subtracted(code []byte) (n uint64, ok bool) {
	var copies []x86asm.Arg
	for _, inst := range instructions(code) {
		switch m, isMem := inst.Args[1].(x86asm.Mem); {
		case inst.Op == x86asm.LEA && isMem && m.Base == x86asm.RDI && m.Index == 0 && m.Disp < 0:
			return uint64(-m.Disp), true
		case inst.Op == x86asm.MOV && inst.Args[1] == x86asm.RDI:
			copies = append(copies, inst.Args[0])
		case inst.Op == x86asm.ADD && (inst.Args[0] == x86asm.RDI || slices.Contains(copies, inst.Args[0])):
			if imm, ok := inst.Args[1].(x86asm.Imm); ok && imm < 0 {
				return uint64(-imm), true
			}
		case inst.Op == x86asm.CALL:
			return 0, false
		}
	}
	return 0, false
}

// message finds where a Parser has the target of a request, which it forgets when the next
// message begins, and when that was.
func (f *finder) message(l *Layout) error {
	part := parserBegin22
	s, ok := f.function(part)
	if !ok {
		s, _ = f.function(parserBegin)
	}
	code, _ := f.Code(s.Name)
	address, _ := f.Address(s.Name)
	clock, ok := f.Address(hrtime)
	if !ok {
		return errors.New("no " + hrtime)
	}
	var started uint64
	started, l.URL = storesOf(code, address, clock)
	llhttpEnd := l.Stream + llhttpAfter + llhttpBytes
	if started <= l.URL || started-l.URL >= MaxTail || l.URL < llhttpEnd || started >= maxParser {
		return fmt.Errorf("a Parser's target is %#x bytes after its beginning, its time %#x", l.URL, started)
	}
	l.Started = started - l.URL
	return nil
}

// storesOf follows the beginning of a message. It returns where the result of the clock is
// stored, and the first of three words of which the first and last are cleared, and the
// second, a byte, is compared before.
func storesOf(code []byte, address, clock uint64) (started, url uint64) {
	var compared, cleared []uint64
	called := false
	for at, inst := range instructions(code) {
		m, isMem := inst.Args[0].(x86asm.Mem)
		isField := isMem && m.Base != x86asm.RSP && m.Base != x86asm.RBP && m.Base != x86asm.RIP && m.Index == 0 && m.Disp > 0
		switch {
		case inst.Op == x86asm.CALL:
			called = called || target(inst, address+uint64(at)) == clock
		case inst.Op == x86asm.CMP && isField && inst.MemBytes == 1:
			compared = append(compared, uint64(m.Disp))
		case inst.Op == x86asm.MOV && isField && inst.Args[1] == x86asm.RAX && called && started == 0:
			started = uint64(m.Disp)
		case inst.Op == x86asm.MOV && isField && inst.MemBytes == 8 && inst.Args[1] == x86asm.Imm(0):
			cleared = append(cleared, uint64(m.Disp))
		}
	}
	for _, at := range cleared {
		if slices.Contains(cleared, at+16) && slices.Contains(compared, at+8) && (url == 0 || at < url) {
			url = at
		}
	}
	return started, url
}

// streams finds where a stream has what is below it.
func (f *finder) streams(l *Layout) error {
	s, _, err := f.thunk(tryWrite)
	if err != nil {
		return err
	}
	code, _ := f.Code(s.Name)
	if !loads(code, x86asm.RDI, streamHandle) {
		return fmt.Errorf("a stream's handle is not %#x bytes after its StreamBase", streamHandle)
	}
	_, tlsBase, err := f.thunk(tlsWrite)
	if err != nil {
		return err
	}
	_, listener, err := f.thunk(tlsRead)
	if err != nil {
		return err
	}
	if listener <= tlsBase {
		return fmt.Errorf("a TLSWrap's StreamListener is %#x bytes after its beginning, its StreamBase %#x", listener, tlsBase)
	}
	l.Wrapped = listener + listenerStream - tlsBase
	_, listener, err = f.thunk(http2Read)
	if err != nil {
		return err
	}
	l.Session = listener + listenerStream
	return nil
}

// loads reports whether code loads a word so many bytes from where a register points.
func loads(code []byte, from x86asm.Reg, disp int64) bool {
	for _, inst := range instructions(code) {
		if m, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.MOV && m.Base == from && m.Disp == disp {
			return true
		}
	}
	return false
}

// idle finds how long a loop was idle: what uv_metrics_idle_time loads while it holds a
// lock, and before that when the loop became idle.
func (f *finder) idle(l *Layout) error {
	code, _ := f.Code(idleTime)
	if !loads(code, x86asm.RDI, LoopMetrics) {
		return fmt.Errorf("%s does not load a loop's metrics", idleTime)
	}
	var loaded []int64
	calls := 0
	for _, inst := range instructions(code) {
		if inst.Op == x86asm.CALL {
			calls++
		}
		if m, ok := inst.Args[1].(x86asm.Mem); ok && inst.Op == x86asm.MOV && calls == 1 {
			loaded = append(loaded, m.Disp)
		}
	}
	slices.Sort(loaded)
	if len(loaded) != 2 || loaded[0] < 0 || loaded[1] != loaded[0]+8 {
		return fmt.Errorf("%s loads from %v", idleTime, loaded)
	}
	l.Idle = uint64(loaded[1])
	return nil
}
