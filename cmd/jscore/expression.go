package main

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
)

// Names are what expressions refer to by name.
type names interface {
	symbol(name string) (uint64, error)
	variable(name string) (uint64, error)
	dot() (address uint64, ok bool)
	increment() uint64
	word(address uint64) (uint64, error)
}

// maxNesting bounds the parentheses and prefixes around one operand.
const maxNesting = 64

// operators are mdb's binary operators, those that bind least first. All associate to the left.
var operators = [][]string{{"|"}, {"^"}, {"&"}, {"==", "!="}, {"<<", ">>"}, {"+", "-"}, {"*", "%%", "%", "#"}}

// A where says what an expression may contain at its place.
type where int

const (
	quoted     where = iota // everything
	beforeVerb              // no operator that a line understands otherwise
	asArgument              // likewise; no blanks, no symbols, and no + or ^ that stands for an address
)

// An expression is one of mdb's expressions while it is parsed:
//
//	operand = number | symbol | "<" variable | "." | "+" | "^" | "(" expression ")"
//	        | ( "-" | "~" | "*" ) operand
type expression struct {
	rest   string
	base   int   // of numbers without a prefix
	names  names // nil: only the form is checked
	at     where
	depth  int // of operands within operands
	parens int
	solid  bool // blanks end it
}

// evaluate returns the value of a whole text.
func evaluate(text string, base int, at where, n names) (uint64, error) {
	e := &expression{rest: text, base: base, names: n, at: at, solid: at == asArgument}
	value, err := e.parse()
	if rest := strings.Trim(e.rest, blanks); err == nil && rest != "" {
		err = fmt.Errorf("%q is too much", rest)
	}
	return value, err
}

// expressionEnd returns where the expression ends with which text begins, and the blanks after it;
// 0 if none does. One that begins with a plain symbol has no blanks: else each command with an
// argument might be one.
func expressionEnd(text string, base int) int {
	e := &expression{rest: text, base: base, at: beforeVerb}
	if text := e.peekWord(); text != "" {
		_, err := number(text, base)
		e.solid = err != nil && !strings.Contains(text, "`") // which no command has
	}
	if _, err := e.parse(); err != nil {
		return 0
	}
	e.skip()
	return len(text) - len(e.rest)
}

func (e *expression) parse() (uint64, error) { return e.binary(0) }

// binary parses operands with operators of a level or above.
func (e *expression) binary(level int) (uint64, error) {
	if level == len(operators) {
		return e.operand()
	}
	left, err := e.binary(level + 1)
	for err == nil {
		before := e.rest
		operator := e.operator(level)
		if operator == "" {
			e.rest = before
			return left, nil
		}
		var right uint64
		if right, err = e.binary(level + 1); err == nil {
			left, err = e.apply(operator, left, right)
		}
	}
	return left, err
}

// operator takes an operator of a level; "" if none comes next.
func (e *expression) operator(level int) string {
	e.skip()
	for _, o := range operators[level] {
		if !strings.HasPrefix(e.rest, o) || e.at != quoted && e.parens == 0 && strings.ContainsAny(o, "|=!") {
			continue
		}
		after := e.rest[len(o):]
		if o == "#" && (after == "" || strings.ContainsAny(after[:1], blanks)) {
			continue // it begins a comment
		}
		e.rest = after
		return o
	}
	return ""
}

func (e *expression) apply(operator string, left, right uint64) (uint64, error) {
	truth := func(is bool) uint64 {
		if is {
			return 1
		}
		return 0
	}
	switch operator {
	case "|":
		return left | right, nil
	case "^":
		return left ^ right, nil
	case "&":
		return left & right, nil
	case "==":
		return truth(left == right), nil
	case "!=":
		return truth(left != right), nil
	case "<<":
		return left << right, nil
	case ">>":
		return left >> right, nil
	case "+":
		return left + right, nil
	case "-":
		return left - right, nil
	case "*":
		return left * right, nil
	}
	if right == 0 {
		if e.names == nil {
			return 0, nil
		}
		return resolved(0, fmt.Errorf("%s by 0", operator))
	}
	switch operator {
	case "%":
		return left / right, nil
	case "%%":
		return left % right, nil
	}
	return (left + right - 1) / right * right, nil // "#": up to a multiple of right
}

