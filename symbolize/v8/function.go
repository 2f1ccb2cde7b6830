package v8

import (
	"encoding/binary"
	"fmt"
	"io"
)

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

// Function reads a JSFunction. It finds the name as V8 does
// (JSFunction::GetDebugName): the function's own property "name" if that is a
// value, which is where V8 stores a computed key; otherwise the name in the source.
func (h *Heap) Function(o Object) (Function, error) {
	if !h.IsFunction(o) {
		return Function{}, fmt.Errorf("read function at %#x: it has type %d", o.Address, o.Map.Type)
	}
	v, err := h.Field(o, int(h.layout.FunctionShared))
	if err != nil {
		return Function{}, err
	}
	f, err := h.FunctionOf(v)
	if err != nil {
		return Function{}, err
	}
	own, err := h.ownName(o)
	if err != nil {
		return Function{}, fmt.Errorf("read own name of function at %#x: %w", o.Address, err)
	}
	if own != "" {
		f.Name = own
	}
	return f, nil
}

// FunctionOf reads a function by its SharedFunctionInfo, which is all that an
// inlined function has.
func (h *Heap) FunctionOf(shared Value) (Function, error) {
	o, err := h.Object(shared)
	if err != nil {
		return Function{Start: -1, End: -1}, err
	}
	return h.Shared(o)
}

// Shared reads a SharedFunctionInfo.
func (h *Heap) Shared(o Object) (Function, error) {
	f := Function{Start: -1, End: -1}
	if o.Map.Type != h.layout.SharedFunctionInfo {
		return f, fmt.Errorf("read shared function at %#x: it has type %d", o.Address, o.Map.Type)
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
func (h *Heap) nameOf(shared Object, f *Function) error {
	v, err := h.Field(shared, int(h.layout.SharedName))
	if err != nil || !v.IsObject() {
		return err
	}
	o, err := h.Object(v)
	if err != nil {
		return err
	}
	if o.Map.Type == h.layout.ScopeInfo {
		return h.scope(o, f)
	}
	f.Name, err = h.Name(v)
	return err
}

// uncompiled reads the position of a function that has not been compiled yet, or
// whose bytecode was dropped.
func (h *Heap) uncompiled(shared Object, f *Function) error {
	v, err := h.Field(shared, int(h.layout.SharedData))
	if err != nil || !v.IsObject() {
		return err
	}
	data, err := h.Object(v)
	if err != nil || data.Map.Type < h.layout.FirstUncompiled || data.Map.Type > h.layout.LastUncompiled {
		return err
	}
	start, err := h.Uint32(data, int(h.layout.UncompiledStart))
	if err != nil {
		return err
	}
	end, err := h.Uint32(data, int(h.layout.UncompiledEnd))
	if err != nil {
		return err
	}
	f.Start, f.End = int(int32(start)), int(int32(end))
	inferred, err := h.Field(data, int(h.layout.UncompiledName))
	if err != nil {
		return err
	}
	f.Inferred, err = h.Name(inferred)
	return err
}

// scriptOf reads a SharedFunctionInfo's script, which may be reached through the
// data that the debugger or a coverage tool attached to the function.
func (h *Heap) scriptOf(shared Object, f *Function) error {
	v, err := h.Field(shared, int(h.layout.SharedScript))
	if err != nil || !v.IsObject() {
		return err
	}
	o, err := h.Object(v)
	if err != nil {
		return err
	}
	if h.layout.DebugInfo != 0 && o.Map.Type == h.layout.DebugInfo {
		if v, err = h.Field(o, int(h.layout.DebugInfoScript)); err != nil {
			return err
		}
		if o, err = h.Object(v); err != nil {
			return err
		}
	}
	if o.Map.Type != h.layout.Script {
		return nil
	}
	f.Script = uint64(o.Ref())
	f.ScriptID, err = h.SmiField(o, int(h.layout.ScriptID))
	return err
}

// Flags of a ScopeInfo, the same in V8 9.4 to 14.6.
const (
	scopeTypeMask     = 15
	scopeStrict       = 1 << 5
	scopeReceiver     = 7 // two bits from here
	scopeClassWord    = 1 << 10
	scopeFunctionName = 3 << 12
	scopeInferredName = 1 << 14
	scopeWords        = 8       // byte of a ScopeInfo's word 0
	maxLocals         = 1 << 20 // variables of one scope
)

// A scopeReader reads the words of a ScopeInfo in order.
type scopeReader struct {
	*Heap
	scope Object
	data  []byte // of the ScopeInfo and what follows it; nil: not read yet
	next  int    // word
}

func (s *scopeReader) word(n int) (Value, error) {
	at := scopeWords + n*wordSize
	if s.data == nil {
		return s.Field(s.scope, at)
	}
	if at+wordSize > len(s.data) {
		return 0, io.ErrUnexpectedEOF
	}
	return Value(binary.LittleEndian.Uint64(s.data[at:])), nil
}

// take reads the next word and advances.
func (s *scopeReader) take() (Value, error) {
	s.next++
	return s.word(s.next - 1)
}

// scope reads the name, inferred name and position of a ScopeInfo's function.
func (h *Heap) scope(o Object, f *Function) error {
	l := h.layout
	s := &scopeReader{Heap: h, scope: o}
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
		if f.Name, err = h.Name(name); err != nil {
			return err
		}
		s.next++ // slot of the function's own variable
	}
	if flags&scopeInferredName != 0 {
		inferred, err := s.take()
		if err != nil {
			return err
		}
		if f.Inferred, err = h.Name(inferred); err != nil {
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
	l := s.layout
	w, err := s.word(int(l.ScopeLocals))
	if err != nil {
		return err
	}
	n, ok := w.Smi()
	if !ok || n < 0 || n > maxLocals {
		return fmt.Errorf("read scope at %#x: %#x variables", s.scope.Address, uint64(w))
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

// leastScope returns the size in bytes that a ScopeInfo at the start of data has at least.
func (h *Heap) leastScope(data []byte) (int, error) {
	s := &scopeReader{Heap: h, data: data}
	flags, err := s.flags()
	if err != nil {
		return 0, err
	}
	if err := s.skipLocals(flags); err != nil {
		return 0, err
	}
	if flags&scopeFunctionName != 0 {
		s.next += 2
	}
	if flags&scopeInferredName != 0 {
		s.next++
	}
	return scopeWords + s.next*wordSize, nil
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
	first, ok1 := start.Smi()
	last, ok2 := end.Smi()
	if ok1 && ok2 {
		f.Start, f.End = first, last
	}
	return nil
}
