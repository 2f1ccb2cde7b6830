package v8

import "fmt"

// Anonymous stands for the name of a function without one.
const Anonymous = "(anonymous)"

// A Function describes a JavaScript function.
type Function struct {
	Name     string // empty if V8 has none
	Inferred string // from what the function is assigned to: "Foo.bar"; may be empty
	Script   uint64 // address of its Script, tagged; 0 for a builtin
	ScriptID int    // 0 for a builtin
	Start    int    // of its text in the script, in UTF-16 code units; -1 if not known
	End      int    // likewise
}

// String returns the name that stack traces show.
func (f Function) String() string {
	switch {
	case f.Name != "":
		return f.Name
	case f.Inferred != "":
		return f.Inferred
	}
	return Anonymous
}

// ReadFunction reads the JSFunction at addr (tagged or not). It finds the name as
// V8 does (JSFunction::GetDebugName): the function's own property "name" if that
// is a value, which is where V8 stores a computed key; otherwise the name in the
// source.
func ReadFunction(mem Memory, l Layout, addr uint64) (Function, error) {
	h := heap{mem, l}
	o, err := h.object(addr | heapTag)
	if err != nil {
		return Function{}, fmt.Errorf("read function: %w", err)
	}
	if o.typ < l.FirstJSFunction || o.typ > l.LastJSFunction {
		return Function{}, fmt.Errorf("read function at %#x: it has type %d", o.address, o.typ)
	}
	tagged, err := h.field(o, l.FunctionShared)
	if err != nil {
		return Function{}, err
	}
	f, err := h.shared(tagged)
	if err != nil {
		return Function{}, err
	}
	own, err := h.ownName(o)
	if err != nil {
		return Function{}, fmt.Errorf("read own name of function at %#x: %w", o.address, err)
	}
	if own != "" {
		f.Name = own
	}
	return f, nil
}

// shared reads a SharedFunctionInfo.
func (h heap) shared(tagged uint64) (Function, error) {
	f := Function{Start: -1, End: -1}
	o, err := h.object(tagged)
	if err != nil {
		return f, err
	}
	if o.typ != h.layout.SharedFunctionInfo {
		return f, fmt.Errorf("read shared function at %#x: it has type %d", o.address, o.typ)
	}
	if err := h.nameOf(o, &f); err != nil {
		return f, err
	}
	if f.Start < 0 {
		if err := h.uncompiled(o, &f); err != nil {
			return f, err
		}
	}
	return f, h.scriptOf(o, &f)
}

// nameOf reads a SharedFunctionInfo's name field: a String, or a ScopeInfo once
// the function was compiled, or a Smi for no name.
func (h heap) nameOf(shared object, f *Function) error {
	tagged, err := h.field(shared, h.layout.SharedName)
	if err != nil || !isObject(tagged) {
		return err
	}
	o, err := h.object(tagged)
	if err != nil {
		return err
	}
	if o.typ == h.layout.ScopeInfo {
		return h.scope(o, f)
	}
	if h.isString(o) {
		f.Name, err = h.text(tagged)
	}
	return err
}

// uncompiled reads the position of a function that has not been compiled yet, or
// whose bytecode was dropped.
func (h heap) uncompiled(shared object, f *Function) error {
	tagged, err := h.field(shared, h.layout.SharedData)
	if err != nil || !isObject(tagged) {
		return err
	}
	data, err := h.object(tagged)
	if err != nil || data.typ < h.layout.FirstUncompiled || data.typ > h.layout.LastUncompiled {
		return err
	}
	start, err := h.uint32(data.address + uint64(h.layout.UncompiledStart))
	if err != nil {
		return err
	}
	end, err := h.uint32(data.address + uint64(h.layout.UncompiledEnd))
	if err != nil {
		return err
	}
	f.Start, f.End = int(int32(start)), int(int32(end))
	inferred, err := h.field(data, h.layout.UncompiledName)
	if err != nil {
		return err
	}
	f.Inferred, err = h.textIfString(inferred)
	return err
}

