// Package lazyregexp has regular expressions that are compiled when they are first used:
// most runs of a tool need few of them.
package lazyregexp

import (
	"regexp"
	"sync"
)

// A Regexp is a regular expression. It is safe for concurrent use.
type Regexp struct {
	compile func() *regexp.Regexp
}

// New returns the expression. Its first use panics if it is none.
func New(expression string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// Compiled returns the expression, compiled.
func (r *Regexp) Compiled() *regexp.Regexp { return r.compile() }

// MatchString is that of [regexp.Regexp].
func (r *Regexp) MatchString(s string) bool { return r.compile().MatchString(s) }

// FindStringSubmatch is that of [regexp.Regexp].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compile().FindStringSubmatch(s) }
