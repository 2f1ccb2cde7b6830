package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var statementDiff = []cmp.Option{cmp.AllowUnexported(statement{}, call{}), cmpopts.EquateEmpty()}

// one returns a line of one statement.
func one(shell string, calls ...call) []statement { return []statement{{calls, shell}} }

func TestLanguage(t *testing.T) {
	for line, want := range map[string][]statement{
		"":                           nil,
		" ; ;# all is quiet":         nil,
		"#!/usr/bin/env jscore":      nil,
		"status":                     one("", call{name: "status"}),
		"status # and so on | x":     one("", call{name: "status"}),
		"::status":                   one("", call{name: "status"}),
		"jsprint -d 3 1f3c9":         one("", call{name: "jsprint", args: []string{"-d", "3", "1f3c9"}}),
		"1f3c9::jsprint -d 3":        one("", call{"jsprint", "1f3c9", []string{"-d", "3"}}),
		"1f3c9 ::jsprint":            one("", call{"jsprint", "1f3c9", nil}),
		"help ::jsprint":             one("", call{name: "help", args: []string{"::jsprint"}}),
		"8db8c08,0t64::dump":         one("", call{"dump", "8db8c08,0t64", nil}),
		"1f3c9,4/2Xp n":              one("", call{"/", "1f3c9,4", []string{"2Xp", "n"}}),
		"0t10 =X":                    one("", call{"=", "0t10", []string{"X"}}),
		"a | /J":                     one("", call{name: "a"}, call{name: "/", args: []string{"J"}}),
		"1f3c9::/ -J":                one("", call{"/", "1f3c9", []string{"-J"}}),
		"xyz/J":                      one("", call{name: "xyz/J"}),
		"$C":                         one("", call{name: "$C"}),
		"jsprint 1f3c9 #secret":      one("", call{name: "jsprint", args: []string{"1f3c9", "#secret"}}),
		"jsprint 1f3c9 #":            one("", call{name: "jsprint", args: []string{"1f3c9"}}),
		`findjsobjects -c "a b|c;d"`: one("", call{name: "findjsobjects", args: []string{"-c", "a b|c;d"}}),
		`x 'it"s' "it\"s\\" ''`:      one("", call{name: "x", args: []string{`it"s`, `it"s\`, ""}}),
		`x a'b c'd`:                  one("", call{name: "x", args: []string{"ab cd"}}),
		"a -c Server | b -a":         one("", call{name: "a", args: []string{"-c", "Server"}}, call{name: "b", args: []string{"-a"}}),
		"::a|::b":                    one("", call{name: "a"}, call{name: "b"}),
		"a!wc -l":                    one("", call{name: "a!wc", args: []string{"-l"}}),
		"a | b ! grep x | wc; date":  one("grep x | wc; date", call{name: "a"}, call{name: "b"}),
		"! date":                     one("date"),
		"!date":                      one("date"),
		"a;b; # c":                   {{calls: []call{{name: "a"}}}, {calls: []call{{name: "b"}}}},
	} {
		got, err := parse(line)
		if err != nil {
			t.Errorf("parse(%q): %v", line, err)
		}
		if diff := cmp.Diff(want, got, statementDiff...); diff != "" {
			t.Errorf("parse(%q) (-want +got):\n%s", line, diff)
		}
	}
}

func TestLinesThatMakeNoSense(t *testing.T) {
	for line, want := range map[string]string{
		"a |":                        `no command beside "|"`,
		"a | | b":                    `no command beside "|"`,
		"| b":                        `no command beside "|"`,
		"a | ! wc":                   `no command beside "|"`,
		"a !":                        `no shell command after "!"`,
		"x 'it":                      "no end of the quote 'it",
		`x "it\"`:                    `no end of the quote "it\"`,
		"1f3c9::":                    `no command in "1f3c9::"`,
		"''":                         `no command in ""`,
		strings.Repeat("x", 1<<16+1): "the line has 65537 bytes, more than 65536",
	} {
		if _, err := parse(line); err == nil || err.Error() != want {
			t.Errorf("parse(%.20q) = %v, want %s", line, err, want)
		}
	}
}

// FuzzLanguage checks that a line that can be read is read the same when its words
// are quoted anew.
func FuzzLanguage(f *testing.F) {
	f.Add("::findjsobjects -c Server | ::jsprint -a ! grep 'x' # y")
	f.Add(`a "b\"c" 'd e'; 1f3c9,10::dump # z`)
	f.Fuzz(func(t *testing.T, line string) {
		statements, err := parse(line)
		if err != nil {
			return
		}
		var again []string
		for _, s := range statements {
			again = append(again, text(s))
		}
		got, err := parse(strings.Join(again, ";"))
		if len(again) > 0 && len(strings.Join(again, ";")) > maxLine {
			return
		}
		if err != nil {
			t.Fatalf("parse(%q), which was %q: %v", again, line, err)
		}
		if diff := cmp.Diff(statements, got, statementDiff...); diff != "" {
			t.Errorf("parse(%q), which was %q (-first +again):\n%s", again, line, diff)
		}
	})
}

// text returns a statement as a line.
func text(s statement) string {
	var calls []string
	for _, c := range s.calls {
		words := []string{quote(c.address + "::" + c.name)}
		for _, arg := range c.args {
			words = append(words, quote(arg))
		}
		calls = append(calls, strings.Join(words, " "))
	}
	line := strings.Join(calls, " | ")
	if s.shell != "" {
		line += " ! " + s.shell
	}
	return line
}