// skip skips blanks, unless they end the expression.
func (e *expression) skip() {
	if !e.solid {
		e.rest = strings.TrimLeft(e.rest, blanks)
	}
}

func (e *expression) operand() (uint64, error) {
	if e.depth++; e.depth > maxNesting {
		return 0, fmt.Errorf("more than %d levels", maxNesting)
	}
	defer func() { e.depth-- }()
	e.skip()
	if text := e.peekWord(); text != "" {
		e.rest = e.rest[len(text):]
		return e.named(text)
	}
	if e.rest == "" {
		return 0, errors.New("an operand is missing")
	}
	first := e.rest[0]
	e.rest = e.rest[1:]
	switch first {
	case '(':
		return e.parenthesis()
	case '-', '~', '*':
		value, err := e.operand()
		if err != nil {
			return 0, err
		}
		return e.prefix(first, value)
	case '<':
		name := e.peekWord()
		e.rest = e.rest[len(name):]
		if name == "" {
			return 0, errors.New("no variable's name after \"<\"")
		}
		if e.names == nil {
			return 0, nil
		}
		return resolved(e.names.variable(name))
	}
	return e.place(first)
}

func (e *expression) parenthesis() (uint64, error) {
	e.parens++
	value, err := e.parse()
	e.parens--
	if e.skip(); err == nil && !strings.HasPrefix(e.rest, ")") {
		err = errors.New("a closing parenthesis is missing")
	}
	if err != nil {
		return 0, err
	}
	e.rest = e.rest[1:]
	return value, nil
}

func (e *expression) prefix(operator byte, value uint64) (uint64, error) {
	switch {
	case operator == '-':
		return -value, nil
	case operator == '~':
		return ^value, nil
	case e.names == nil:
		return 0, nil
	}
	return resolved(e.names.word(value))
}

// place returns the address that a character stands for: the last one, the next or the one before.
func (e *expression) place(c byte) (uint64, error) {
	if c != '.' && (c != '+' && c != '^' || e.at == asArgument) {
		return 0, fmt.Errorf("%q is no operand", c)
	}
	if e.names == nil {
		return 0, nil
	}
	dot, ok := e.names.dot()
	switch {
	case !ok:
		return resolved(0, errNoDot)
	case c == '+':
		return dot + e.names.increment(), nil
	case c == '^':
		return dot - e.names.increment(), nil
	}
	return dot, nil
}

var errNoDot = errors.New("no address was given before")

// word matches a number or a name, which may follow a file's: "libc.so.6`free".
var word = regexp.MustCompile("^([A-Za-z_][\\w.]*`)?\\w+")

// peekWord returns the number or the name that comes next; "" if neither does.
func (e *expression) peekWord() string { return word.FindString(e.rest) }

// named returns a number, or the value of a symbol.
func (e *expression) named(name string) (uint64, error) {
	value, err := number(name, e.base)
	switch {
	case err == nil:
		return value, nil
	case e.at == asArgument || e.base != hexadecimal || name[0] >= '0' && name[0] <= '9':
		return 0, fmt.Errorf("%q is no number", name)
	case e.names == nil:
		return 0, nil
	}
	return resolved(e.names.symbol(name))
}

// An unresolved error is about values or what an expression refers to, not about its form.
type unresolved struct{ error }

func (u unresolved) Unwrap() error { return u.error }

func resolved(value uint64, err error) (uint64, error) {
	if err != nil {
		err = unresolved{err}
	}
	return value, err
}

// asAddress evaluates an expression that gives an address.
func asAddress(text string, at where, n names) (v8.Value, error) {
	address, err := evaluate(text, hexadecimal, at, n)
	if errors.As(err, new(unresolved)) {
		return 0, err
	}
	if err != nil {
		return 0, cli.Usagef("%q is no address: %v (numbers are hexadecimal; 0t begins a decimal one)", text, err)
	}
	return v8.Value(address), nil
}

// isAddress reports whether an argument is an address, with or without a count.
func isAddress(text string) bool {
	address, _, _ := strings.Cut(text, ",")
	_, err := evaluate(address, hexadecimal, asArgument, nil)
	return err == nil
}
