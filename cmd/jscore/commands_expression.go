package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
	"ustack/tools/jscore"
)

// An expressed is what expressions refer to and commands change.
type expressed struct {
	last      uint64            // "."
	given     bool              // there is a last
	step      uint64            // from "." to "+"
	variables map[string]uint64 // nil until there is one
}

// maxVariables bounds the variables of a session.
const maxVariables = 1 << 12

func (s *session) dot() (uint64, bool) { return s.last, s.given }
func (s *session) increment() uint64   { return s.step }

// setDot makes an address the last one, from which the next one is step bytes away.
func (s *session) setDot(address, step uint64) { s.last, s.given, s.step = address, true, step }

func (s *session) symbol(name string) (uint64, error) {
	if s.dump == nil {
		return 0, fmt.Errorf("no symbol %q", name)
	}
	return s.dump.SymbolValue(name)
}

func (s *session) word(address uint64) (uint64, error) {
	b := make([]byte, 8)
	if n, err := s.dump.ReadAt(b, address); n < len(b) {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// variable returns a variable or a register of the first thread.
func (s *session) variable(name string) (uint64, error) {
	if value, ok := s.variables[name]; ok {
		return value, nil
	}
	if value, ok := s.register(name); ok {
		return value, nil
	}
	return 0, fmt.Errorf("no variable %q (vars lists them, regs the registers)", name)
}

// register returns a register of the first thread.
func (s *session) register(name string) (uint64, bool) {
	first, ok := s.dump.FirstThread()
	if !ok {
		return 0, false
	}
	registers, err := s.dump.Registers(first.TID)
	if err != nil {
		return 0, false
	}
	for _, r := range registers.Registers {
		if r.Name == name {
			return uint64(r.Value), true
		}
	}
	return 0, false
}

// expressionCommands evaluate expressions.
func expressionCommands() registry {
	return registry{
		{
			name: ">", usage: "VARIABLE ADDR", input: required, isWord: always, args: 1, dotted: true,
			short: `keep an address in a variable: "ADDR>VARIABLE", then "<VARIABLE"`,
			long: `Before "::", /, = and >, ADDR may be an expression of mdb. It has numbers,
symbols, variables and registers of the first thread (<NAME), the last address
(.), the one after what / showed (+), as far before it (^), the word at an
address (*ADDR), parentheses, -, ~, and operators, the first of which bind most:
* and % (division), %% (remainder) and # (round up); + -; << >>; == !=; &; ^; |.
An argument has neither blanks, symbols nor + and ^ as addresses.`,
			example: "  1f3c9>server; <server::jsprint\n  <rsp+8>slot; *<slot::whatis",
			bind:    plain(func(_ context.Context, v *invocation) error { return v.assign() }),
		},
		{
			name: "vars", aliases: []string{"$v"}, short: "list the variables",
			bind: plain(once(func(_ context.Context, v *invocation) (variableList, error) {
				list := variableList{}
				for _, name := range slices.Sorted(maps.Keys(v.variables)) {
					list = append(list, variableValue{name, jscore.Address(v.variables[name])})
				}
				return list, nil
			})),
		},
		{
			name: "map", usage: "EXPRESSION ADDR", input: required, isWord: always, args: -1, literal: true,
			short:   `evaluate an expression in which "." is ADDR`,
			example: "  walk jsframe | map *.\n  1f3c9::map '. & ~7'",
			bind:    plain(func(ctx context.Context, v *invocation) error { return v.mapEach(ctx, false) }),
		},
		{
			name: "grep", usage: "EXPRESSION ADDR", input: required, isWord: always, args: -1, literal: true,
			short:   `keep the addresses for which an expression is not 0; "." is ADDR`,
			example: "  regs | grep '. & 1' | whatis",
			bind:    plain(func(ctx context.Context, v *invocation) error { return v.mapEach(ctx, true) }),
		},
	}
}

// always says that all arguments are words.
func always(string) bool { return true }

var variableName = regexp.MustCompile(`^\w{1,64}$`)

// assign sets a variable to the last of the addresses.
func (v *invocation) assign() error {
	if err := v.needs("a variable"); err != nil {
		return err
	}
	name := v.args[0]
	_, isRegister := v.register(name)
	switch {
	case !variableName.MatchString(name):
		return cli.Usagef("%q is no name of a variable", name)
	case isRegister:
		return fmt.Errorf("%s is a register: a core is never written", name)
	case len(v.variables) >= maxVariables:
		return fmt.Errorf("more than %d variables", maxVariables)
	case len(v.inputs) == 0:
		return errors.New("no address came")
	}
	if v.variables == nil {
		v.variables = map[string]uint64{}
	}
	v.variables[name] = uint64(v.inputs[len(v.inputs)-1])
	return nil
}

// mapEach evaluates an expression for each address, and emits the values, or the addresses for
// which they are not 0.
func (v *invocation) mapEach(ctx context.Context, addresses bool) error {
	if err := v.needs("an expression"); err != nil {
		return err
	}
	text := strings.Join(v.args, " ")
	if _, err := asAddress(text, quoted, nil); err != nil {
		return err
	}
	for _, address := range v.inputs {
		if err := ctx.Err(); err != nil {
			return err
		}
		value, err := evaluate(text, hexadecimal, quoted, atInput{v.session, uint64(address)})
		if err != nil {
			v.fail(address, err)
			continue
		}
		if addresses {
			if value == 0 {
				continue
			}
			value = uint64(address)
		}
		if err := v.emit(evaluated{jscore.Address(value)}); err != nil {
			return err
		}
	}
	return nil
}

// An atInput has an address of a pipeline as its dot.
type atInput struct {
	*session
	input uint64
}

func (a atInput) dot() (uint64, bool) { return a.input, true }

// An evaluated is what an expression is.
type evaluated struct {
	Address jscore.Address `json:"address"`
}

// WriteText writes the number, in hexadecimal.
func (e evaluated) WriteText(w io.Writer) error {
	_, err := fmt.Fprintln(w, e.Address)
	return err
}

// Addresses returns the number.
func (e evaluated) Addresses() []v8.Value { return []v8.Value{v8.Value(e.Address)} }

// A variableList is all variables, by name.
type variableList []variableValue

type variableValue struct {
	Name  string         `json:"name"`
	Value jscore.Address `json:"value"`
}

// WriteText writes a line for each variable.
func (l variableList) WriteText(w io.Writer) error {
	for _, v := range l {
		if _, err := fmt.Fprintf(w, "%s = %s\n", v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}
