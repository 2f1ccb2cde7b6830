package cli

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal says whether w is one.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Color says whether w takes colour: a terminal that can, and whose user does
// not say otherwise by NO_COLOR.
func Color(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Terminal(w)
}

// A Progress is one line that changes in place, on a terminal only. It is for
// one goroutine.
type Progress struct {
	w     io.Writer
	shown bool
}

// NewProgress returns a progress line on w, one that shows nothing where w is
// not a terminal.
func NewProgress(w io.Writer) *Progress {
	if !Terminal(w) {
		w = io.Discard
	}
	return &Progress{w: w}
}

const clearLine = "\r\x1b[K"

// Printf shows the line in place of the last one.
func (p *Progress) Printf(format string, args ...any) {
	fmt.Fprintf(p.w, clearLine+format, args...)
	p.shown = true
}

// Clear takes the line away, so that other text may be written.
func (p *Progress) Clear() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
}
