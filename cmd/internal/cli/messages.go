package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ustack/symbolize/contain"
)

// Messages are what a command says on stderr while it works: lines, and on a
// terminal one line of progress that changes in place. Its methods may be called
// concurrently.
type Messages struct {
	mutex    sync.Mutex
	w        io.Writer
	name     string // of the command
	terminal bool
	verbose  bool
	shown    bool  // a line of progress is
	reason   error // why to hold a warning back
	held     error // the first of those
	more     int   // after it
}

// NewMessages returns those of cmd.
func NewMessages(cmd *cobra.Command) *Messages {
	w := cmd.ErrOrStderr()
	return &Messages{w: w, name: cmd.Name(), terminal: Terminal(w), verbose: verbose(cmd)}
}

// Started says that the work has begun, in the words of the format, and what ends
// it: d, or if that is zero only Ctrl-C.
func (m *Messages) Started(d Duration, format string, args ...any) {
	end := "Ctrl-C to end."
	if d > 0 {
		end = fmt.Sprintf("For %v, or until Ctrl-C.", time.Duration(d))
	}
	m.line(fmt.Sprintf(format, args...) + " " + end)
}

// Notef writes a line that begins with the command's name, safe for a terminal
// whatever the arguments hold.
func (m *Messages) Notef(format string, args ...any) {
	m.line(m.name + ": " + Printable(fmt.Sprintf(format, args...)))
}

// Warn notes what went wrong but does not end the work.
func (m *Messages) Warn(err error) {
	if m.hold(err) {
		return
	}
	m.Notef("%s", oneLine(err))
	m.explain(err)
}

// oneLine is what err says; errors that were joined are on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// explain writes where a contained fault happened, if that is wished for.
func (m *Messages) explain(err error) {
	var fault *contain.Fault
	if m.verbose && errors.As(err, &fault) {
		m.line(strings.TrimSpace(string(fault.Stack)))
	}
}

// Hold keeps back the warnings that wrap reason from now on, each about a process.
func (m *Messages) Hold(reason error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.reason = reason
}

func (m *Messages) hold(err error) bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	switch {
	case m.reason == nil || !errors.Is(err, m.reason):
		return false
	case m.held == nil:
		m.held = err
	default:
		m.more++
	}
	return true
}

// Release writes the first warning that was held back, and how many more there
// were. Later ones are no longer held back.
func (m *Messages) Release() {
	m.mutex.Lock()
	held, more := m.held, m.more
	m.reason, m.held, m.more = nil, nil, 0
	m.mutex.Unlock()
	if held != nil {
		m.Notef("%s", oneLine(held))
	}
	if more > 0 {
		m.Notef("processes like it: %d more", more)
	}
}

const clearLine = "\r\x1b[K"

// Progressf shows the line of progress in place of the last one.
func (m *Messages) Progressf(format string, args ...any) {
	if !m.terminal {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fmt.Fprintf(m.w, clearLine+format, args...)
	m.shown = true
}

// Clear takes the line of progress away, so that other text may be written.
func (m *Messages) Clear() {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.clear()
}

func (m *Messages) clear() {
	if m.shown {
		fmt.Fprint(m.w, clearLine)
		m.shown = false
	}
}

func (m *Messages) line(text string) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.clear()
	fmt.Fprintln(m.w, text)
}
