package jsscope

// Names of V8's variables for new.target and for the function that runs.
const (
	newTarget    = ".new.target"
	thisFunction = ".this_function"
)

// A function is a function of the text.
type function struct {
	scope            *scope
	body             *scope // where its statements declare: scope, or a scope in it
	async, generator bool
	parameters       []string // empty for a pattern
	rest             bool     // the last one takes all other arguments
	simple           bool     // its parameters are names only
}

// An opened is what a parser continues with after a function.
type opened struct {
	scope                    *scope
	strict, async, generator bool
}

func (p *parser) newFunction(start int, async, generator bool) *function {
	s := newScope(functionScope, p.scope, start)
	return &function{scope: s, body: s, async: async, generator: generator, simple: true}
}

// open begins a function; close ends it.
func (p *parser) open(f *function) opened {
	o := opened{p.scope, p.strict, p.async, p.generator}
	p.scope, p.async, p.generator = f.scope, f.async, f.generator
	p.functions++
	return o
}

func (p *parser) close(o opened) {
	p.scope.end = p.before
	p.scope, p.strict, p.async, p.generator = o.scope, o.strict, o.async, o.generator
}

// parameters parses parameters, in parentheses or a name.
func (p *parser) parameters(f *function) {
	add := func(name string, _ bool) {
		v := f.scope.declare(name, false)
		v.used, v.formal = true, true
	}
	if p.tok.kind == identifier {
		f.parameters = append(f.parameters, p.tok.text)
		p.pattern(add)
	} else {
		p.expect("(")
		for !p.done() && !p.is(")") {
			if p.take("...") {
				f.rest, f.simple = true, false
			}
			name := ""
			if p.tok.kind == identifier {
				name = p.tok.text
			} else {
				f.simple = false
			}
			f.parameters = append(f.parameters, name)
			p.pattern(add)
			if p.take("=") {
				f.simple = false
				p.assignment(true)
			}
			if !p.take(",") {
				break
			}
		}
		p.expect(")")
	}
	p.declareParameters(f)
}

// declareParameters numbers the parameters, or declares V8's own variables for them if
// their values go elsewhere.
func (p *parser) declareParameters(f *function) {
	if p.failed {
		return
	}
	for i, name := range f.parameters {
		if f.simple {
			f.scope.named[name].parameter = i
			continue
		}
		v := f.scope.add()
		v.used = true
		if !f.rest || i < len(f.parameters)-1 {
			v.parameter = i
		}
	}
}

// beginBody begins a function's body, after its parameters.
func (p *parser) beginBody(f *function) {
	if f.async || f.generator {
		f.scope.temporary()
	}
	if !f.simple {
		f.body = newScope(bodyScope, f.scope, p.before)
	}
	p.scope = f.body
}

func (p *parser) endBody(f *function) {
	if !p.strict {
		f.body.hoist()
	}
	f.body.end = p.before
	p.scope = f.scope
}

// body parses a function's body in braces.
func (p *parser) body(f *function) {
	p.beginBody(f)
	p.expect("{")
	p.directives()
	p.statements()
	p.expect("}")
	p.endBody(f)
}

// directives notes "use strict".
func (p *parser) directives() {
	l := p.lexer
	for t := p.tok; t.kind == text; t = l.scan() {
		if t.end-t.start == len(`"use strict"`) && string(narrow(l.source[t.start+1:t.end-1])) == "use strict" {
			p.strict = true
		}
		if next := l.scan(); next.kind != punctuator || next.text != ";" {
			if next.kind == punctuator && !next.newline && next.text != "}" { // an expression
				return
			}
			if next.kind != text {
				return
			}
		}
	}
}

func narrow(units []uint16) []byte {
	b := make([]byte, len(units))
	for i, u := range units {
		b[i] = byte(u)
	}
	return b
}

// function parses a function from its parameters on.
func (p *parser) function(f *function) {
	outer := p.open(f)
	f.scope.start = p.tok.start
	f.scope.declare(newTarget, false)
	f.scope.declare(thisFunction, false)
	p.parameters(f)
	p.body(f)
	p.close(outer)
}

func (p *parser) method(m modifier) { p.function(p.newFunction(p.tok.start, m.async, m.generator)) }

func (p *parser) functionExpression(async bool) {
	p.next()
	f := p.newFunction(p.tok.start, async, p.take("*"))
	if p.tok.kind == identifier {
		f.scope.own = p.next().text
	}
	p.function(f)
}

func (p *parser) functionDeclaration(async bool) {
	p.next()
	at := p.scope
	f := p.newFunction(p.tok.start, async, p.take("*"))
	if p.tok.kind != identifier {
		p.fail()
		return
	}
	name := p.next().text
	p.assigned[name] = true
	p.function(f)
	declares := at.declares()
	v := at.declare(name, at != declares)
	if at != declares && !p.strict && !f.async && !f.generator {
		declares.hoisted = append(declares.hoisted, hoisting{name, at})
	}
	v.from = at.start
}

// class parses a class and returns its name.
func (p *parser) class() (name string) {
	p.next()
	strict := p.strict
	p.strict = true
	p.within(classScope, p.tok.start, func(s *scope) {
		if p.tok.kind == identifier && !p.is("extends") {
			name = p.next().text
			s.declare(name, true)
		}
		if p.take("extends") {
			p.member(true)
		}
		p.expect("{")
		for !p.done() && !p.is("}") {
			p.classMember()
		}
		p.expect("}")
		if v := s.named[name]; v != nil {
			v.from = p.before
		}
	})
	p.strict = strict
	return name
}

func (p *parser) classMember() {
	if p.take(";") {
		return
	}
	m := p.modifiers()
	if m.static && p.is("{") {
		p.initializer(func() { p.block() })
		return
	}
	p.propertyName()
	switch {
	case p.is("("):
		p.method(m)
	case p.take("="):
		p.initializer(func() { p.assignment(true) })
		p.semicolon()
	default:
		p.semicolon()
	}
}

// initializer parses what runs in a function of its own when an object or a class is made.
func (p *parser) initializer(parse func()) {
	f := p.newFunction(p.tok.start, false, false)
	outer := p.open(f)
	f.scope.declare(newTarget, false)
	f.scope.declare(thisFunction, false)
	parse()
	p.close(outer)
}