// scriptOf reads a SharedFunctionInfo's script, which may be reached through the
// data that the debugger or a coverage tool attached to the function.
func (h heap) scriptOf(shared object, f *Function) error {
	tagged, err := h.field(shared, h.layout.SharedScript)
	if err != nil || !isObject(tagged) {
		return err
	}
	o, err := h.object(tagged)
	if err != nil {
		return err
	}
	if h.layout.DebugInfo != 0 && o.typ == h.layout.DebugInfo {
		if tagged, err = h.field(o, h.layout.DebugInfoScript); err != nil {
			return err
		}
		if o, err = h.object(tagged); err != nil {
			return err
		}
	}
	if o.typ != h.layout.Script {
		return nil
	}
	f.Script = o.tagged()
	f.ScriptID, err = h.smiField(o, h.layout.ScriptID)
	return err
}

// textIfString returns the text of a string, and "" for anything else.
func (h heap) textIfString(tagged uint64) (string, error) {
	if !isObject(tagged) {
		return "", nil
	}
	o, err := h.object(tagged)
	if err != nil || !h.isString(o) {
		return "", err
	}
	return h.text(tagged)
}

// Flags of a ScopeInfo, the same in V8 9.4 to 14.6.
const (
	scopeTypeMask     = 15
	scopeReceiver     = 7 // two bits from here
	scopeClassWord    = 1 << 10
	scopeFunctionName = 3 << 12
	scopeInferredName = 1 << 14
	scopeWords        = 8       // byte of a ScopeInfo's word 0
	maxLocals         = 1 << 20 // variables of one scope
)

// A scopeReader reads the words of a ScopeInfo in order.
type scopeReader struct {
	heap
	scope object
	next  int // word
}

func (s *scopeReader) word(n int) (uint64, error) {
	return s.heap.word(s.scope.address + scopeWords + uint64(n)*wordSize)
}

// take reads the next word and advances.
func (s *scopeReader) take() (uint64, error) {
	s.next++
	return s.word(s.next - 1)
}

// scope reads the name, inferred name and position of a ScopeInfo's function.
func (h heap) scope(o object, f *Function) error {
	l := &h.layout
	s := &scopeReader{heap: h, scope: o}
	flags, err := s.flags()
	if err != nil {
		return err
	}
	if err := s.skipLocals(flags); err != nil {
		return err
	}
	if flags&scopeFunctionName != 0 {
		name, err := s.take()
		if err != nil {
			return err
		}
		if f.Name, err = h.textIfString(name); err != nil {
			return err
		}
		s.next++ // slot of the function's own variable
	}
	if flags&scopeInferredName != 0 {
		inferred, err := s.take()
		if err != nil {
			return err
		}
		if f.Inferred, err = h.textIfString(inferred); err != nil {
			return err
		}
	}
	switch {
	case l.ScopePositions != 0:
		s.next = int(l.ScopePositions)
	case l.ScopePositionsOf>>(flags&scopeTypeMask)&1 == 0:
		return nil
	}
	return s.positions(f)
}

func (s *scopeReader) flags() (uint32, error) {
	w, err := s.word(0)
	if s.layout.ScopeFlagsSmi != 0 {
		w >>= 32
	}
	return uint32(w), err
}

// skipLocals advances past the scope's variables.
func (s *scopeReader) skipLocals(flags uint32) error {
	l := &s.layout
	w, err := s.word(int(l.ScopeLocals))
	if err != nil {
		return err
	}
	n, ok := smi(w)
	if !ok || n < 0 || n > maxLocals {
		return fmt.Errorf("read scope at %#x: %#x variables", s.scope.address, w)
	}
	names := n
	if n >= int(l.ScopeMaxInlined) {
		names = 1 // a hash table
	}
	s.next = int(l.ScopeFirst) + names + n
	if l.ScopeModule != 0 && flags&scopeTypeMask == uint32(l.ScopeModule)-1 {
		s.next++
	}
	if flags&scopeClassWord != 0 {
		s.next++
	}
	if receiver := flags >> scopeReceiver & 3; l.ScopeReceiver != 0 && (receiver == 1 || receiver == 2) {
		s.next++
	}
	return nil
}

func (s *scopeReader) positions(f *Function) error {
	start, err := s.take()
	if err != nil {
		return err
	}
	end, err := s.take()
	if err != nil {
		return err
	}
	first, ok1 := smi(start)
	last, ok2 := smi(end)
	if ok1 && ok2 {
		f.Start, f.End = first, last
	}
	return nil
}
