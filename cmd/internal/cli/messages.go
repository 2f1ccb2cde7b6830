package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ustack/symbolize/contain"
	"ustack/tools/printable"
)

// Messages are what a command prints on stderr while it runs: lines, and on a
// terminal one progress line that changes in place. Its methods may be called
// concurrently.
type Messages struct {
	mutex    sync.Mutex
	w        io.Writer
	name     string // of the command
	terminal bool
	verbose  bool
	shown    bool  // a progress line is shown
	reason   error // why to hold a warning back
	held     error // the first of those
	more     int   // after it
}

// NewMessages returns the Messages of cmd.
func NewMessages(cmd *cobra.Command) *Messages {
	w := cmd.ErrOrStderr()
	return &Messages{w: w, name: cmd.CommandPath(), terminal: Terminal(w), verbose: verbose(cmd)}
}

// Started prints that the work has started, as formatted, and what ends it: d,
// or if that is zero only Ctrl-C.
func (m *Messages) Started(d Duration, format string, args ...any) {
	end := "Ctrl-C to end."
	if d > 0 {
		end = fmt.Sprintf("For %v, or until Ctrl-C.", time.Duration(d))
	}
	m.line(fmt.Sprintf(format, args...) + " " + end)
}

// Notef prints a line that starts with the command's name, safe for a terminal
// whatever the arguments contain.
func (m *Messages) Notef(format string, args ...any) {
	m.line(m.name + ": " + printable.String(fmt.Sprintf(format, args...)))
}

// Warn reports an error that does not end the work.
func (m *Messages) Warn(err error) {
	if m.hold(err) {
		return
	}
	m.Notef("%s", oneLine(err))
	m.explain(err)
}

// oneLine returns err's text with joined errors on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// explain prints where a contained fault happened, if that is to be printed.
func (m *Messages) explain(err error) {
	var fault *contain.Fault
	if m.verbose && errors.As(err, &fault) {
		m.line(strings.TrimSpace(string(fault.Stack)))
	}
}

// Hold holds back, from now on, the warnings that wrap reason, each about a
// process.
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

// Release prints the first warning that was held back, and how many more there
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

// Failures prints, if --verbose is given, what could not be read of stacks: how
// often, by cause.
func (m *Messages) Failures(byCause map[string]uint64) {
	if !m.verbose || len(byCause) == 0 {
		return
	}
	var parts []string
	for _, cause := range slices.Sorted(maps.Keys(byCause)) {
		parts = append(parts, fmt.Sprintf("%s %d", cause, byCause[cause]))
	}
	m.Notef("could not be read: %s", strings.Join(parts, ", "))
}

// Progressf shows the progress line, in place of the previous one.
func (m *Messages) Progressf(format string, args ...any) {
	if !m.terminal {
		return
	}
	m.mutex.Lock()
	defer m.mutex.Unlock()
	fmt.Fprintf(m.w, clearLine+format, args...)
	m.shown = true
}

// Clear removes the progress line, so that other text may be written.
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
