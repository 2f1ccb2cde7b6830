package main

import "strings"

// lines returns the lines of commands in a shell's words: one command with its arguments, or
// several commands, each in quotes.
func (r registry) lines(words []string) []string {
	if len(words) < 2 {
		return words
	}
	line := strings.Join(words, " ")
	each := true
	for _, word := range words {
		each = each && r.isLine(word)
	}
	if each && (strings.ContainsAny(words[0], blanks) || !r.isLine(line)) {
		return words
	}
	return []string{line}
}

// isLine reports whether commands can be run as the line has them.
func (r registry) isLine(line string) bool {
	statements, err := parse(line)
	for _, s := range statements {
		for i, c := range s.calls {
			if _, prepared := r.prepare(c, i > 0); prepared != nil {
				return false
			}
		}
	}
	return err == nil && len(statements) > 0
}
