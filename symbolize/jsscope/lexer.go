package jsscope

import (
	"slices"
	"unicode"
	"unicode/utf16"
)

// A kind classifies a token.
type kind int

const (
	end        kind = iota // of the text, or of what can be parsed
	identifier             // also keywords
	private                // #name
	punctuator
	text     // a string
	number   // also a BigInt
	template // the "`" that begins one; the parser reads the rest
)

// A token is a word of the text.
type token struct {
	kind       kind
	text       string // of an identifier or a punctuator
	start, end int
	newline    bool // before it
	escaped    bool // an identifier with an escape: never a keyword
}

// A lexer reads tokens from a text in UTF-16.
type lexer struct {
	source []uint16
	pos    int
	failed bool
}

func (l *lexer) at(i int) rune {
	if i >= 0 && i < len(l.source) {
		return rune(l.source[i])
	}
	return -1
}

// fail makes all further tokens end.
func (l *lexer) fail() token {
	l.failed = true
	l.pos = len(l.source)
	return token{kind: end, start: l.pos, end: l.pos}
}

// scan reads the next token. A "/" is always a punctuator.
func (l *lexer) scan() token {
	newline, ok := l.skipBlanks()
	if !ok {
		return l.fail()
	}
	t := token{start: l.pos, newline: newline}
	switch c := l.at(l.pos); {
	case c < 0:
		t.kind = end
	case startsName(c) || c == '\\' || utf16.IsSurrogate(c):
		t.kind = identifier
		t.text, t.escaped = l.name()
	case c == '#':
		l.pos++
		t.kind = private
		t.text, _ = l.name()
	case c >= '0' && c <= '9' || c == '.' && l.at(l.pos+1) >= '0' && l.at(l.pos+1) <= '9':
		t.kind = number
		l.number()
	case c == '"' || c == '\'':
		t.kind = text
		l.quoted(c)
	case c == '`':
		t.kind = template
		l.pos++
	default:
		t.kind = punctuator
		t.text = l.punctuator()
	}
	if l.failed {
		return l.fail()
	}
	t.end = l.pos
	return t
}

// isNewline reports whether c is one of JavaScript's line terminators.
func isNewline(c rune) bool { return c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029 }

// skipBlanks skips blanks and comments; ok is false if a comment has no end.
func (l *lexer) skipBlanks() (newline, ok bool) {
	for {
		c := l.at(l.pos)
		switch {
		case isNewline(c):
			newline = true
			l.pos++
		case c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == 0xfeff || c > 0x7f && unicode.Is(unicode.Zs, c):
			l.pos++
		case c == '/' && l.at(l.pos+1) == '/', c == '#' && l.at(l.pos+1) == '!' && l.pos == 0:
			for c := l.at(l.pos); c >= 0 && !isNewline(c); c = l.at(l.pos) {
				l.pos++
			}
		case c == '/' && l.at(l.pos+1) == '*':
			l.pos += 2
			for l.at(l.pos) != '*' || l.at(l.pos+1) != '/' {
				if l.at(l.pos) < 0 {
					return newline, false
				}
				newline = newline || isNewline(l.at(l.pos))
				l.pos++
			}
			l.pos += 2
		default:
			return newline, true
		}
	}
}

func startsName(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '$' || c == '_' || c > 0x7f && (unicode.IsLetter(c) || unicode.Is(unicode.Nl, c))
}

func continuesName(c rune) bool {
	return startsName(c) || c >= '0' && c <= '9' || c == 0x200c || c == 0x200d ||
		c > 0x7f && unicode.In(c, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc)
}

// name reads an identifier, decoding its escapes.
func (l *lexer) name() (name string, escaped bool) {
	var units []uint16
	from := l.pos
	for {
		c := l.at(l.pos)
		switch {
		case continuesName(c) || utf16.IsSurrogate(c):
			units = append(units, uint16(c))
			l.pos++
		case c == '\\' && l.at(l.pos+1) == 'u':
			escaped = true
			units = utf16.AppendRune(units, l.escape())
		default:
			if l.pos == from {
				l.failed = true
			}
			return string(utf16.Decode(units)), escaped
		}
	}
}

// escape reads \uXXXX or \u{X}.
func (l *lexer) escape() rune {
	l.pos += 2
	braces := l.at(l.pos) == '{'
	if braces {
		l.pos++
	}
	var c rune
	for digits := 0; braces || digits < 4; digits++ {
		d := l.at(l.pos)
		switch {
		case braces && d == '}':
			l.pos++
			return c
		case d >= '0' && d <= '9':
			c = c<<4 | (d - '0')
		case d|0x20 >= 'a' && d|0x20 <= 'f':
			c = c<<4 | (d | 0x20 - 'a' + 10)
		default:
			l.failed = true
			return 0
		}
		if c > unicode.MaxRune {
			l.failed = true
			return 0
		}
		l.pos++
	}
	return c
}

// number skips a number of any base.
func (l *lexer) number() {
	hex := l.at(l.pos) == '0' && l.at(l.pos+1)|0x20 == 'x'
	for {
		c := l.at(l.pos)
		switch {
		case !hex && c|0x20 == 'e' && (l.at(l.pos+1) == '+' || l.at(l.pos+1) == '-'):
			l.pos += 2
		case continuesName(c) || c == '.' && !hex:
			l.pos++
		default:
			return
		}
	}
}

// quoted skips a string.
func (l *lexer) quoted(quote rune) {
	for l.pos++; ; l.pos++ {
		switch c := l.at(l.pos); {
		case c == quote:
			l.pos++
			return
		case c == '\\':
			l.pos++
		case c < 0 || c == '\n' || c == '\r':
			l.failed = true
			return
		}
	}
}

// regexp skips a regular expression whose "/" is at from.
func (l *lexer) regexp(from int) {
	class := false
	for l.pos = from + 1; ; l.pos++ {
		switch c := l.at(l.pos); {
		case c < 0 || isNewline(c):
			l.failed = true
			return
		case c == '\\':
			l.pos++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			for l.pos++; continuesName(l.at(l.pos)); l.pos++ {
			}
			return
		}
	}
}

// chunk skips the characters of a template up to "${", which it also skips, or to its end.
func (l *lexer) chunk() (more bool) {
	for ; ; l.pos++ {
		switch c := l.at(l.pos); {
		case c < 0:
			l.failed = true
			return false
		case c == '`':
			l.pos++
			return false
		case c == '\\':
			l.pos++
		case c == '$' && l.at(l.pos+1) == '{':
			l.pos += 2
			return true
		}
	}
}

// punctuators, those first that begin with others.
var punctuators = []string{
	">>>=", "...", "===", "!==", "**=", "<<=", ">>=", ">>>", "&&=", "||=", "??=",
	"=>", "==", "!=", "<=", ">=", "&&", "||", "??", "?.", "++", "--", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<", ">>", "**",
	"{", "}", "(", ")", "[", "]", ";", ",", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "!", "~", "?", ":", "=", ".", "@",
}

func (l *lexer) punctuator() string {
	for _, p := range punctuators {
		if !slices.Equal(l.source[l.pos:min(l.pos+len(p), len(l.source))], utf16.Encode([]rune(p))) {
			continue
		}
		if next := l.at(l.pos + 2); p == "?." && next >= '0' && next <= '9' {
			continue // a?.5:b
		}
		l.pos += len(p)
		return p
	}
	l.failed = true
	return ""
}
