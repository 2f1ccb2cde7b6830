package core

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// DefaultPattern is how cores are named by default.
const DefaultPattern = "core.{comm}.{pid}.{time}"

const (
	timeForm    = "20060102T150405.000" // of {time}: sorts, needs no quoting, distinguishes two cores of one second
	replacement = '_'                   // replaces each byte of a process's name that is unsafe in a file name
)

// Facts are what a pattern may refer to.
type Facts struct {
	Comm string    // {comm}, the process's short name; any bytes
	PID  int       // {pid}
	TID  int       // {tid}, the thread that it is about
	Time time.Time // {time}, in its own time zone
}

// Name returns the path that pattern stands for: each {word} is replaced by the
// fact of that name. An empty pattern means DefaultPattern, and a pattern that
// is a directory or ends in a slash means DefaultPattern in that directory.
// What the process says about itself never adds a directory to the path, or a
// leading dot.
func Name(pattern string, facts Facts) (string, error) {
	switch info, err := os.Stat(pattern); {
	case pattern == "":
		pattern = DefaultPattern
	case strings.HasSuffix(pattern, "/"), err == nil && info.IsDir():
		pattern = filepath.Join(pattern, DefaultPattern)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("name a core: %w", err)
	}
	var path strings.Builder
	for rest := pattern; rest != ""; {
		literal, word, open := strings.Cut(rest, "{")
		path.WriteString(literal)
		if !open {
			break
		}
		word, after, closed := strings.Cut(word, "}")
		value, known := facts.value(word)
		if !closed || !known {
			return "", fmt.Errorf("name a core by %q: {%s} is not known ({comm}, {pid}, {tid} and {time} are)", pattern, word)
		}
		path.WriteString(value)
		rest = after
	}
	return path.String(), nil
}

// value returns the fact that word names in a pattern.
func (f Facts) value(word string) (string, bool) {
	switch word {
	case "comm":
		return harmless(f.Comm), true
	case "pid":
		return strconv.Itoa(f.PID), true
	case "tid":
		return strconv.Itoa(f.TID), true
	case "time":
		return f.Time.Format(timeForm), true
	}
	return "", false
}

// harmless keeps the characters of a process's name that are safe in a file
// name: letters, digits, '-', '+', '_', and '.' except at the start.
func harmless(comm string) string {
	kept := []byte(comm)
	for i, c := range kept {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '-', c == '+', c == '.' && i > 0:
		default:
			kept[i] = replacement
		}
	}
	if len(kept) == 0 {
		return string(replacement)
	}
	return string(kept)
}
