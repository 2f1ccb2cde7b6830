package logsnoop

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
)

// Bounds of what is kept of lines that have not ended.
const (
	maxLine  = 1 << 20 // bytes of a line
	maxFiles = 1 << 12
	maxKept  = 64 << 20 // bytes of all lines that have not ended
)

// A fileKey says which file of a process is written to: a descriptor may become another file's, and
// so may an inode, with another generation.
type fileKey struct {
	pid                int
	inode              uint64
	device, generation uint32
}

// A file is what lines is to know of it.
type file struct {
	key     fileKey
	name    string // empty if it is not known
	named   uint64 // when that was found out
	wanted  bool   // it has had a name that is
	partial []byte // of a line that has not ended
	first   written
	skips   bool // until the line ends: its beginning is missing, or was reported
}

// A written is what one system call has written.
type written struct {
	time     uint64
	tid, fd  int
	text     []byte
	cut, gap bool // text is missing after it, before it
	frames   []symbolize.Frame
}

// lines makes lines of what is written.
type lines struct {
	report func(f *file, w written, line []byte, cut bool)
	files  map[fileKey]*file
	kept   int // bytes
	broken uint64
}

func newLines(report func(*file, written, []byte, bool)) *lines {
	return &lines{report: report, files: make(map[fileKey]*file)}
}

// file returns what is known of a file, which has no name if it is new.
func (l *lines) file(key fileKey) *file {
	f := l.files[key]
	if f == nil {
		if len(l.files) >= maxFiles {
			l.flush()
		}
		f = &file{key: key}
		l.files[key] = f
	}
	return f
}

// add reports the lines that end in what was written to f.
func (l *lines) add(f *file, w written) {
	if w.gap {
		l.breakOff(f)
	}
	text := w.text
	for {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			break
		}
		l.end(f, w, text[:end])
		text = text[end+1:]
	}
	if len(text) > 0 && !f.skips {
		l.keep(f, w, text)
	}
	if w.cut {
		l.breakOff(f)
	}
}

// end reports the line that text ends.
func (l *lines) end(f *file, w written, text []byte) {
	switch {
	case f.skips:
		f.skips = false
	case len(f.partial) > 0:
		l.kept -= len(f.partial)
		line := append(f.partial, text...)
		f.partial = nil
		l.report(f, f.first, line, false)
	default:
		l.report(f, w, text, false)
	}
}

// keep adds text to the line that has not ended. A line that is too long is reported, and cut.
func (l *lines) keep(f *file, w written, text []byte) {
	if len(f.partial) == 0 {
		f.first = w
		f.first.text = nil
	}
	f.partial = append(f.partial, text...)
	l.kept += len(text)
	if len(f.partial) > maxLine {
		l.kept -= len(f.partial)
		line := f.partial[:maxLine]
		f.partial, f.skips = nil, true
		l.report(f, f.first, line, true)
	}
	if l.kept > maxKept {
		l.flush()
	}
}

// breakOff drops the line that has not ended, and what is left of it: a part of it is missing.
func (l *lines) breakOff(f *file) {
	if !f.skips {
		l.broken++
	}
	l.kept -= len(f.partial)
	f.partial, f.skips = nil, true
}

// flush reports the lines that have not ended, and forgets all files.
func (l *lines) flush() {
	for _, f := range l.files {
		if len(f.partial) > 0 {
			l.report(f, f.first, f.partial, true)
		}
	}
	clear(l.files)
	l.kept = 0
}

// standard are the names of descriptors that every process has; they may be the same file.
var standard = map[int]string{1: "stdout", 2: "stderr"}

// namedFor is how long a file is taken to have the name that it had, in ns.
const namedFor = uint64(100 * time.Millisecond)

// nameFile finds out what a file is called that is written to now, and whether it is wanted by that
// name. One that was stays wanted when it is renamed, as logs are that are rotated.
func (s *session) nameFile(f *file, fd int, now uint64) {
	if name := nameOf(f.key, fd); name != "" {
		f.name, f.named = name, now
	}
	switch {
	case f.wanted:
	case s.o.Path == "" || s.matches(f.name):
		f.wanted = true
	case f.name == "":
		s.result.Unnamed++
	default:
		file := bpf.LogsnoopOpenFile{Inode: f.key.inode, Device: f.key.device, Generation: f.key.generation, Tgid: uint32(f.key.pid)}
		if err := s.objects.Unwanted.Put(file, now+namedFor); err != nil {
			s.Warn(fmt.Errorf("leave out %s of process %d: %w", f.name, f.key.pid, err))
		}
	}
}

// matches reports whether a file of that name is wanted.
func (s *session) matches(name string) bool {
	name = strings.TrimSuffix(name, " (deleted)")
	whole, _ := path.Match(s.o.Path, name) // it was checked
	base, _ := path.Match(s.o.Path, path.Base(name))
	return name != "" && (whole || base)
}

// nameOf returns what a file is called; "" if the descriptor is not its own any more.
func nameOf(key fileKey, fd int) string {
	link := fmt.Sprintf("/proc/%d/fd/%d", key.pid, fd)
	target, err := os.Readlink(link)
	var stat unix.Stat_t
	if err == nil { // stat follows the link and does not open the file
		err = unix.Stat(link, &stat)
	}
	if err != nil || stat.Ino != key.inode {
		return ""
	}
	return target
}
