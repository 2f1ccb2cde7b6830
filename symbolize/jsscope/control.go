package jsscope

// loop parses a for statement.
func (p *parser) loop() {
	start := p.next().start
	p.take("await")
	p.expect("(")
	lexical := p.is("const") || p.is("let") && p.isLet()
	p.within(blockScope, start, func(outer *scope) {
		switch {
		case lexical:
			p.lexicalLoop(outer)
			return
		case p.is("var"):
			p.declarations(false, false)
			if p.forEach() {
				p.statement()
				outer.temporary()
				return
			}
		case !p.is(";"):
			since := len(p.log)
			p.expression(false)
			if p.isOne("of", "in") {
				p.assign(since)
			}
			if p.forEach() {
				p.statement()
				return
			}
		}
		p.clauses()
	})
}

// forEach parses what follows "in" or "of" in a loop, if that is there.
func (p *parser) forEach() bool {
	switch {
	case p.take("of"):
		p.assignment(true)
	case p.take("in"):
		p.expression(true)
	default:
		return false
	}
	p.expect(")")
	return true
}

// clauses parses a loop from its first semicolon.
func (p *parser) clauses() (next bool) {
	p.expect(";")
	if !p.is(";") {
		p.expression(true)
	}
	p.expect(";")
	if next = !p.is(")"); next {
		p.expression(true)
	}
	p.expect(")")
	p.statement()
	return next
}

// lexicalLoop parses a loop from "let" or "const". V8 declares its variables again: for
// each round if closures may share them, or outside for expressions that use them early.
func (p *parser) lexicalLoop(outer *scope) {
	inner := newScope(blockScope, outer, outer.start)
	before := p.functions
	p.scope = inner
	names := p.declarations(true, false)
	p.scope = outer
	if p.isOne("of", "in") {
		p.forEach()
		p.scope = inner
		for _, name := range names {
			inner.named[name].from = p.before
		}
		p.statement()
		inner.end = p.before
		outer.temporary()
		for _, name := range names {
			outer.declare(name, true).used = true
			outer.named[name].from = p.before
		}
		return
	}
	p.scope = inner
	var next bool
	rounds := p.within(blockScope, p.before, func(*scope) { next = p.clauses() })
	inner.end = p.before
	p.scope = outer
	if p.functions == before {
		return
	}
	for range names {
		outer.temporary()
	}
	if next {
		outer.temporary()
	}
	outer.temporary()
	for _, name := range names {
		rounds.declare(name, true).used = true
		rounds.named[name].from = rounds.start
	}
}

// cases parses a switch statement. If it declares variables, V8 keeps its value in one.
func (p *parser) cases() {
	p.next()
	p.parenthesized()
	p.within(blockScope, p.tok.start, func(s *scope) {
		p.expect("{")
		for !p.done() && !p.is("}") {
			switch {
			case p.take("case"):
				p.expression(true)
			default:
				p.expect("default")
			}
			p.expect(":")
			first := len(s.variables)
			for !p.done() && !p.isOne("case", "default", "}") {
				p.statement()
			}
			for _, v := range s.variables[first:] { // another case may run without this one
				v.until = p.before + 1
			}
		}
		p.expect("}")
		if len(s.variables) > 0 {
			s.temporary()
		}
	})
}

func (p *parser) try() {
	p.next()
	p.block()
	if p.is("catch") {
		start := p.next().start
		if p.is("(") {
			p.within(catchScope, start, p.caught)
		} else {
			p.block()
		}
	}
	if p.take("finally") {
		p.block()
	}
}

func (p *parser) caught(catch *scope) {
	p.expect("(")
	if p.tok.kind == identifier {
		v := catch.declare(p.next().text, true)
		v.used = true
		p.expect(")")
		p.block()
		return
	}
	p.within(blockScope, p.tok.start, func(s *scope) {
		var names []string
		p.pattern(func(name string, _ bool) {
			s.declare(name, true).used = true
			names = append(names, name)
		})
		for _, name := range names {
			s.named[name].from = p.before
		}
		p.expect(")")
		p.block()
	})
}
