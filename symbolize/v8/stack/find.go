package stack

import (
	"errors"
	"fmt"
	"strings"

	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/release"
)

// Missing is something that is needed to understand a process and that was not found.
type Missing struct {
	What string // a file's path, or the part of V8 that is not known
	Err  error  // why, with the remedy if there is one
	Then string // what does not work without it
}

func (m Missing) String() string { return fmt.Sprintf("%s: %v: %s", m.What, m.Err, m.Then) }

// NoJavaScript is what does not work without V8.
const NoJavaScript = "no JavaScript is understood: native frames are named, nothing else"

var errStripped = errors.New("V8's file was built or stripped without it")

// A Found is the V8 of a process.
type Found struct {
	V8      V8
	Assumed *release.UnknownVersionError // why another version's layout is used; nil if the layout is known
	Missing []Missing
}

func (f *Found) lacks(what string, err error, then string) {
	f.Missing = append(f.Missing, Missing{what, err, then})
}

// Find finds the file that holds V8, the program or a library. For a version newer than
// all known ones, the newest layout is assumed: see package verify.
func Find(s *space.Space) Found {
	var f Found
	var err error
	for _, m := range s.Modules() {
		if m.ELF == nil {
			continue
		}
		f.V8.Binary, err = f.inspect(m)
		if errors.Is(err, v8.ErrNotV8) {
			continue
		}
		f.V8.Module = m
		break
	}
	switch {
	case f.V8.Module == nil:
		f.lacks("V8", v8.ErrNotV8, NoJavaScript)
		return f
	case err != nil:
		f.lacks("V8 in "+f.V8.Module.Path, err, NoJavaScript)
		return f
	}
	if err := f.V8.Binary.CheckBuiltins(s, f.V8.Module.Bias); err != nil {
		f.lacks("V8's builtins", err, "interpreted functions are not found on stacks")
	}
	for _, missing := range f.V8.Binary.Missing {
		symbol, _, _ := strings.Cut(missing, " ")
		f.lacks("symbol "+symbol, errStripped, "functions of V8's own may have no name, and compiled ones no line")
	}
	f.Missing = append(f.Missing, f.V8.Read(s)...)
	return f
}

// Read makes Heap and Codes, which read the process's memory as it is now.
func (v *V8) Read(s *space.Space) []Missing {
	if v.Binary == nil {
		return nil
	}
	var err error
	if v.Heap, err = v8.NewHeap(s, v.Binary); err != nil {
		return []Missing{{"V8's heap", err, "no object is understood"}}
	}
	if v.Codes, err = code.NewFinder(v.Heap, v.Module.Bias); err != nil {
		return []Missing{{"dispatch table", err, "compiled functions have no executing line"}}
	}
	return nil
}

// inspect returns what a file says about the V8 in it.
func (f *Found) inspect(m *space.Module) (*v8.Binary, error) {
	b, err := v8.Inspect(m.ELF)
	var unknown *release.UnknownVersionError
	if !errors.As(err, &unknown) || unknown.Assumed == nil {
		return b, err
	}
	if b, err = v8.InspectAs(m.ELF, unknown.Assumed); err != nil {
		return nil, fmt.Errorf("%w: %w", unknown, err)
	}
	f.Assumed = unknown
	return b, nil
}
