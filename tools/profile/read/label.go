package read

import (
	"path"
	"strconv"
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// anonymous is the name of a JavaScript function that has none.
const anonymous = "(anonymous)"

// The names that modules have whose functions are the kernel's.
const kernelModule = "[kernel]"

// Labels turns the text of a frame into the frame, and remembers it.
type labels struct {
	known map[string]symbolize.Frame
}

func (l labels) of(text string) symbolize.Frame {
	f, ok := l.known[text]
	if !ok {
		f = label(text)
		if len(l.known) < maxFrames {
			l.known[strings.Clone(text)] = f
		}
	}
	return f
}

var (
	// withPlace matches a name, and a file that begins as a path or a URL, with its position.
	withPlace = lazyregexp.New(`^(.*?) ((?:\.{0,2}/|[A-Za-z][A-Za-z\d+.-]*:[^:\d]).*?):(\d{1,9})(?::(\d{1,9}))?$`)
	// withWord matches the same with any other file.
	withWord = lazyregexp.New(`^(.*) (\S+?):(\d{1,9})(?::(\d{1,9}))?$`)
	// withFile matches a name and a script without a position.
	withFile = lazyregexp.New(`^(.*?) ((?:node:|wasm:)[^:\s]\S*|(?:/|[a-z][a-z\d+.-]*:[^:]).*\.[cm]?[jt]sx?)$`)
	// nameless matches code without a name: its module, and where in it.
	nameless = lazyregexp.New(`^(.*)\+0x([\da-f]{1,16})$`)
	address  = lazyregexp.New(`^0x([\da-f]{1,16})$`)
)

// label reads a frame as profile.Label writes it, or as the tools around perf do.
func label(text string) symbolize.Frame {
	for _, mark := range []string{"_[k]", "_[j]", "_[i]"} {
		name, ok := strings.CutSuffix(text, mark)
		switch {
		case !ok:
		case mark == "_[k]":
			return kernel(name)
		default:
			f := label(name)
			f.Inlined = mark == "_[i]"
			return f
		}
	}
	if f, ok := perfMapName(text); ok {
		return f
	}
	if place := withPlace.FindStringSubmatch(text); place != nil {
		return script(place)
	}
	if m := withFile.FindStringSubmatch(text); m != nil {
		return script([]string{"", m[1], m[2], "", ""})
	}
	if place := withWord.FindStringSubmatch(text); place != nil && !strings.Contains(place[2], "::") {
		return script(place)
	}
	return named(text)
}

// kernel returns a frame of the kernel's.
func kernel(name string) symbolize.Frame {
	f := symbolize.Frame{Kind: symbolize.Kernel, Name: name, Module: kernelModule}
	if m := address.FindStringSubmatch(name); m != nil {
		f.Name, f.Offset = "", number(m[1], 16)
	}
	return f
}

// script returns the frame of a function with a file: name, file, line and column are
// parts 1 to 4.
func script(parts []string) symbolize.Frame {
	f := symbolize.Frame{Kind: kindOfFile(parts[2]), File: parts[2], Line: int(number(parts[3], 10)), Column: int(number(parts[4], 10))}
	f.Name, f.Tier = tiered(parts[1])
	return f
}

// kindOfFile returns the kind of the functions of a script or of a WebAssembly module.
func kindOfFile(file string) symbolize.Kind {
	if strings.HasPrefix(file, "wasm:") {
		return symbolize.Wasm
	}
	return symbolize.JS
}

// tiered cuts the tier that profile.WithTier has put after a name.
func tiered(name string) (string, symbolize.Tier) {
	for t := symbolize.Interpreted; t <= symbolize.Liftoff; t++ {
		if cut, ok := strings.CutSuffix(name, " ["+t.String()+"]"); ok {
			return cut, t
		}
	}
	return name, symbolize.NoTier
}

// named returns the frame of which only a name is known.
func named(name string) symbolize.Frame {
	switch {
	case strings.HasPrefix(name, symbolize.RegExpPrefix):
		return symbolize.Frame{Kind: symbolize.RegExp, Name: name}
	case profile.IsActivity(name):
		return symbolize.Frame{Kind: symbolize.Runtime, Name: name}
	case strings.HasPrefix(name, "<< "):
		return symbolize.Frame{Kind: symbolize.Typed, Name: name}
	}
	if cut, tier := tiered(name); tier != symbolize.NoTier || cut == anonymous {
		return symbolize.Frame{Kind: symbolize.JS, Name: cut, Tier: tier}
	}
	if m := nameless.FindStringSubmatch(name); m != nil && !strings.ContainsAny(m[1], ":<>(") {
		return symbolize.Frame{Module: m[1], Offset: number(m[2], 16)}
	}
	if m := address.FindStringSubmatch(name); m != nil {
		return symbolize.Frame{Offset: number(m[1], 16)}
	}
	return symbolize.Frame{Name: name}
}

// inModule returns the frame of which the name and the module are known.
func inModule(name, module string) symbolize.Frame {
	if module == kernelModule {
		return kernel(name)
	}
	f := named(name)
	if m := nameless.FindStringSubmatch(name); m != nil && m[1] == path.Base(module) {
		f = symbolize.Frame{Offset: number(m[2], 16)}
	}
	f.Module = module
	return f
}

// number returns a number that a pattern has matched; 0 if it is too large, or empty.
func number(digits string, base int) uint64 {
	n, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return 0
	}
	return n
}
