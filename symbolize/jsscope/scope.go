package jsscope

import "slices"

// A scopeKind is what a scope belongs to.
type scopeKind int

const (
	functionScope scopeKind = iota
	bodyScope               // a function's body, if its parameters are not plain names: "var" declares here
	blockScope
	catchScope
	classScope
)

// A variable is a variable of a scope, or one that V8's parser adds.
type variable struct {
	name      string // empty: V8's own
	parameter int    // its index; below 0 if it is no parameter
	formal    bool   // a parameter declares it
	lexical   bool
	used      bool
	shared    bool // with closures: in a Context
	from      int  // where the text begins at which it has its value
	until     int  // where that text ends; 0: where its scope ends
	register  int  // below 0: none
}

// A scope is a part of the text in which variables are declared.
type scope struct {
	kind       scopeKind
	arrow      bool
	parent     *scope
	inner      []*scope
	variables  []*variable
	named      map[string]*variable
	uses       map[string]bool
	start, end int
	own        string     // a function expression's name
	hoisted    []hoisting // functions in blocks that also declare a var here
}

// A hoisting is a function that is declared in a block of sloppy code.
type hoisting struct {
	name string
	in   *scope
}

func newScope(kind scopeKind, parent *scope, start int) *scope {
	s := &scope{kind: kind, parent: parent, named: map[string]*variable{}, uses: map[string]bool{}, start: start}
	if parent != nil {
		parent.inner = append(parent.inner, s)
	}
	return s
}

// declares returns the scope in which "var" declares.
func (s *scope) declares() *scope {
	for s.kind != functionScope && s.kind != bodyScope {
		s = s.parent
	}
	return s
}

// declare adds a variable, unless s has one of that name.
func (s *scope) declare(name string, lexical bool) *variable {
	if v := s.named[name]; v != nil {
		return v
	}
	v := s.add()
	v.name, v.lexical = name, lexical
	s.named[name] = v
	return v
}

// add adds a variable without a name.
func (s *scope) add() *variable {
	v := &variable{parameter: -1, register: -1}
	s.variables = append(s.variables, v)
	return v
}

// temporary adds one of V8's own variables to the function, which always has a register.
func (s *scope) temporary() {
	for s.kind != functionScope {
		s = s.parent
	}
	s.add().used = true
}

// hoist declares the functions in blocks for the whole function, as V8 does at the
// function's end.
func (s *scope) hoist() {
	for _, h := range s.hoisted {
		hides := false
		for outer := h.in.parent; outer != s && !hides; outer = outer.parent {
			v := outer.named[h.name]
			hides = v != nil && v.lexical
		}
		if v := s.named[h.name]; hides || v != nil && v.lexical {
			continue
		}
		if s.kind == bodyScope && s.parent.named[h.name] != nil || s.named[h.name] != nil && s.named[h.name].parameter >= 0 {
			continue
		}
		s.declare(h.name, false).used = true
		h.in.named[h.name].used = true
	}
}

// resolve marks the variables that s and the scopes in it use. What no scope declares is
// not the function's.
func (s *scope) resolve() {
	for name := range s.uses {
		s.find(name)
	}
	for _, inner := range s.inner {
		inner.resolve()
	}
}

// find marks the variable that a name means in s.
func (s *scope) find(name string) {
	crossed := false
	for at := s; at != nil; at = at.parent {
		v := at.named[name]
		if v == nil && at.kind == functionScope && !at.arrow && name == "arguments" {
			v = at.declare(name, false)
		}
		if v != nil {
			v.used = true
			v.shared = v.shared || crossed
			return
		}
		if at.kind == functionScope {
			if at.own == name {
				return
			}
			crossed = true
		}
	}
}

// allocate numbers the registers of the variables of s and of the scopes in it, as V8's
// Scope::AllocateVariablesRecursively does: later blocks first. It returns the next number.
func (s *scope) allocate(next int, own bool) int {
	variables := s.variables
	if s.arrow { // V8's own variables come last
		own := func(v *variable) bool { return v.name == "" }
		others := slices.DeleteFunc(slices.Clone(variables), own)
		variables = append(others, slices.DeleteFunc(slices.Clone(variables), func(v *variable) bool { return !own(v) })...)
	}
	for _, v := range variables {
		if v.used && !v.shared && v.parameter < 0 && s.kind != catchScope {
			v.register = next
			next++
		}
	}
	if own { // the name of a function expression
		next++
	}
	for _, inner := range slices.Backward(s.inner) {
		if inner.kind != functionScope {
			next = inner.allocate(next, false)
		}
	}
	return next
}

// inContext returns the names of the variables of s that V8 keeps in a Context, in order.
func (s *scope) inContext() []string {
	var names []string
	for _, v := range slices.Backward(s.variables) {
		if v.used && v.shared && v.parameter >= 0 {
			names = append(names, v.name)
		}
	}
	for _, v := range s.variables {
		if v.used && v.shared && v.parameter < 0 && v.name != "" {
			names = append(names, v.name)
		}
	}
	return names
}

// visible adds the variables of s and of the blocks in it that contain a position,
// innermost first.
func (s *scope) visible(position int, list []*variable) []*variable {
	for _, inner := range s.inner {
		if inner.kind != functionScope && position >= inner.start && position < inner.end {
			list = inner.visible(position, list)
		}
	}
	return append(list, s.variables...)
}

// free reports whether s, or a scope in it, uses a name that none of them declares.
func (s *scope) free(name string) bool {
	if s.named[name] != nil {
		return false
	}
	return s.uses[name] || slices.ContainsFunc(s.inner, func(inner *scope) bool { return inner.free(name) })
}
