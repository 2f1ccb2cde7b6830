// Package jsscope finds in a function's source text which variables V8 keeps in which
// registers of the function's frame. V8 keeps no such table: it numbers the variables of a
// function when it compiles it, in the order in which its parser declares them, after
// those that closures share (V8 9.4 to 14.6: src/ast/scopes.cc).
package jsscope

import (
	"errors"
	"strings"
)

// A Function describes a function whose variables are wanted.
type Function struct {
	Text   []uint16 // from its parameters to its end; of code that V8 wraps in a function: the body
	Kind   string   // as v8.Callable has it
	Strict bool
	Wrapped
}

// Wrapped is the parameters of a function whose text is only its body.
type Wrapped struct {
	Body       bool
	Parameters []string
	Own        bool // a function expression whose name has a register
}

// Variables are those of a function.
type Variables struct {
	Parameters []string // empty for a pattern, and for those that have a variable of their own
	Rest       bool     // the last parameter takes all other arguments
	Simple     bool     // the parameters are names only, and have no registers
	Registers  int      // that hold variables; temporary values follow
	Shared     []string // variables of the function itself in its Context, in order

	root     *scope
	assigned map[string]bool
}

// A Local is a variable that is visible somewhere in a function.
type Local struct {
	Name      string
	Register  int  // below 0: none
	Parameter bool // a parameter declares it
	Shared    bool // it is in a Context
	Unset     bool // it has no value yet, or may have none
}

var (
	errText    = errors.New("read variables: the text is not understood")
	errDynamic = errors.New("read variables: the function uses eval or with")
	errKind    = errors.New("read variables: V8 made the function")
)

// Analyze finds the variables of a function.
func Analyze(f Function) (*Variables, error) {
	p := &parser{lexer: lexer{source: f.Text}, strict: f.Strict, notArrows: map[int]bool{}, assigned: map[string]bool{}}
	p.tok = p.scan()
	kind := strings.TrimPrefix(f.Kind, "static ")
	root := p.newFunction(0, strings.HasPrefix(kind, "async"), strings.Contains(kind, "generator"))
	p.open(root)
	root.scope.arrow = strings.HasSuffix(kind, "arrow")
	switch {
	case root.scope.arrow:
		if p.is("async") {
			if next := p.peek(); next.kind == identifier || next.text == "(" {
				p.next()
			}
		}
		p.parameters(root)
		if !p.is("=>") {
			p.fail()
		}
		p.arrowBody(root, true)
	case kind == "module", kind == "async module", kind == "class fields":
		return nil, errKind
	default:
		root.scope.declare(newTarget, false)
		root.scope.declare(thisFunction, false)
		if f.Body {
			p.wrapped(root, f.Parameters)
			break
		}
		if kind == "class" && !p.is("(") { // its constructor is V8's
			return nil, errKind
		}
		p.parameters(root)
		p.body(root)
	}
	root.scope.end = len(f.Text)
	if p.failed || !p.done() {
		return nil, errText
	}
	v := &Variables{Parameters: root.parameters, Rest: root.rest, root: root.scope, assigned: p.assigned}
	if p.dynamic {
		return v, errDynamic
	}
	root.scope.resolve()
	v.Registers = root.scope.allocate(0, f.Own)
	v.Simple = root.simple
	v.Shared = root.scope.inContext()
	return v, nil
}

// wrapped parses a body whose function has the given parameters.
func (p *parser) wrapped(f *function, names []string) {
	for _, name := range names {
		f.scope.declare(name, false).used = true
	}
	f.parameters = names
	p.declareParameters(f)
	p.beginBody(f)
	p.directives()
	p.statements()
	p.endBody(f)
}

// At returns the variables of the function that are visible at a position in the text,
// innermost first. A variable hides others of its name.
func (v *Variables) At(position int) []Local {
	var locals []Local
	seen := map[string]bool{}
	for _, variable := range v.root.visible(position, nil) {
		name := variable.name
		if name == "" || name[0] == '.' || seen[name] {
			continue
		}
		seen[name] = true
		unset := variable.lexical && (position < variable.from || variable.until > 0 && position >= variable.until)
		locals = append(locals, Local{name, variable.register, variable.formal, variable.shared, unset})
	}
	return locals
}

// Free reports whether the function, or a function in it, uses a name that it does not
// declare.
func (v *Variables) Free(name string) bool { return v.root.free(name) }

// Assigned reports whether the function may assign to a parameter.
func (v *Variables) Assigned(name string) bool { return v.assigned[name] || v.assigned["arguments"] }
