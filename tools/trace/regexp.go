package trace

import (
	"strings"

	"ustack/symbolize"
	"ustack/symbolize/v8"
)

// regExpName names the machine code of the regular expression with that source and
// those flags.
func regExpName(source string, flags int) string {
	return symbolize.RegExpPrefix + v8.RegExp{Source: source, Flags: v8.RegExpFlags(flags)}.String()
}

// executesRegExp is the V8 function that calls a regular expression's code.
const executesRegExp = "v8::internal::NativeRegExpMacroAssembler::Execute"

// nameRegExps names the machine code of regular expressions whose source is unknown.
// V8 11 and later gives their frames a type of their own; in older versions the
// caller identifies them.
func nameRegExps(frames []symbolize.Frame) {
	for i, f := range frames {
		typed := f.Kind == symbolize.Typed && strings.HasPrefix(f.Name, "<< irregexp >>")
		called := i+1 < len(frames) && frames[i+1].Name == executesRegExp
		nameless := f.Name == symbolize.Unknown || f.Kind == symbolize.Typed && f.Name == "[code]"
		if typed || called && nameless {
			frames[i] = symbolize.Frame{Kind: symbolize.RegExp, Name: "(regexp)"}
		}
	}
}
