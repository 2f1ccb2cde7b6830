package read

import (
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile/internal/lazyregexp"
)

// builtinPrefix begins the name of the symbol of each of V8's builtins.
const builtinPrefix = "Builtins_"

// mapName matches what V8 calls code in a perf map: what it is, and its name.
var mapName = lazyregexp.New(`^(LazyCompile|Function|JS|Eval|Script|Callback|Builtin|RegExp|BytecodeHandler|Handler|Stub|wasm):(.*)$`)

// mapTiers are the marks before a name; an apostrophe may follow.
var mapTiers = map[byte]symbolize.Tier{
	'~': symbolize.Interpreted, '^': symbolize.Baseline, '+': symbolize.Maglev, '*': symbolize.Turbofan,
}

// mapPlace matches a function's name, which may be empty, its file, line and column.
var mapPlace = lazyregexp.New(`^(.*?) ?((?:\.{0,2}/|[A-Za-z][A-Za-z\d+.-]*:|\[)[^ ].*?|[^ ]*?):(\d{1,9})(?::(\d{1,9}))?$`)

// perfMapName reads a name of a perf map; false if it is not of V8's.
func perfMapName(text string) (symbolize.Frame, bool) {
	m := mapName.FindStringSubmatch(text)
	if m == nil || strings.HasPrefix(text, symbolize.RegExpPrefix) || strings.HasPrefix(m[2], ":") {
		return symbolize.Frame{}, false
	}
	switch kind, name := m[1], m[2]; kind {
	case "RegExp":
		return symbolize.Frame{Kind: symbolize.RegExp, Name: symbolize.RegExpPrefix + name}, true
	case "Builtin":
		return builtinFrame(strings.TrimPrefix(name, builtinPrefix), ""), true
	case "BytecodeHandler", "Handler", "Stub":
		return symbolize.Frame{Kind: symbolize.Typed, Name: name}, true
	case "wasm":
		return symbolize.Frame{Kind: symbolize.Wasm, Name: name}, true
	case "Callback":
		return symbolize.Frame{Name: name}, true
	default:
		return mapFunction(name), true
	}
}

// mapFunction reads a function of a script: its tier's mark, its name, and its place.
func mapFunction(text string) symbolize.Frame {
	f := symbolize.Frame{Kind: symbolize.JS}
	if text != "" && mapTiers[text[0]] != symbolize.NoTier {
		f.Tier = mapTiers[text[0]]
		text = strings.TrimPrefix(text[1:], "'")
	}
	f.Name = text
	if m := mapPlace.FindStringSubmatch(text); m != nil {
		f.Name, f.File, f.Line, f.Column = m[1], m[2], int(number(m[3], 10)), int(number(m[4], 10))
	} else if m := withFile.FindStringSubmatch(text); m != nil {
		f.Name, f.File = m[1], m[2]
	}
	if f.Name = strings.TrimSpace(f.Name); f.Name == "" {
		f.Name = anonymous
	}
	return f
}

// builtinFrame returns the frame of one of V8's builtins; those that are only glue are typed.
func builtinFrame(name, module string) symbolize.Frame {
	f := symbolize.Frame{Kind: symbolize.Builtin, Name: name, Module: module}
	if isGlue(name) {
		f.Kind = symbolize.Typed
	}
	return f
}

// isGlue reports whether a builtin only enters, leaves or interprets functions.
func isGlue(name string) bool {
	return strings.HasSuffix(name, "Handler") || strings.HasPrefix(name, "Interpreter") || strings.HasPrefix(name, "CEntry_") ||
		strings.HasPrefix(name, "JSEntry") || strings.HasPrefix(name, "JSConstructEntry") || strings.HasPrefix(name, "Baseline") ||
		strings.HasPrefix(name, "JSConstruct") || strings.HasPrefix(name, "ArgumentsAdaptor")
}
