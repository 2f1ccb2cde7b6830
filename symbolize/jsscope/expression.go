package jsscope

import "slices"

// expression parses an expression; without in, "in" ends it.
func (p *parser) expression(in bool) {
	for {
		p.assignment(in)
		if !p.take(",") {
			return
		}
		if p.is(")") { // of an arrow function's parameters
			return
		}
	}
}

// assigning are the operators of assignments.
var assigning = []string{"=", "+=", "-=", "*=", "/=", "%=", "**=", "<<=", ">>=", ">>>=", "&=", "|=", "^=", "&&=", "||=", "??="}

func (p *parser) assignment(in bool) {
	p.enter()
	defer p.leave()
	if p.generator && p.is("yield") {
		p.yield(in)
		return
	}
	if p.arrow(in) {
		return
	}
	since := len(p.log)
	p.binary(in)
	if p.take("?") {
		p.assignment(true)
		p.expect(":")
		p.assignment(in)
		return
	}
	if slices.ContainsFunc(assigning, p.is) {
		p.assign(since)
		p.next()
		p.assignment(in)
	}
}

func (p *parser) yield(in bool) {
	p.next()
	if p.tok.newline || p.isOne(")", "]", "}", ",", ";", ":", "in", "of") || p.done() {
		return
	}
	p.take("*")
	p.assignment(in)
}

// arrow parses an arrow function, if one begins here.
func (p *parser) arrow(in bool) bool {
	async := p.is("async")
	first := p.tok
	if async {
		first = p.peek()
		if first.newline {
			return false
		}
	}
	plain := first.kind == identifier
	if !plain && (first.kind != punctuator || first.text != "(") || p.notArrows[p.tok.start] {
		return false
	}
	if plain && !async {
		if next := p.peek(); next.kind != punctuator || next.text != "=>" {
			return false
		}
	}
	if p.failed {
		return false
	}
	at, from := p.save(), p.tok.start
	if async {
		p.next()
	}
	f := p.newFunction(from, async, false)
	f.scope.arrow = true
	outer := p.open(f)
	p.parameters(f)
	if !p.is("=>") || p.tok.newline || p.failed {
		p.close(outer)
		p.restore(at)
		p.notArrows[from] = true
		return false
	}
	p.arrowBody(f, in)
	p.close(outer)
	p.keep(at)
	return true
}

func (p *parser) arrowBody(f *function, in bool) {
	p.next()
	if p.is("{") {
		p.body(f)
		return
	}
	p.beginBody(f)
	p.assignment(in)
	p.endBody(f)
}

// operators are between operands.
var operators = []string{
	"||", "&&", "??", "|", "^", "&", "==", "!=", "===", "!==", "<", ">", "<=", ">=", "<<", ">>", ">>>", "+", "-", "*", "/", "%", "**", "instanceof",
}

func (p *parser) binary(in bool) {
	for {
		p.unary()
		if !slices.ContainsFunc(operators, p.is) && !(in && p.is("in")) {
			return
		}
		p.next()
	}
}

func (p *parser) unary() {
	since, counts := len(p.log), false
	for p.isOne("!", "~", "+", "-", "++", "--", "typeof", "void", "delete") || p.async && p.is("await") {
		counts = counts || p.isOne("++", "--")
		p.next()
	}
	p.member(true)
	after := p.isOne("++", "--") && !p.tok.newline
	if counts || after {
		p.assign(since)
	}
	if after {
		p.next()
	}
}

// member parses a primary expression with what is read of it, and its calls unless they
// are those of new.
func (p *parser) member(calls bool) {
	direct := p.is("eval")
	p.primary()
	for !p.done() {
		switch {
		case p.take("?."):
			if p.tok.kind == identifier || p.tok.kind == private {
				p.next()
			}
		case p.take("."):
			if p.tok.kind != identifier && p.tok.kind != private {
				p.fail()
			}
			p.next()
		case p.take("["):
			p.expression(true)
			p.expect("]")
		case calls && p.is("("):
			p.dynamic = p.dynamic || direct
			p.arguments()
		case p.tok.kind == template:
			p.template()
		default:
			return
		}
		direct = false
	}
}

