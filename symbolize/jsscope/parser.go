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
