package cli

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Terminal reports whether w is a terminal.
func Terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// Size returns how many rows and columns the terminal w has; 24 and 80 if that is not known.
func Size(w io.Writer) (rows, columns int) {
	rows, columns = 24, 80
	f, ok := w.(*os.File)
	if !ok {
		return rows, columns
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return rows, columns
	}
	return int(size.Row), int(size.Col)
}

// Color reports whether w accepts colour: it is a terminal with colours, and
// NO_COLOR is not set.
func Color(w io.Writer) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && Terminal(w)
}
