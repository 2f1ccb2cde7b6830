package nodejs

import (
	"slices"
	"strings"

	"ustack/symbolize/v8/stack"
)

// fatal are the functions with which V8 and Node.js abort a process.
var fatal = []string{
	"V8_Fatal", "v8::Utils::ReportOOMFailure", "v8::Utils::ReportApiFailure",
	"v8::internal::V8::FatalProcessOutOfMemory", "node::OnFatalError", "node::OOMErrorHandler", "node::Assert",
	"napi_fatal_error",
}

// Limits on the search for texts in these functions' stack frames.
const (
	maxFatalBytes   = 64 << 10
	minFatalText    = 8
	maxFatalText    = 512
	maxFatalTexts   = 2 // where it happened, and what
	messageStarts   = 0xdecade10
	messageEnds     = 0xdecade11
	messageCapacity = 512 // bytes between the two (src/base/logging.cc)
)

// FatalError returns what V8 or Node.js said when it aborted the process, such as that
// the heap was full; empty if it did not abort, or the text is not found. It is put
// together from texts that the aborting functions refer to.
func (p *Process) FatalError() string {
	if len(p.stacks.Threads()) == 0 || p.v8.Module == nil {
		return ""
	}
	t := p.stacks.Threads()[0]
	frames := p.stacks.Stack(t).Frames
	at := slices.IndexFunc(frames, func(f stack.Frame) bool { return slices.Contains(fatal, f.Name) })
	if at < 0 {
		return ""
	}
	low, high := t.Registers.SP, frames[at].FP
	if high < low || high-low > maxFatalBytes {
		return ""
	}
	if message := p.failureMessage(low, high); message != "" {
		return message
	}
	var texts []string
	for offset := uint64(0); offset < high-low && len(texts) < maxFatalTexts; offset += wordSize {
		pointer, err := p.space.Word(low + offset)
		if err != nil {
			break
		}
		if text := p.message(pointer); text != "" && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, " ")
}

// message returns the text at an address in V8's or Node.js's file, if it is meant for
// people.
func (p *Process) message(address uint64) string {
	part, ok := p.space.Part(address)
	if !ok || part.Module != p.v8.Module {
		return ""
	}
	if r, ok := p.space.Region(address); !ok || r.Write {
		return ""
	}
	before := make([]byte, 1)
	if _, err := p.space.ReadAt(before, address-1); err != nil || before[0] != 0 {
		return "" // inside a text
	}
	text, err := p.space.CString(address)
	if err != nil || len(text) < minFatalText || len(text) > maxFatalText || !strings.Contains(text, " ") {
		return ""
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		return ""
	}
	return text
}

// failureMessage returns the text that V8 leaves on the stack for readers of a core
// when one of its checks fails.
func (p *Process) failureMessage(low, high uint64) string {
	for offset := uint64(0); offset < high-low; offset += wordSize {
		first, err := p.space.Word(low + offset)
		if err != nil {
			return ""
		}
		if first != messageStarts {
			continue
		}
		message := low + offset + wordSize
		last, err := p.space.Word(message + messageCapacity)
		if err != nil || last != messageEnds {
			continue
		}
		if text, err := p.space.CString(message); err == nil && len(text) <= messageCapacity {
			return text
		}
	}
	return ""
}
