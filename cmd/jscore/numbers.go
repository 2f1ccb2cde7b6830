package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ustack/cmd/internal/cli"
	"ustack/symbolize/v8"
)

// number parses a number with mdb's prefixes: 0x for hexadecimal, 0t for decimal, 0o for
// octal and 0i for binary. Without one it is of the given base.
func number(text string, base int) (uint64, error) {
	for prefix, b := range map[string]int{"0x": 16, "0t": 10, "0o": 8, "0i": 2} {
		if len(text) > 2 && strings.EqualFold(text[:2], prefix) {
			text, base = text[2:], b
			break
		}
	}
	return strconv.ParseUint(text, base, 64)
}

// Bases of numbers without a prefix: of addresses, and of all others.
const (
	hexadecimal = 16
	decimal     = 10
)

// parseAddress parses an address: hexadecimal unless it has a prefix.
func parseAddress(text string) (v8.Value, error) {
	address, err := number(text, hexadecimal)
	if err != nil {
		return 0, cli.Usagef("%q is no address (they are hexadecimal; 0t begins a decimal one)", text)
	}
	return v8.Value(address), nil
}

// parseCount evaluates a count, whose numbers are decimal unless they have a prefix.
func parseCount(text string, n names) (uint64, error) {
	count, err := evaluate(text, decimal, beforeVerb, n)
	if errors.As(err, new(unresolved)) {
		return 0, err
	}
	if err != nil || n != nil && int64(count) <= 0 {
		return 0, cli.Usagef("%q is no count", text)
	}
	return count, nil
}

// useNumbers makes the flags that take a number accept mdb's prefixes.
func useNumbers(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Value.Type() == "int" {
			f.Value = prefixed{f.Value}
		}
	})
}

// prefixed is a flag's value that is a number.
type prefixed struct{ pflag.Value }

// Set sets the number.
func (p prefixed) Set(text string) error {
	rest, negative := strings.CutPrefix(text, "-")
	n, err := number(rest, decimal)
	if err != nil {
		return fmt.Errorf("%q is no number", text)
	}
	decimal := strconv.FormatUint(n, 10)
	if negative {
		decimal = "-" + decimal
	}
	return p.Value.Set(decimal)
}

// An addressValue is a flag whose value is an address.
type addressValue struct {
	v8.Value
	given bool
}

func addressFlag(flags *pflag.FlagSet, name, short, usage string) *addressValue {
	a := new(addressValue)
	flags.VarP(a, name, short, usage)
	return a
}

func (a *addressValue) String() string { return "" }
func (a *addressValue) Type() string   { return "ADDR" }

// Set sets the address.
func (a *addressValue) Set(text string) (err error) {
	a.Value, err = parseAddress(text)
	a.given = err == nil
	return err
}
