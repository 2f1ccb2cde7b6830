package jsscope

import "slices"

// declarations parses what follows var, let or const, and returns the names.
func (p *parser) declarations(lexical, in bool) []string {
	p.next()
	nested := !lexical && p.scope.declares() != p.scope
	var names []string
	for {
		first := len(names)
		simple := p.tok.kind == identifier
		p.pattern(func(name string, _ bool) { names = append(names, name) })
		at := p.scope
		if !lexical {
			at = at.declares()
		}
		initialized := p.is("=")
		for _, name := range names[first:] {
			v := at.declare(name, lexical)
			p.assigned[name] = p.assigned[name] || !lexical
			switch binds := initialized || !simple || p.isOne("in", "of"); {
			case binds && nested: // another scope's variable may have the name
				p.use(name)
			case binds || lexical:
				v.used = true
			}
		}
		if p.take("=") {
			p.assignment(in)
		}
		for _, name := range names[first:] {
			if v := at.named[name]; lexical {
				v.from = p.before
			}
		}
		if !p.take(",") {
			return names
		}
	}
}

// pattern parses a binding: a name, an object's or an array's pattern.
func (p *parser) pattern(bind func(name string, plain bool)) {
	p.enter()
	defer p.leave()
	switch {
	case p.take("{"):
		for !p.done() && !p.is("}") {
			p.propertyPattern(bind)
			if !p.take(",") {
				break
			}
		}
		p.expect("}")
	case p.take("["):
		for !p.done() && !p.is("]") {
			if p.take(",") {
				continue
			}
			p.take("...")
			p.element(bind)
			if !p.take(",") {
				break
			}
		}
		p.expect("]")
	case p.tok.kind == identifier && !p.isReserved():
		bind(p.next().text, true)
	default:
		p.fail()
	}
}

// reserved are words that are no names.
var reserved = []string{
	"break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else", "enum", "export", "extends",
	"false", "finally", "for", "function", "if", "import", "in", "instanceof", "new", "null", "return", "super", "switch", "this",
	"throw", "true", "try", "typeof", "var", "void", "while", "with",
}

func (p *parser) isReserved() bool { return slices.Contains(reserved, p.tok.text) }

// element parses a binding with an initializer, if it has one.
func (p *parser) element(bind func(string, bool)) {
	p.pattern(bind)
	if p.take("=") {
		p.assignment(true)
	}
}

func (p *parser) propertyPattern(bind func(string, bool)) {
	if p.take("...") {
		p.pattern(bind)
		return
	}
	if p.tok.kind == identifier {
		if next := p.peek(); next.kind != punctuator || next.text != ":" {
			p.element(bind)
			return
		}
	}
	p.propertyName()
	p.expect(":")
	p.element(bind)
}

// propertyName parses the name of a property or member.
func (p *parser) propertyName() {
	switch {
	case p.take("["):
		p.assignment(true)
		p.expect("]")
	case p.tok.kind == identifier, p.tok.kind == text, p.tok.kind == number, p.tok.kind == private:
		p.next()
	default:
		p.fail()
	}
}
