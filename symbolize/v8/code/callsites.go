package code

import (
	"fmt"
	"strings"

	"ustack/symbolize/v8"
)

// A CallSite is a call that was in progress when an error was created.
type CallSite struct {
	Function  v8.Value // JSFunction
	Receiver  v8.Value // this
	Offset    int      // in the script, in UTF-16 code units; -1 if not known or the function has no script
	Index     int      // of the promise that Promise.all and the like wait for
	Async     bool     // it awaits its callee
	Construct bool     // called by new
}

// A call's flags.
const (
	siteConstruct  = 1 << 3
	siteAsync      = 1 << 5
	sitePositioned = 1 << 6 // its code offset is already the position in the script
)

// From V8 14.6 on a call is six elements of the array itself, until a program
// asks for the stack.
const (
	flatSite     = 6
	flatCode     = 0
	flatReceiver = 1
	flatFunction = 2
	flatOffset   = 3
	flatFlags    = 5
)

// callSites reads the calls of an error's stack; none if v holds anything else.
func callSites(h *v8.Heap, v v8.Value) ([]CallSite, error) {
	words, err := h.FixedArray(v, maxSites*flatSite)
	if err != nil || len(words) == 0 {
		return nil, err
	}
	var sites []CallSite
	if first, err := h.Object(words[0]); err == nil && isCallSite(first) {
		for _, word := range words {
			o, err := h.Object(word)
			if err != nil || !isCallSite(o) { // V8 reserves extra room
				break
			}
			site, err := callSite(h, o)
			if err != nil {
				return sites, err
			}
			sites = append(sites, site)
		}
		return sites, nil
	}
	for ; len(words) >= flatSite; words = words[flatSite:] {
		fn, err := h.Object(words[flatFunction])
		if err != nil || !h.IsFunction(fn) {
			break
		}
		site, err := newSite(h, rawSite{
			words[flatFunction], words[flatReceiver], words[flatCode], words[flatOffset], words[flatFlags],
		})
		if err != nil {
			return sites, err
		}
		sites = append(sites, site)
	}
	return sites, nil
}

// isCallSite reports whether o is a call; V8 9 names its class differently.
func isCallSite(o v8.Object) bool {
	return o.Map.Kind == "CallSiteInfo" || o.Map.Kind == "StackFrameInfo"
}

// A rawSite is a call as V8 stores it.
type rawSite struct{ function, receiver, code, offset, flags v8.Value }

func callSite(h *v8.Heap, o v8.Object) (CallSite, error) {
	var r rawSite
	err := h.Fields(o, "CallSiteInfo", map[string]*v8.Value{
		"function": &r.function, "receiver_or_instance": &r.receiver, "code_object": &r.code,
		"code_offset": &r.offset, "flags": &r.flags,
	})
	if err != nil {
		return CallSite{}, err
	}
	return newSite(h, r)
}

func newSite(h *v8.Heap, r rawSite) (CallSite, error) {
	flags, ok1 := r.flags.Smi()
	offset, ok2 := r.offset.Smi()
	if !ok1 || !ok2 {
		return CallSite{}, fmt.Errorf("read call: flags %#x, offset %#x", uint64(r.flags), uint64(r.offset))
	}
	s := CallSite{
		Function: r.function, Receiver: r.receiver, Offset: -1, Index: offset,
		Async: flags&siteAsync != 0, Construct: flags&siteConstruct != 0,
	}
	if flags&sitePositioned != 0 {
		s.Offset = offset
		return s, nil
	}
	array, ok, err := bytecodesBehind(h, r.code)
	if err != nil || !ok {
		return s, err
	}
	s.Offset, err = positionOf(h, array, offset)
	return s, err
}

// maxEvals bounds the nested evals that are written.
const maxEvals = 8

// siteText returns the line for a call, without "at", as V8 writes it.
func (r *errorReader) siteText(s CallSite) string {
	fn, err := r.heap.Object(s.Function)
	if err != nil {
		return fmt.Sprintf("<bad function %#x>", uint64(s.Function))
	}
	f, err := r.heap.Function(fn)
	if err != nil {
		return fmt.Sprintf("<bad function %#x>", uint64(s.Function))
	}
	where := r.location(f, s.Offset)
	name := f.String()
	if name == v8.Anonymous {
		name = ""
	}
	if name == "" && r.evalFrom(f).IsObject() {
		name = "eval"
	}
	receiver := typeName(r.heap, s.Receiver)
	switch {
	case s.Async && f.Script == 0 && strings.HasPrefix(name, "a"): // all, allSettled, any
		return fmt.Sprintf("async Promise.%s (index %d)", name, s.Index)
	case s.Construct && name == "":
		name = "new <anonymous>"
	case s.Construct:
		name = "new " + name
	case receiver != "":
		name = r.methodCall(s.Receiver, fn, name, receiver)
	}
	text := where
	if name != "" {
		text = name + " (" + where + ")"
	}
	if s.Async {
		return "async " + text
	}
	return text
}

