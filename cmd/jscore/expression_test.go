package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A fakeNames knows a symbol, a variable and a dot.
type fakeNames struct{}

func (fakeNames) dot() (uint64, bool) { return 0x100, true }
func (fakeNames) increment() uint64   { return 8 }

func (fakeNames) symbol(name string) (uint64, error) {
	if name != "uv_run" && name != "libc.so.6`free" {
		return 0, fmt.Errorf("no symbol %q", name)
	}
	return 0x4000, nil
}

func (fakeNames) variable(name string) (uint64, error) {
	if name != "x" {
		return 0, fmt.Errorf("no variable %q", name)
	}
	return 5, nil
}

func (fakeNames) word(address uint64) (uint64, error) {
	if address < 0x100 {
		return 0, errors.New("no memory there")
	}
	return address + 1, nil
}

func TestExpressionsAreMdbs(t *testing.T) {
	for text, want := range map[string]uint64{
		"10": 16, "0t10": 10, "add": 0xadd, "0x1f + 1": 32, "1+2*3": 7, "(1+2)*3": 9, "10-4-2": 10, "7%2": 3, "7%%2": 1, "1001#10": 0x1010, "10#10": 16,
		"1<<4": 16, "100>>4": 16, "1<<2+1": 8, "6&3": 2, "6^3": 5, "6|1": 7, "1|2^3&1": 3, "3^1|1": 3, "5==5": 1, "5!=5": 0, "4&5==5": 0,
		"-1": ^uint64(0), "~0": ^uint64(0), "--1": 1, "2*-1": ^uint64(1), "<x": 5, "<x*<x": 25, ".": 0x100, "+": 0x108, "^": 0xf8, ".+.": 0x200, "^^^": 0,
		"*100": 0x101, "**100": 0x102, "*.+1": 0x102, "*(.+8)": 0x109, "uv_run": 0x4000, "uv_run+8": 0x4008, "libc.so.6`free - 1": 0x3fff,
		"1<<40": 0, "1>>40": 0, "1<<0t64": 0, "ffffffffffffffff+1": 0, " ( 1 ) ": 1,
	} {
		if got, err := evaluate(text, hexadecimal, quoted, fakeNames{}); err != nil || got != want {
			t.Errorf("%s = %#x, %v, want %#x", text, got, err, want)
		}
	}
}

func TestExpressionsThatMakeNoSense(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "an operand is missing",
		"1+":                     "an operand is missing",
		"1*":                     "an operand is missing",
		"(1":                     "a closing parenthesis is missing",
		"1)":                     `")" is too much`,
		"1 2":                    `"2" is too much`,
		"1%0":                    "% by 0",
		"1%%0":                   "%% by 0",
		"1#0":                    "# by 0",
		"<":                      `no variable's name after "<"`,
		"<y":                     `no variable "y"`,
		"nosuch":                 `no symbol "nosuch"`,
		"0t1f":                   `"0t1f" is no number`,
		"10000000000000000":      `"10000000000000000" is no number`,
		"*1":                     "no memory there",
		"$":                      `'$' is no operand`,
		strings.Repeat("(", 65):  "more than 64 levels",
		strings.Repeat("-", 1e5): "more than 64 levels",
	} {
		_, err := evaluate(text, hexadecimal, quoted, fakeNames{})
		if err == nil || err.Error() != want {
			t.Errorf("%.20s: error = %v, want %s", text, err, want)
		}
	}
}

func TestArgumentsAreSimpleExpressions(t *testing.T) {
	for text, want := range map[string]bool{
		"1f3c9": true, "1f3c9+8": true, ".": true, "<x": true, "*<rsp+8": true, "1f3c9,4": true, "(1+2)": true,
		"": false, "uv_run": false, "1f3c9+": false, "+": false, "^": false, "a b": false, "1 + 2": false, "a.b": false, ".a": false, "c++": false, "1|2": false, "1=2": false,
	} {
		if got := isAddress(text); got != want {
			t.Errorf("%q is an address: %t, want %t", text, got, want)
		}
	}
}

// FuzzExpression checks that the form is judged without values as with them, and that nothing
// takes long.
func FuzzExpression(f *testing.F) {
	for _, seed := range []string{"1f3c9+8", "(1|2)*<x", "*.+uv_run", "1#10", "+^+", "libc.so.6`free", "1 == 2", "-~*("} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > maxLine {
			return
		}
		_, formErr := evaluate(text, hexadecimal, quoted, nil)
		_, err := evaluate(text, hexadecimal, quoted, fakeNames{})
		if (formErr != nil) && err == nil || formErr == nil && err != nil && !errors.As(err, new(unresolved)) {
			t.Errorf("%q: %v without values, %v with them", text, formErr, err)
		}
		if end := expressionEnd(text, hexadecimal); end < 0 || end > len(text) {
			t.Errorf("%q ends at %d", text, end)
		}
	})
}