func (p *parser) arguments() {
	p.expect("(")
	for !p.done() && !p.is(")") {
		p.take("...")
		p.assignment(true)
		if !p.take(",") {
			break
		}
	}
	p.expect(")")
}

func (p *parser) template() {
	for p.chunk() {
		p.tok = p.scan()
		p.expression(true)
		if !p.is("}") {
			p.fail()
			return
		}
		p.pos = p.tok.end
	}
	p.tok.end = p.pos
	if p.failed {
		p.fail()
		return
	}
	p.next()
}

func (p *parser) primary() {
	p.enter()
	defer p.leave()
	switch p.tok.kind {
	case end:
		p.fail()
	case identifier:
		p.word()
	case private, text, number:
		p.next()
	case template:
		p.template()
	default:
		p.punctuated()
	}
}

func (p *parser) punctuated() {
	switch {
	case p.take("("):
		p.expression(true)
		p.expect(")")
	case p.take("["):
		for !p.done() && !p.is("]") {
			if p.take(",") {
				continue
			}
			p.take("...")
			p.assignment(true)
			if !p.is("]") {
				p.expect(",")
			}
		}
		p.expect("]")
	case p.take("{"):
		for !p.done() && !p.is("}") {
			p.property()
			if !p.is("}") {
				p.expect(",")
			}
		}
		p.expect("}")
	case p.isOne("/", "/="):
		p.regexp(p.tok.start)
		p.next()
	default:
		p.fail()
	}
}

func (p *parser) word() {
	if p.tok.escaped {
		p.use(p.next().text)
		return
	}
	switch p.tok.text {
	case "function":
		p.functionExpression(false)
	case "class":
		p.class()
	case "new":
		p.new()
	case "super":
		p.next()
		if p.is("(") {
			p.use(newTarget)
			p.use(thisFunction)
		}
	case "import":
		p.next()
		if p.take(".") {
			p.next()
		}
	case "this", "null", "true", "false":
		p.next()
	case "async":
		if next := p.peek(); next.kind == identifier && next.text == "function" && !next.newline {
			p.next()
			p.functionExpression(true)
			return
		}
		p.use(p.next().text)
	default:
		if p.isReserved() {
			p.fail()
			return
		}
		p.use(p.next().text)
	}
}

func (p *parser) new() {
	p.enter()
	defer p.leave()
	p.next()
	if p.take(".") {
		p.next()
		p.use(newTarget)
		return
	}
	if p.is("new") {
		p.new()
	} else {
		p.member(false)
	}
	if p.is("(") {
		p.arguments()
	}
}

// property parses a property of an object.
func (p *parser) property() {
	if p.take("...") {
		p.assignment(true)
		return
	}
	m := p.modifiers()
	if p.tok.kind == identifier && !m.any {
		if next := p.peek(); next.kind == punctuator && slices.Contains([]string{",", "}", "="}, next.text) {
			p.use(p.next().text)
			if p.take("=") {
				p.assignment(true)
			}
			return
		}
	}
	p.propertyName()
	if p.is("(") {
		p.method(m)
		return
	}
	p.expect(":")
	p.assignment(true)
}

// A modifier is what precedes a method's name.
type modifier struct{ async, generator, static, any bool }

// modifiers parses the words before the name of a member.
func (p *parser) modifiers() (m modifier) {
	for p.tok.kind == identifier && p.isOne("async", "get", "set", "static", "accessor") {
		next := p.peek()
		if next.kind == punctuator && !slices.Contains([]string{"[", "*", "{"}, next.text) || next.kind == end {
			break
		}
		if next.kind == punctuator && next.text == "{" && !p.is("static") {
			break
		}
		if next.newline && p.is("async") {
			break
		}
		m.async = m.async || p.is("async")
		m.static = m.static || p.is("static")
		m.any = true
		p.next()
	}
	if p.take("*") {
		m.generator, m.any = true, true
	}
	return m
}
