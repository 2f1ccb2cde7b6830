// Package symbolize defines Frame, the one type that every source of stacks
// produces and every report reads.
package symbolize

import (
	"fmt"
	"slices"
	"strconv"
)

// Kind says what a frame's code is.
type Kind uint8

const (
	Native  Kind = iota // machine code of a mapped file, the vdso or an unknown mapping
	JS                  // a JavaScript function with a script
	Builtin             // one of V8's internal functions: no script, compiled into the binary
	Typed               // V8's support code: entry, exit, construct and stub frames, bytecode handlers
	Kernel              // the kernel's own code
	Wasm                // a WebAssembly function, or a wrapper between one and JavaScript
	RegExp              // a regular expression's own machine code
	Runtime             // not a function: what V8 was doing, such as "[GC scavenge]", in place of its frames
)

// RegExpPrefix begins the name of a frame of kind RegExp whose source is known.
const RegExpPrefix = "RegExp: "

// String returns the kind's word in reports: "native", "js", "builtin", "typed",
// "kernel", "wasm", "regexp" or "runtime".
func (k Kind) String() string {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return "unknown"
}

var kinds = [...]string{
	Native: "native", JS: "js", Builtin: "builtin", Typed: "typed", Kernel: "kernel", Wasm: "wasm", RegExp: "regexp", Runtime: "runtime",
}

// MarshalText returns the kind's word, for JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads such a word.
func (k *Kind) UnmarshalText(word []byte) error {
	i := slices.Index(kinds[:], string(word))
	if i < 0 {
		return fmt.Errorf("read kind of frame: %q is not a kind", word)
	}
	*k = Kind(i)
	return nil
}

// Tier says which of V8's compilers made a JavaScript frame's code.
type Tier uint8

const (
	NoTier      Tier = iota // neither a JavaScript nor a WebAssembly function, or not known
	Interpreted             // Ignition
	Baseline                // Sparkplug
	Maglev
	Turbofan
	Optimized // Maglev or TurboFan: entered in the middle of a loop (OSR), where they cannot be distinguished
	Liftoff   // WebAssembly's baseline compiler
)

// String returns the tier's word in reports, empty for NoTier.
func (t Tier) String() string {
	if int(t) < len(tiers) {
		return tiers[t]
	}
	return "unknown"
}

var tiers = [...]string{
	Interpreted: "interpreted", Baseline: "baseline", Maglev: "maglev",
	Turbofan: "turbofan", Optimized: "optimized", Liftoff: "liftoff",
}

// MarshalText returns the tier's word, for JSON.
func (t Tier) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads such a word.
func (t *Tier) UnmarshalText(word []byte) error {
	i := slices.Index(tiers[:], string(word))
	if i < 0 {
		return fmt.Errorf("read tier of frame: %q is not a tier", word)
	}
	*t = Tier(i)
	return nil
}

// A Frame is one function on a stack. Frames are comparable: two samples in the
// same function at the same place are the same Frame. All tools write it as the
// same JSON object, which is a contract with other programs: names are only ever
// added.
type Frame struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"`             // demangled; "(anonymous)" for a JavaScript function without a name
	File   string `json:"file,omitempty"`   // JS: the script's name or source URL; Wasm: the module's URL; empty elsewhere
	Line   int    `json:"line,omitempty"`   // JS: where the function is defined, from 1; 0 where unknown
	Column int    `json:"column,omitempty"` // JS: likewise
	Tier   Tier   `json:"tier,omitempty"`

	// JS: the line and column that execute, from 1; 0 where unknown.
	ExecutingLine   int `json:"executing_line,omitempty"`
	ExecutingColumn int `json:"executing_column,omitempty"`
	// JS: V8 keeps no position for what executes: these are of the nearest call or check
	// of the machine code, and so is whether a function is inlined there.
	Nearest bool `json:"nearest,omitempty"`
	// JS: a compiler has replaced the call by the function's body, in the function of the
	// next frame that is not inlined.
	Inlined bool `json:"inlined,omitempty"`

	// JS: if File, Line and Column are of the source that the script was generated from,
	// by a source map, its own. Executing positions in another source are only here.
	GeneratedFile            string `json:"generated_file,omitempty"`
	GeneratedLine            int    `json:"generated_line,omitempty"`
	GeneratedColumn          int    `json:"generated_column,omitempty"`
	GeneratedExecutingLine   int    `json:"generated_executing_line,omitempty"`
	GeneratedExecutingColumn int    `json:"generated_executing_column,omitempty"`

	Module string `json:"module,omitempty"` // native and builtin: path of the mapped file; "[vdso]", "[kernel]", …
	Offset uint64 `json:"offset,omitempty"` // native: offset from the symbol's start, or the address in Module if it has no symbol
}

// LineText writes a line, with ~ before it if it is the nearest one that is known.
func LineText(line int, nearest bool) string {
	if nearest {
		return "~" + strconv.Itoa(line)
	}
	return strconv.Itoa(line)
}

// Frames that stand for missing parts of a stack. They are of kind Native and
// have no module.
const (
	Truncated = "[truncated]" // at the root end: the stack was deeper than is recorded
	Broken    = "[gap]"       // frames between its neighbours were lost (no frame pointer)
	Unknown   = "[unknown]"   // an address that no mapping or symbol explains
)
