package main

import "strings"

// lines returns the lines of commands in a shell's words: one command with its arguments, or
// several commands, each in quotes. A first word with blanks is a line of its own, whatever the
// others are, so that a wrong one loses no other.
func (r registry) lines(words []string) []string {
	if len(words) < 2 || strings.ContainsAny(words[0], blanks) {
		return words
	}
	each := true
	for _, word := range words {
		each = each && r.isLine(word)
	}
	line := strings.Join(words, " ")
	if each && !r.isLine(line) {
		return words
	}
	return []string{line}
}

// isLine reports whether commands can be run as the line has them.
func (r registry) isLine(line string) bool {
	statements, err := parse(line)
	for _, s := range statements {
		for i, c := range s.calls {
			if _, prepared := r.prepare(c, i > 0, nil); prepared != nil {
				return false
			}
		}
	}
	return err == nil && len(statements) > 0
}
