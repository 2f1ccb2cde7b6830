package jsscope

import "slices"

// A parser finds the scopes of a text. It accepts all that V8 accepts, and more.
type parser struct {
	lexer
	tok       token
	before    int // where the token before ends
	scope     *scope
	depth     int
	work      int // tokens read, again after an attempt
	functions int // so far
	strict    bool
	async     bool // in a function in which await is a keyword
	generator bool // in one in which yield is
	dynamic   bool // eval or with: variables are not where the text says
	notArrows map[int]bool
	log       []string        // names used, in order
	assigned  map[string]bool // names that something may be assigned to
}

// Bounds on a text.
const (
	maxDepth = 1 << 10 // of nesting; V8 has a bound on its stack, too
	maxWork  = 16      // how many times each token is read on average
	minWork  = 1 << 12
)

func (p *parser) fail() { p.tok = p.lexer.fail() }

func (p *parser) next() token {
	t := p.tok
	p.before = t.end
	p.work++
	if p.work > maxWork*len(p.source)+minWork {
		p.fail()
		return t
	}
	p.tok = p.scan()
	return t
}

// enter counts a level of nesting; leave ends it.
func (p *parser) enter() {
	if p.depth++; p.depth > maxDepth {
		p.fail()
	}
}

func (p *parser) leave() { p.depth-- }

func (p *parser) is(text string) bool {
	return p.tok.text == text && (p.tok.kind == punctuator || p.tok.kind == identifier && !p.tok.escaped)
}

func (p *parser) isOne(texts ...string) bool { return slices.ContainsFunc(texts, p.is) }

func (p *parser) take(text string) bool {
	if p.is(text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(text string) {
	if !p.take(text) {
		p.fail()
	}
}

func (p *parser) done() bool { return p.tok.kind == end }

// peek returns the token after the next one.
func (p *parser) peek() token {
	l := p.lexer
	t := l.scan()
	return t
}

// A state is where a parser is.
type state struct {
	lexer   lexer
	tok     token
	before  int
	scope   *scope
	inner   int
	uses    map[string]bool
	depth   int
	dynamic bool
	counted int
}

func (p *parser) save() state {
	s := state{p.lexer, p.tok, p.before, p.scope, len(p.scope.inner), p.scope.uses, p.depth, p.dynamic, p.functions}
	p.scope.uses = map[string]bool{}
	return s
}

// restore undoes what was parsed since.
func (p *parser) restore(s state) {
	p.lexer, p.tok, p.before, p.scope, p.depth, p.dynamic, p.functions = s.lexer, s.tok, s.before, s.scope, s.depth, s.dynamic, s.counted
	p.scope.inner, p.scope.uses = p.scope.inner[:s.inner], s.uses
}

// keep keeps what was parsed since.
func (p *parser) keep(s state) {
	for name := range s.uses {
		s.scope.uses[name] = true
	}
}

func (p *parser) use(name string) {
	p.scope.uses[name] = true
	p.log = append(p.log, name)
}

// assign notes that the names used since then may be assigned to.
func (p *parser) assign(since int) {
	for _, name := range p.log[min(since, len(p.log)):] {
		p.assigned[name] = true
	}
}

// within parses in a new scope.
func (p *parser) within(k scopeKind, start int, parse func(*scope)) *scope {
	outer := p.scope
	s := newScope(k, outer, start)
	p.scope = s
	parse(s)
	p.scope = outer
	s.end = p.before
	return s
}

// statements parses statements up to "}" or the end.
func (p *parser) statements() {
	for !p.done() && !p.is("}") {
		p.statement()
	}
}

func (p *parser) block() {
	start := p.tok.start
	p.within(blockScope, start, func(*scope) {
		p.expect("{")
		p.statements()
		p.expect("}")
	})
}

func (p *parser) semicolon() {
	if p.take(";") || p.is("}") || p.done() || p.tok.newline {
		return
	}
	p.fail()
}

func (p *parser) statement() {
	p.enter()
	defer p.leave()
	if p.tok.kind == identifier && !p.tok.escaped && p.keyword() {
		return
	}
	switch {
	case p.is("{"):
		p.block()
	case p.take(";"):
	case p.tok.kind == identifier && p.isLabel():
		p.next()
		p.next()
		p.statement()
	default:
		p.expression(true)
		p.semicolon()
	}
}

func (p *parser) isLabel() bool {
	next := p.peek()
	return next.kind == punctuator && next.text == ":"
}

// keyword parses a statement that begins with a keyword, if one does.
func (p *parser) keyword() bool {
	switch word := p.tok.text; word {
	case "var", "const":
		p.declarations(word != "var", true)
		p.semicolon()
	case "let":
		if !p.isLet() {
			return false
		}
		p.declarations(true, true)
		p.semicolon()
	case "function":
		p.functionDeclaration(false)
	case "async":
		next := p.peek()
		if next.kind != identifier || next.text != "function" || next.newline || next.escaped {
			return false
		}
		p.next()
		p.functionDeclaration(true)
	case "class":
		at := p.scope
		name := p.class()
		at.declare(name, true).used = true
		at.named[name].from = p.before
	case "if":
		p.next()
		p.parenthesized()
		p.branch()
		if p.take("else") {
			p.branch()
		}
	case "for":
		p.loop()
	case "while":
		p.next()
		p.parenthesized()
		p.statement()
	case "do":
		p.next()
		p.statement()
		p.expect("while")
		p.parenthesized()
		p.take(";")
	case "return", "throw":
		p.next()
		if !p.isOne(";", "}") && !p.done() && !p.tok.newline {
			p.expression(true)
		}
		p.semicolon()
	case "break", "continue":
		p.next()
		if p.tok.kind == identifier && !p.tok.newline {
			p.next()
		}
		p.semicolon()
	case "switch":
		p.cases()
	case "try":
		p.try()
	case "with":
		p.dynamic = true
		p.next()
		p.parenthesized()
		p.statement()
	case "debugger":
		p.next()
		p.semicolon()
	case "import", "export":
		return p.module(word)
	default:
		return false
	}
	return true
}

// module fails for a declaration of a module, whose variables V8 keeps elsewhere.
func (p *parser) module(word string) bool {
	next := p.peek()
	if word == "import" && next.kind == punctuator && (next.text == "(" || next.text == ".") {
		return false
	}
	p.fail()
	return true
}

// isLet reports whether "let" is a keyword here.
func (p *parser) isLet() bool {
	next := p.peek()
	return next.kind == identifier && !slices.Contains([]string{"in", "of", "instanceof"}, next.text) ||
		next.kind == punctuator && (next.text == "[" || next.text == "{")
}

// branch parses a statement that may be a function declaration, which then has a scope
// of its own.
func (p *parser) branch() {
	if p.is("function") {
		p.within(blockScope, p.tok.start, func(*scope) { p.statement() })
		return
	}
	p.statement()
}

func (p *parser) parenthesized() {
	p.expect("(")
	p.expression(true)
	p.expect(")")
}

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