// location returns the file, line and column of a position in a function's script.
func (r *errorReader) location(f v8.Function, offset int) string {
	text := "<anonymous>"
	name := r.scriptName(f)
	if name == "" && r.evalFrom(f).IsObject() {
		text = r.evalOrigin(f, 0) + ", " + text
	} else if name != "" {
		text = name
	}
	if line, column := r.position(f, offset); line > 0 {
		text += fmt.Sprintf(":%d:%d", line, column)
	}
	return text
}

// position returns the line and column of an offset in f's script, 0 if not
// known.
func (r *errorReader) position(f v8.Function, offset int) (line, column int) {
	if f.Script == 0 || offset < 0 {
		return 0, 0
	}
	source, ok := r.sources[f.Script]
	if !ok && len(r.sources) < maxScripts {
		if s, err := ReadScript(r.heap, f.Script, f.ScriptID); err == nil {
			source = &s
		}
		r.sources[f.Script] = source
	}
	if source == nil {
		return 0, 0
	}
	return source.Position(offset)
}

// scriptName returns the URL that a script's source declares, or else the name
// that it was loaded by; empty if it has neither.
func (r *errorReader) scriptName(f v8.Function) string {
	if f.Script == 0 {
		return ""
	}
	l := &r.heap.Binary().Layout
	for _, offset := range []uint16{l.ScriptSourceURL, l.ScriptName} {
		v, err := r.heap.Field(v8.Object{Address: v8.Value(f.Script).Address()}, int(offset))
		if err != nil {
			continue
		}
		if text, err := r.heap.Name(v); err == nil && text != "" {
			return text
		}
	}
	return ""
}

// evalFrom returns the SharedFunctionInfo of the function that called eval with
// f's script; 0 if f's script did not come from eval.
func (r *errorReader) evalFrom(f v8.Function) v8.Value {
	if f.Script == 0 {
		return 0
	}
	for _, field := range []string{"eval_from_shared_or_wrapped_arguments", "eval_from_shared_or_wrapped_arguments_or_sfi_table"} {
		v, err := r.heap.FieldOf(v8.Object{Address: v8.Value(f.Script).Address()}, "Script", field)
		if err != nil {
			continue
		}
		if o, err := r.heap.Object(v); err == nil && o.Map.Kind == "SharedFunctionInfo" {
			return v
		}
	}
	return 0
}

// evalOrigin says where eval was called with f's script.
func (r *errorReader) evalOrigin(f v8.Function, depth int) string {
	shared, err := r.heap.Object(r.evalFrom(f))
	if err != nil || depth > maxEvals {
		return "eval"
	}
	caller, err := r.heap.Shared(shared)
	if err != nil {
		return "eval"
	}
	name := caller.String()
	if name == v8.Anonymous {
		name = "<anonymous>"
	}
	where := "unknown source"
	switch file := r.scriptName(caller); {
	case r.evalFrom(caller).IsObject():
		where = r.evalOrigin(caller, depth+1)
	case file != "":
		where = file
		if line, column := r.position(caller, r.evalPosition(f, shared)); line > 0 {
			where += fmt.Sprintf(":%d:%d", line, column)
		}
	}
	return "eval at " + name + " (" + where + ")"
}

// evalPosition returns the position of the eval call in its caller's script.
// Until the position is requested, V8 keeps the call's bytecode offset, as a
// negative number.
func (r *errorReader) evalPosition(f v8.Function, caller v8.Object) int {
	v, err := r.heap.FieldOf(v8.Object{Address: v8.Value(f.Script).Address()}, "Script", "eval_from_position")
	if err != nil {
		return -1
	}
	n, ok := v.Smi()
	if !ok || n >= 0 {
		return n
	}
	array, ok, err := bytecodes(r.heap, caller)
	if err != nil || !ok {
		return -1
	}
	offset, err := positionOf(r.heap, array, -n)
	if err != nil {
		return -1
	}
	return offset
}
