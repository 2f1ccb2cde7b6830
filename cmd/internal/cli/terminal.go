package cli

import (
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
