package main

import (
	"bytes"
	"io"
	"regexp"
	"strings"
)

// A lineWriter highlights what is written to it line by line and passes it on.
// After an error it only returns that error.
type lineWriter struct {
	w    io.Writer
	mark func(line string) string
	part []byte // of an unfinished line
	err  error
}

// longestLine bounds how much of a line is kept; a longer line is highlighted
// in parts.
const longestLine = 1 << 20

func (l *lineWriter) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	end := bytes.LastIndexByte(l.part, '\n') + 1
	if end == 0 && len(l.part) > longestLine {
		end = len(l.part)
	}
	if end > 0 {
		l.hand(l.part[:end])
		l.part = append(l.part[:0], l.part[end:]...)
	}
	return len(b), l.err
}

func (l *lineWriter) hand(lines []byte) {
	if l.err != nil {
		return
	}
	var marked strings.Builder
	marked.Grow(len(lines))
	for line := range strings.Lines(string(lines)) {
		text, ended := strings.CutSuffix(line, "\n")
		marked.WriteString(l.mark(text))
		if ended {
			marked.WriteByte('\n')
		}
	}
	_, l.err = io.WriteString(l.w, marked.String())
}

// flush writes an unfinished line.
func (l *lineWriter) flush() error {
	l.hand(l.part)
	l.part = nil
	return l.err
}

// What highlight colours: text in quotes, words between angle brackets, addresses.
var marked = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|<[a-zA-Z][^<>]*>|\b[0-9a-f]{9,16}\b`)

// highlight gives a line colour.
func highlight(line string) string {
	const (
		green, yellow, cyan = "\x1b[32m", "\x1b[33m", "\x1b[36m"
		normal              = "\x1b[0m"
	)
	return marked.ReplaceAllStringFunc(line, func(found string) string {
		color := cyan
		switch found[0] {
		case '"':
			color = green
		case '<':
			color = yellow
		}
		return color + found + normal
	})
}
