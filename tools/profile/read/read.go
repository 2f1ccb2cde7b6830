// Package read reads profiles: in the formats that package profile writes for other
// programs, and as DTrace, perf and other profilers write them.
//
// A file may be damaged or hostile: whatever is allocated is bounded, by a constant or
// by what was read. What a format does not say is left zero.
package read

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/tools/printable"
	"ustack/tools/profile"
)

// Bounds on what is read.
const (
	maxWhole  = 1 << 28 // bytes of a file that is not read line by line, without compression
	maxLine   = 1 << 22 // bytes of a line
	maxStacks = 1 << 20 // different stacks
	maxFrames = 1 << 20 // different frames
	maxDepth  = 1 << 12 // frames of a stack; those at the root end are cut
	maxHead   = 1 << 16 // bytes by which a format is recognized
)

// Options say how to read. The zero value is useful.
type Options struct {
	Format string // one of Formats; it is recognized by the contents if empty
	Values string // of a file with several types of values: the one to read; its default, or else the first, if empty
}

// A File is what was read.
type File struct {
	Profile *profile.Profile
	Format  string   // one of Formats
	Types   []string // of values, if the file has several: the one that was read first
}

// A format is one way to read: line by line, or a whole file.
type format struct {
	name  string
	lines func(*lines, *builder) error
	whole func([]byte, *builder) error
}

// formats lists every format.
func formats() []format {
	return []format{
		{name: "json", whole: readJSON},
		{name: "pprof", whole: readPprof},
		{name: "speedscope", whole: readSpeedscope},
		{name: "cpuprofile", whole: readCPUProfile},
		{name: "perf", lines: readPerf},
		{name: "dtrace", lines: readDTrace},
		{name: "collapsed", lines: readCollapsed},
		{name: "stackvis", lines: readStackvis},
		{name: stackvisTree, whole: readStackvisTree},
	}
}

// stackvisTree is the format of the tree in the pages that stackvis makes. It is not
// chosen by that name.
const stackvisTree = "stackvis tree"

// Formats lists the names of the formats.
func Formats() []string {
	var names []string
	for _, f := range formats() {
		if f.name != stackvisTree {
			names = append(names, f.name)
		}
	}
	return names
}

// Profile reads a profile, and undoes gzip.
func Profile(r io.Reader, o Options) (*File, error) {
	in := bufio.NewReaderSize(r, maxHead)
	if magic, err := in.Peek(2); err == nil && string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("undo gzip: %w", err)
		}
		in = bufio.NewReaderSize(unzipped, maxHead)
	}
	head, err := in.Peek(maxHead)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("offset %d: %w", len(head), err)
	}
	if len(head) == 0 {
		return nil, errors.New("the file is empty")
	}
	if bytes.HasPrefix(head, utf8Mark) {
		_, _ = in.Discard(len(utf8Mark)) // of what is buffered
		head = head[len(utf8Mark):]
	}
	return read(in, head, o)
}

// utf8Mark is what some programs write in front of UTF-8.
var utf8Mark = []byte("\ufeff")

// read reads a file that begins with head.
func read(in *bufio.Reader, head []byte, o Options) (*File, error) {
	isObject := bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n"), []byte("{"))
	var all []byte
	name := o.Format
	if isObject || name == "" && isBinary(head) {
		var err error
		if all, err = whole(in); err != nil {
			return nil, err
		}
	}
	switch {
	case isObject && (name == "" || name == "stackvis"):
		var err error
		if name, err = objectFormat(all); err != nil {
			return nil, err
		}
	case name == "" && all != nil:
		name = "pprof"
	case name == "":
		name = textFormat(head)
	}
	at := slices.IndexFunc(formats(), func(f format) bool { return f.name == name })
	if at < 0 {
		return nil, fmt.Errorf("recognize the format: it is not one of %s (name it, if it is)", strings.Join(Formats(), ", "))
	}
	f, b := formats()[at], newBuilder(o.Values)
	switch {
	case f.lines != nil && all != nil:
		in = bufio.NewReader(bytes.NewReader(all))
	case f.whole != nil && all == nil:
		var err error
		if all, err = whole(in); err != nil {
			return nil, err
		}
	}
	err := f.parse(in, all, b)
	if err == nil {
		err = b.finish()
	}
	shown, _, _ := strings.Cut(f.name, " ")
	if err != nil {
		return nil, fmt.Errorf("read as %s: %w", shown, err)
	}
	return &File{Profile: b.profile.Merge(), Format: shown, Types: b.types}, nil
}

func (f format) parse(in *bufio.Reader, all []byte, b *builder) error {
	if f.lines != nil {
		return f.lines(newLines(in), b)
	}
	return f.whole(all, b)
}

// whole reads a file that is not read line by line.
func whole(in io.Reader) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(in, maxWhole+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("offset %d: %w", len(all), err)
	case len(all) > maxWhole:
		return nil, fmt.Errorf("the file is larger than %d MB", maxWhole>>20)
	}
	return all, nil
}

// isBinary reports whether a file is not text: it has a byte that text does not have.
func isBinary(head []byte) bool {
	return bytes.ContainsFunc(head, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r\f\x1b", r) })
}

// Lines are read one by one, and counted.
type lines struct {
	scanner *bufio.Scanner
	number  int
	text    string
}

func newLines(in io.Reader) *lines {
	s := bufio.NewScanner(in)
	s.Buffer(nil, maxLine)
	return &lines{scanner: s}
}

// next reads a line, without blanks at its end.
func (l *lines) next() bool {
	if !l.scanner.Scan() {
		return false
	}
	l.number++
	l.text = strings.TrimRight(l.scanner.Text(), " \t\r")
	return true
}

// err returns the error that ended the lines, nil if that was the end of the file.
func (l *lines) err() error {
	err := l.scanner.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("line %d: it is longer than %d bytes", l.number+1, maxLine)
	case err != nil:
		return fmt.Errorf("line %d: %w", l.number+1, err)
	}
	return nil
}

// errorf returns an error about the current line.
func (l *lines) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %w", l.number, fmt.Errorf(format, args...))
}

// maxQuoted bounds the characters of a file that an error quotes.
const maxQuoted = 60

// quote returns text, cut and without control characters, in quotes.
func quote(text string) string {
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return `"` + printable.String(cmp.Or(text, " ")) + `"`
}
