package logsnoop

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/event"
	"ustack/tools/trace"
)

// parts are the text so far of an event whose last chunk has not come.
type parts struct {
	time  uint64
	texts [len(bpf.LogsnoopChunk{}.Arguments)][]byte
	cut   bool
	gap   bool
}

// maxParts bounds the events whose chunks are still coming: of one on each CPU, and of those of which
// the rest was lost.
const maxParts = 1 << 10

// A pendingStack is what a thread's next event has as its stack.
type pendingStack struct {
	hash  uint64
	stack trace.Stack
}

// takeStack keeps a stack until its event comes.
func (s *session) takeStack(hash uint64, stack trace.Stack) {
	if len(s.stacks) >= maxParts {
		clear(s.stacks)
	}
	s.stacks[uint64(stack.PID)<<32|uint64(uint32(stack.TID))] = pendingStack{hash, stack}
}

// frames returns the frames of the event's stack, if it was taken.
func (s *session) frames(c *bpf.LogsnoopChunk) []symbolize.Frame {
	pending, ok := s.stacks[c.Ids]
	if c.Hash == 0 || !ok || pending.hash != c.Hash {
		return nil
	}
	delete(s.stacks, c.Ids)
	frames, _ := s.Table.Frames(pending.stack)
	for len(frames) > 0 && frames[0].Kind == symbolize.Kernel {
		frames = frames[1:]
	}
	return frames
}

// takeChunk adds a part to an event, and reports the event when it is complete.
func (s *session) takeChunk(raw []byte) {
	c := &s.chunk
	trace.DecodeTo(raw, c)
	text := c.Text[:min(int(c.Length), len(c.Text))]
	flags := bpf.LogsnoopChunkFlag(c.Flags)
	p := s.parts[c.Ids]
	if p != nil && p.time != c.Time { // the rest of it was lost, which the kernel has counted
		delete(s.parts, c.Ids)
		p = nil
	}
	if p == nil {
		p = &parts{time: c.Time}
	}
	argument := int(c.Argument) % len(p.texts)
	p.texts[argument] = append(p.texts[argument], text...)
	p.cut = p.cut || flags&bpf.LogsnoopChunkFlagCHUNK_CUT != 0
	p.gap = p.gap || flags&bpf.LogsnoopChunkFlagCHUNK_GAP != 0
	if flags&bpf.LogsnoopChunkFlagCHUNK_MORE != 0 {
		if len(s.parts) >= maxParts {
			clear(s.parts)
		}
		s.parts[c.Ids] = p
		return
	}
	delete(s.parts, c.Ids)
	if bpf.LogsnoopSource(c.Source) == bpf.LogsnoopSourceSOURCE_PROBE {
		s.takeProbe(c, p)
		return
	}
	s.takeWrite(c, p)
}

// ownMaxText is how many bytes of a text npm/dtrace-provider passes (MAX_TEXT of binding.c): of one
// that is longer it passes so many, or less if a character does not fit.
const ownMaxText = 256<<10 - 1

// takeProbe reports a probe that was reached.
func (s *session) takeProbe(c *bpf.LogsnoopChunk, p *parts) {
	probe := s.usdts.Of(c.What)
	e := &Event{Time: s.wall(c.Time), PID: int(c.Ids >> 32), TID: int(uint32(c.Ids)), Probe: &probe, Cut: p.cut, Frames: s.frames(c)}
	found := false
	for i, value := range c.Arguments {
		at := probe.Arguments[i]
		if at.Size == 0 { // it has no more
			break
		}
		a := Argument{Value: value, Signed: at.IsSigned != 0}
		a.IsText = event.MayBeText(at) && value != 0
		if a.IsText {
			a.Text = string(p.texts[i])
		}
		if n := len(a.Text); !e.Cut && n > ownMaxText-utf8.UTFMax && n <= ownMaxText {
			e.Cut = true
			s.result.Cut++
		}
		if a.IsText && !found {
			e.Text, found = a.Text, true
		}
		e.Arguments = append(e.Arguments, a)
	}
	s.report(e)
}

// takeWrite reports the lines that end in what was written.
func (s *session) takeWrite(c *bpf.LogsnoopChunk, p *parts) {
	key := fileKey{pid: int(c.Ids >> 32), inode: c.What, device: c.Device, generation: c.Generation}
	f := s.lines.file(key)
	if f.name == "" || c.Time >= f.named+namedFor {
		s.nameFile(f, int(c.Fd), c.Time)
	}
	if !f.wanted {
		return
	}
	var frames []symbolize.Frame
	if s.o.Stacks {
		frames = s.frames(c)
	}
	s.lines.add(f, written{
		time: c.Time, tid: int(uint32(c.Ids)), fd: int(c.Fd), text: p.texts[0], cut: p.cut, gap: p.gap, frames: frames,
	})
}

// reportLine reports a line.
func (s *session) reportLine(f *file, w written, line []byte, cut bool) {
	name := cmp.Or(f.name, fmt.Sprintf("fd %d", w.fd))
	if usual, ok := standard[w.fd]; ok && s.o.Path == "" {
		name = usual
	}
	s.report(&Event{
		Time: s.wall(w.time), PID: f.key.pid, TID: w.tid, Text: string(line), Cut: cut, Frames: w.frames,
		FD: w.fd, File: name,
	})
}
