package jscore

import (
	"fmt"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/value"
)

// An Exception is what a program has thrown and not caught.
type Exception struct {
	Brief
	Name    string `json:"name,omitempty"` // of an error
	Message string `json:"message,omitempty"`
	Trace   string `json:"trace,omitempty"` // its stack, as the program would read it
}

// exception returns the exception of the first thread; nil if it has none that is known.
func (d *Dump) exception() *Exception {
	v, ok := d.Node().Exception()
	if !ok {
		return nil
	}
	h := d.Heap()
	e := &Exception{Brief: value.BriefOf(h, v)}
	o, err := h.Object(v)
	if err != nil || o.Map.Kind != "JSError" {
		return e
	}
	read, err := value.ReadError(h, o)
	if err != nil {
		return e
	}
	e.Name, e.Message, e.Trace = read.Name, read.Message, read.Stack
	return e
}

// maxException bounds the characters that status shows of an exception.
const maxException = 300

// line describes the exception in one line.
func (e *Exception) line() string {
	text := e.Brief.String()
	switch {
	case e.Kind == "JSError":
		text = strings.TrimSuffix(e.Name+": "+e.Message, ": ")
	case strings.HasSuffix(e.Kind, "String"):
		text = v8.QuoteExact(string(e.Text))
	}
	return fmt.Sprintf("%s (%s)", shortened(strings.ReplaceAll(text, "\n", "\\n"), maxException), e.Address)
}
