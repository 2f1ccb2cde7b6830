package profile

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// Label is how a frame reads in a line of text:
//
//	JavaScript     name file:line:column   as far as they are known
//	WebAssembly    name url                likewise
//	without name   module+0xoffset         the module's base name
//	all others     name
//
// A Label is valid UTF-8 on one line: see package printable.
func Label(f symbolize.Frame) string {
	if scripted(f) {
		if at := place(f); at != "" {
			return name(f) + " " + at
		}
	}
	return name(f)
}

// WithTier returns f with its tier after its name, as in "parse [turbofan]", if it has one.
func WithTier(f symbolize.Frame) symbolize.Frame {
	if f.Tier != symbolize.NoTier {
		f.Name = cmp.Or(f.Name, anonymous) + " [" + f.Tier.String() + "]"
	}
	return f
}

// Qualified is how DTrace and mdb write a function of a mapped file, file`name
// without directories; anything else is as in Label.
func Qualified(f symbolize.Frame) string {
	if scripted(f) || f.Module == "" || f.Name == "" {
		return Label(f)
	}
	return printable.String(path.Base(f.Module)) + "`" + name(f)
}

// scripted reports whether f is a function of a script or of a WebAssembly
// module, which its File names.
func scripted(f symbolize.Frame) bool { return f.Kind == symbolize.JS || f.Kind == symbolize.Wasm }

// ofProgram reports whether f is a function of the program's own: JavaScript,
// WebAssembly or a regular expression.
func ofProgram(f symbolize.Frame) bool { return scripted(f) || f.Kind == symbolize.RegExp }

// anonymous is the name of a JavaScript function that has none.
const anonymous = "(anonymous)"

// name returns a Label without the place.
func name(f symbolize.Frame) string {
	switch {
	case f.Name != "":
		return printable.String(f.Name)
	case f.Kind == symbolize.JS:
		return anonymous
	case f.Module != "":
		return fmt.Sprintf("%s+%#x", printable.String(path.Base(f.Module)), f.Offset)
	case f.Offset != 0:
		return fmt.Sprintf("%#x", f.Offset)
	}
	return symbolize.Unknown
}

// shortName is name as people read it: of a C++ function without V8's inner
// namespaces, long template arguments and long parameter lists.
func shortName(f symbolize.Frame) string {
	if ofProgram(f) || f.Kind == symbolize.Kernel {
		return name(f)
	}
	return shorten(name(f))
}

var innerNamespaces = strings.NewReplacer("v8::internal::", "", "(anonymous namespace)::", "")

// maxArguments is the length of template arguments and parameter lists, in
// bytes, that shorten keeps.
const maxArguments = 12

// shorten returns a C++ name without V8's inner namespaces, and with an ellipsis
// in place of what is long in angle brackets and parentheses. What follows a
// bracket that is not closed is kept.
func shorten(name string) string {
	name = innerNamespaces.Replace(name)
	var b strings.Builder
	for i := 0; i < len(name); {
		if n := operator(name[i:]); n > 0 {
			b.WriteString(name[i : i+n])
			i += n
			continue
		}
		if name[i] == '<' || name[i] == '(' {
			end := i + closing(name[i:])
			if end == i {
				return b.String() + name[i:]
			}
			if end-i > maxArguments {
				b.WriteString(name[i:i+1] + "…")
				i = end
			}
		}
		b.WriteByte(name[i])
		i++
	}
	return b.String()
}

// closing returns the position of the bracket that closes the one at the start of
// s; 0 if there is none.
func closing(s string) int {
	var open []byte
	for i := 0; i < len(s); i++ {
		if n := operator(s[i:]); n > 0 {
			i += n - 1
			continue
		}
		switch s[i] {
		case '<':
			open = append(open, '>')
		case '(':
			open = append(open, ')')
		case '>', ')':
			if open[len(open)-1] != s[i] {
				return 0
			}
			if open = open[:len(open)-1]; len(open) == 0 {
				return i
			}
		}
	}
	return 0
}

// operator returns the length of a symbol at the start of s that looks like a
// bracket but is not one, as in operator<, operator() and ->; 0 without one.
func operator(s string) int {
	if strings.HasPrefix(s, "->") {
		return len("->")
	}
	symbol, ok := strings.CutPrefix(s, "operator")
	switch {
	case !ok:
		return 0
	case strings.HasPrefix(symbol, "()"):
		return len("operator()")
	}
	return len(s) - len(strings.TrimLeft(symbol, "<>=-"))
}

// place returns where a function is: file:line:column for JavaScript, the
// module's URL for WebAssembly, the mapped file for any other. It may be empty.
func place(f symbolize.Frame) string {
	if !scripted(f) {
		return printable.String(f.Module)
	}
	return printable.String(f.File) + position(f)
}

// shortPlace is place without directories.
func shortPlace(f symbolize.Frame) string {
	switch {
	case !scripted(f) && f.Module != "":
		return printable.String(path.Base(f.Module))
	case scripted(f) && f.File != "":
		return printable.String(path.Base(f.File)) + position(f)
	}
	return ""
}

func position(f symbolize.Frame) string {
	switch {
	case f.File == "" || f.Line <= 0:
		return ""
	case f.Column <= 0:
		return ":" + symbolize.LineText(f.Line, f.Nearest)
	}
	return fmt.Sprintf(":%d:%d", f.Line, f.Column)
}

// isLine reports whether f is a line of a function, as byLine makes them.
func isLine(f symbolize.Frame) bool { return f.Line > 0 && f.Column == 0 }

// mark reports whether f stands for frames that are missing from the stack.
func mark(f symbolize.Frame) bool {
	return f.Kind == symbolize.Native && f.Module == "" && strings.HasPrefix(f.Name, "[")
}

// function returns the part of f that is the same in all frames of a function:
// without the tier, what executes and where a script has it, and without the offset if the function has a name.
func function(f symbolize.Frame) symbolize.Frame {
	f.Tier, f.Inlined = symbolize.NoTier, false
	f.ExecutingLine, f.ExecutingColumn = 0, 0
	f.Nearest = f.Nearest && isLine(f)
	f.GeneratedFile, f.GeneratedLine, f.GeneratedColumn = "", 0, 0
	f.GeneratedExecutingLine, f.GeneratedExecutingColumn = 0, 0
	if f.Name != "" {
		f.Offset = 0
	}
	return f
}

// cutFront shortens s to at most limit characters, starting with "…": names and
// paths differ most at their ends.
func cutFront(s string, limit int) string {
	all := []rune(s)
	switch {
	case len(all) <= limit:
		return s
	case limit < 1:
		return ""
	}
	return "…" + string(all[len(all)-limit+1:])
}

// cut shortens s to at most limit characters, ending with "…".
func cut(s string, limit int) string {
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	if limit < 1 {
		return ""
	}
	return string([]rune(s)[:limit-1]) + "…"
}
