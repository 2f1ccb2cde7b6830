package main

import (
	"errors"
	"fmt"
	"strings"
)

// A statement is one pipeline of commands: what the last one prints goes to the
// shell command, if there is one.
type statement struct {
	calls []call
	shell string // after "!"; empty if there is none
}

// A call is a command's name with what is given to it.
type call struct {
	name    string
	address string // before "::", as mdb has it; empty if there is none
	args    []string
}

// maxLine bounds a line, in bytes: nobody types more.
const maxLine = 1 << 16

// parse reads a line of the command language:
//
//	line      = { statement ";" } [ "#" comment ]
//	statement = [ call { "|" call } ] [ "!" shell command to the end of the line ]
//	call      = [ [ address ] "::" ] name { argument }
//	          | [ address ] ( "/" | "=" ) format { format }
//	          | [ address ] ">" variable
//	address   = expression [ "," expression ]
//
// Blanks part words; between quotes, single or double, all characters stand for
// themselves, but for a backslash before another or a quote between double ones. A comment begins a
// statement or has a blank after its "#".
func parse(line string) ([]statement, error) {
	if len(line) > maxLine {
		return nil, fmt.Errorf("the line has %d bytes, more than %d", len(line), maxLine)
	}
	p := &parser{rest: line}
	var statements []statement
	for {
		s, err := p.statement()
		if err != nil {
			return nil, err
		}
		if len(s.calls) > 0 || s.shell != "" {
			statements = append(statements, s)
		}
		if !p.take(";") {
			return statements, nil
		}
	}
}

type parser struct{ rest string }

const blanks = " \t\r\n"

// peek skips blanks and a comment, and reports whether text comes next.
func (p *parser) peek(text string) bool {
	p.rest = strings.TrimLeft(p.rest, blanks)
	if p.rest == "#" || strings.HasPrefix(p.rest, "#") && strings.ContainsAny(p.rest[1:2], blanks) {
		p.rest = ""
	}
	return strings.HasPrefix(p.rest, text)
}

// take is peek, but also advances past text.
func (p *parser) take(text string) bool {
	found := p.peek(text)
	if found {
		p.rest = p.rest[len(text):]
	}
	return found
}

// ends reports whether a statement's calls end here.
func (p *parser) ends() bool { return p.peek(";") || p.peek("!") || p.rest == "" }

func (p *parser) statement() (statement, error) {
	var s statement
	if p.peek("#") {
		p.rest = ""
	}
	piped := false
	for piped || !p.ends() {
		c, err := p.call()
		if err != nil {
			return s, err
		}
		s.calls = append(s.calls, c)
		if piped = p.take("|"); !piped {
			break
		}
	}
	if p.take("!") {
		s.shell, p.rest = strings.Trim(p.rest, blanks), ""
		if s.shell == "" {
			return s, errors.New("no shell command after \"!\"")
		}
	}
	return s, nil
}

// verbs are the commands that follow an address directly.
const verbs = "/=>"

// beginsNumbers is what expressions begin with, and commands do not.
const beginsNumbers = "0123456789.<(*-~+^"

func (p *parser) call() (call, error) {
	address := p.address()
	words, err := p.words()
	switch {
	case err != nil:
		return call{}, err
	case len(words) == 0:
		return call{}, errors.New("no command beside \"|\"")
	}
	c := call{address: address, name: words[0], args: words[1:]}
	if before, name, ok := strings.Cut(words[0], "::"); ok {
		c.address, c.name = address+before, name
	} else if at := strings.IndexAny(words[0], verbs); at == 0 || at > 0 && mayBeExpression(words[0][:at]) {
		c.address, c.name = address+words[0][:at], words[0][at:at+1]
		if rest := words[0][at+1:]; rest != "" {
			c.args = append([]string{rest}, c.args...)
		}
	}
	if c.name == "" {
		return call{}, fmt.Errorf("no command in %q", address+words[0])
	}
	return c, nil
}

// mayBeExpression reports whether the text before a verb can be an address, and not a part of a name.
func mayBeExpression(text string) bool {
	return strings.Contains(beginsNumbers, text[:1]) && !strings.HasSuffix(text, ":")
}

// words reads the words up to the end of a call.
func (p *parser) words() ([]string, error) {
	var words []string
	for !p.ends() && !p.peek("|") {
		word, err := p.word()
		if err != nil {
			return nil, err
		}
		words = append(words, word)
	}
	return words, nil
}

// address takes an expression, with or without a count, that is before "::" or a verb; "" if
// none is.
func (p *parser) address() string {
	p.peek("") // skips blanks
	end := expressionEnd(p.rest, hexadecimal)
	if end == 0 {
		return ""
	}
	if rest, ok := strings.CutPrefix(p.rest[end:], ","); ok {
		count := expressionEnd(rest, decimal)
		if count == 0 {
			return ""
		}
		end += len(",") + count
	}
	after := p.rest[end:]
	if !strings.HasPrefix(after, "::") && (after == "" || !strings.ContainsAny(after[:1], verbs)) {
		return ""
	}
	address := strings.TrimRight(p.rest[:end], blanks)
	p.rest = after
	return address
}

func (p *parser) word() (string, error) {
	var b strings.Builder
	for p.rest != "" {
		switch c := p.rest[0]; {
		case strings.IndexByte(blanks+"|;", c) >= 0:
			return b.String(), nil
		case c == '\'' || c == '"':
			if err := p.quoted(c, &b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
			p.rest = p.rest[1:]
		}
	}
	return b.String(), nil
}

// quoted reads from one quote to the next.
func (p *parser) quoted(quote byte, to *strings.Builder) error {
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		if c == quote {
			p.rest = p.rest[i+1:]
			return nil
		}
		if c == '\\' && quote == '"' && i+1 < len(p.rest) && strings.IndexByte(`"\`, p.rest[i+1]) >= 0 {
			i++
			c = p.rest[i]
		}
		to.WriteByte(c)
	}
	return fmt.Errorf("no end of the quote %s", p.rest)
}

// quote returns text as a word that parse reads back as text.
func quote(text string) string {
	if text != "" && !strings.ContainsAny(text, blanks+`|;!#'"\`) {
		return text
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}
