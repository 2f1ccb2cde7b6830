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
		"xyz/J":                      one("", call{"/", "xyz", []string{"J"}}),
		"uv_run+0t8::dis -w":         one("", call{"dis", "uv_run+0t8", []string{"-w"}}),
		"libc.so.6`free,2/i":         one("", call{"/", "libc.so.6`free,2", []string{"i"}}),
		"1f3c9 + 8 ,0t3 ::dump":      one("", call{"dump", "1f3c9 + 8 ,0t3", nil}),
		"(1|2)*<x=X":                 one("", call{"=", "(1|2)*<x", []string{"X"}}),
		"1|2=X":                      one("", call{name: "1"}, call{"=", "2", []string{"X"}}),
		"1>2":                        one("", call{">", "1", []string{"2"}}),
		"1>>2=X":                     one("", call{"=", "1>>2", []string{"X"}}),
		".+4>x; >y":                  {{calls: []call{{">", ".+4", []string{"x"}}}}, {calls: []call{{name: ">", args: []string{"y"}}}}},
		"+/X":                        one("", call{"/", "+", []string{"X"}}),
		"^/X":                        one("", call{"/", "^", []string{"X"}}),
		"/X":                         one("", call{name: "/", args: []string{"X"}}),
		"status > file":              one("", call{name: "status", args: []string{">", "file"}}),
		"x -b/c":                     one("", call{name: "x", args: []string{"-b/c"}}),
		"1000#10=X #10":              one("", call{"=", "1000#10", []string{"X", "#10"}}),
		"1000 # =X":                  one("", call{name: "1000"}),
		"$C":                         one("", call{name: "$C"}),
		"jsprint 1f3c9 #secret":      one("", call{name: "jsprint", args: []string{"1f3c9", "#secret"}}),
		"jsprint 1f3c9 #":            one("", call{name: "jsprint", args: []string{"1f3c9"}}),
		`findjsobjects -c "a b|c;d"`: one("", call{name: "findjsobjects", args: []string{"-c", "a b|c;d"}}),
		`x 'it"s' "it\"s\\" ''`:      one("", call{name: "x", args: []string{`it"s`, `it"s\`, ""}}),
		`x ["\ud800"]`:               one("", call{name: "x", args: []string{`[\ud800]`}}),
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
	f.Add("0:/")
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
