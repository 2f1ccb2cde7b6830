package code

import (
	"fmt"

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

// maxSites bounds the calls of an error's stack that are read. V8 records 10 unless the
// program raises that limit.
const maxSites = 1 << 10

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

// CallSites reads the calls of an error's stack; none if v holds anything else.
func CallSites(h *v8.Heap, v v8.Value) ([]CallSite, error) {
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

// evalFields are names that V8 has given to a Script's field for what made the script.
var evalFields = []string{"eval_from_shared_or_wrapped_arguments", "eval_from_shared_or_wrapped_arguments_or_sfi_table"}

// EvalCaller returns the SharedFunctionInfo of the function that called eval with f's
// script; ok is false if f's script did not come from eval.
func EvalCaller(h *v8.Heap, f v8.Function) (caller v8.Object, ok bool) {
	if f.Script == 0 {
		return v8.Object{}, false
	}
	for _, field := range evalFields {
		v, err := h.FieldOf(v8.Object{Address: v8.Value(f.Script).Address()}, "Script", field)
		if err != nil {
			continue
		}
		if o, err := h.Object(v); err == nil && o.Map.Kind == "SharedFunctionInfo" {
			return o, true
		}
	}
	return v8.Object{}, false
}

// EvalOffset returns where in its script the caller called eval with f's script; -1 if
// that is not known. Until a program asks for the position, V8 keeps the call's bytecode
// offset, as a negative number.
func EvalOffset(h *v8.Heap, f v8.Function, caller v8.Object) int {
	v, err := h.FieldOf(v8.Object{Address: v8.Value(f.Script).Address()}, "Script", "eval_from_position")
	if err != nil {
		return -1
	}
	n, ok := v.Smi()
	if !ok || n >= 0 {
		return n
	}
	array, ok, err := bytecodes(h, caller)
	if err != nil || !ok {
		return -1
	}
	offset, err := positionOf(h, array, -n)
	if err != nil {
		return -1
	}
	return offset
}
