package jscore

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A programmer writes a program of functions that call one another. Each notes what it
// knows of its variables before it calls the next; the last one aborts.
type programmer struct {
	*rand.Rand
	strings.Builder
	next     int        // number of the next name or value
	scopes   [][]string // names that are visible and have values, of each block
	function int
	last     int
	hot      bool // variables are used after the calls
}

// program returns a program with so many functions, which runs them rounds times before it aborts.
func program(seed uint64, functions, rounds int) string {
	p := &programmer{Rand: rand.New(rand.NewPCG(seed, 0)), last: functions, hot: rounds > 0}
	p.WriteString(`const truth = [], fs = require('fs'), state = { notes: true, last: 0 };
const described = v => typeof v === 'object' && v !== null ? 'object ' + v.id : typeof v === 'function' ? 'function' : Object.is(v, -0) ? '-0' : String(v);
function note(name, variables) { if (state.notes) { const d = {}; for (const k in variables) d[k] = described(variables[k]); truth.push({ name, variables: d }); } return 0; }
function finish() { fs.writeFileSync('truth.json', JSON.stringify(truth)); process.abort(); }
const lasts = [() => 0, () => 1, () => 2, () => 3, () => 4, finish];
function done() { return lasts[state.last](); }
function use(...values) { return values.length; }
`)
	for i := range functions {
		p.function = i
		p.define()
	}
	fmt.Fprintf(p, `for (let round = 0; round <= %d; round++) {
	truth.length = 0; state.notes = round %% 10 === 0; state.last = round === %[1]d ? 5 : round %% 5;
	f0(1, { id: 2, b: [3] }, 4, 5);
}
`, rounds)
	return p.String()
}

func (p *programmer) chance(percent int) bool { return p.IntN(100) < percent }

func (p *programmer) pick(texts ...string) string { return texts[p.IntN(len(texts))] }

func (p *programmer) number() int { p.next++; return p.next }

// fresh returns a name that nothing else has; short returns one that other blocks may have.
func (p *programmer) fresh(prefix string) string { return fmt.Sprintf("%s%d", prefix, p.number()) }

func (p *programmer) short() string {
	for range 20 {
		name := string(rune('a' + p.IntN(12)))
		if !slices.Contains(p.scopes[len(p.scopes)-1], name) {
			return name
		}
	}
	return p.fresh("n")
}

func (p *programmer) declare(name string) {
	at := len(p.scopes) - 1
	p.scopes[at] = append(p.scopes[at], name)
}

// value returns an expression.
func (p *programmer) value() string {
	n := p.number()
	switch p.IntN(9) {
	case 0:
		return fmt.Sprintf("%d.25", n)
	case 1:
		return fmt.Sprintf("'s%d'", n)
	case 2:
		return p.pick("null", "undefined", "true", "false")
	case 3:
		return fmt.Sprintf("{ id: %d }", n)
	case 4:
		return fmt.Sprintf("[%d, /[/]'`/.source.length ? %d : 0][0]", n, n)
	case 5:
		return fmt.Sprintf("`t${%d + `${1}`.length}`", n)
	}
	return fmt.Sprint(n)
}

func (p *programmer) line(format string, args ...any) {
	fmt.Fprintf(&p.Builder, format, args...)
	p.WriteString(p.pick("\n", " ", " // a comment; let x = 1\n"))
}

// define writes a function of any kind.
func (p *programmer) define() {
	p.scopes = [][]string{nil}
	name := fmt.Sprintf("f%d", p.function)
	head, tail, kind := "", "", p.IntN(12)
	switch kind {
	case 0, 1, 2:
		head = "function " + name
	case 3:
		head = "var " + name + " = function " + p.pick("", "self") + ""
	case 4, 5:
		head, tail = "var "+name+" = "+p.pick("", "async "), ";"
	case 6:
		head, tail = fmt.Sprintf("var %s = (...wrapped) => new (class { m", name), " })().m(...wrapped);"
	case 7:
		head, tail = fmt.Sprintf("var %s = (...wrapped) => new (class { constructor", name), " })(...wrapped);"
	case 8:
		head, tail = fmt.Sprintf("class B%s { }; var %s = (...wrapped) => new (class extends B%s { constructor", name, name, name), " })(...wrapped);"
	case 9:
		head = fmt.Sprintf("var %s = (...wrapped) => { function* g", name)
		tail = " return g(...wrapped).next(); };"
	case 10:
		head = "async function " + name
	case 11:
		head, tail = fmt.Sprintf("var %s = (...wrapped) => ({ x: 1, async *[`m`]", name), " }).m(...wrapped).next();"
	}
	arrow := kind == 4 || kind == 5
	p.WriteString(head + "(")
	p.parameters()
	p.WriteString(")")
	if arrow {
		p.WriteString(" =>")
	}
	p.line(" {")
	if kind == 8 {
		p.line("super();")
	}
	p.body(0)
	p.line("}%s;", tail)
}

func (p *programmer) parameters() {
	var list []string
	for range p.IntN(4) {
		name := p.short()
		switch p.declare(name); p.IntN(6) {
		case 0:
			list = append(list, fmt.Sprintf("%s = %s", name, p.value()))
		case 1:
			if p.chance(50) {
				list = append(list, fmt.Sprintf("{ x: %s = %s } = {}", name, p.value()))
			} else {
				list = append(list, fmt.Sprintf("{ x: [, %s = %s] = [] } = {}", name, p.value()))
			}
		default:
			list = append(list, name)
		}
	}
	if p.chance(15) {
		name := p.short()
		p.declare(name)
		list = append(list, "..."+name)
	}
	p.WriteString(strings.Join(list, ", "))
}

// body writes statements, of which one leads to the call.
func (p *programmer) body(depth int) {
	for range p.IntN(4) {
		p.statement(depth)
	}
	if depth < 4 && p.chance(65) {
		p.nested(depth)
	} else {
		p.call()
	}
	for range p.IntN(3) {
		p.after(depth)
	}
}

// visible returns the names that are visible, innermost first.
func (p *programmer) visible() []string {
	var names []string
	for i := len(p.scopes) - 1; i >= 0; i-- {
		for _, name := range p.scopes[i] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (p *programmer) call() {
	p.line("note('f%d', { %s });", p.function, strings.Join(p.visible(), ", "))
	call := "done()"
	if p.function+1 < p.last {
		call = fmt.Sprintf("f%d(%s)", p.function+1, p.pick("", "1", "1.5, 's'", "'t', [1], 2", "{ x: [1, 2] }, 'u', 3, 4"))
	}
	switch p.IntN(4) {
	case 0:
		p.line("const %s = %s + 1;", p.fresh("z"), call)
	case 1:
		p.line("if (%s) { let %s = 1; }", call, p.fresh("z"))
	default:
		p.line("%s;", call)
	}
	if p.hot {
		p.line("use(%s);", strings.Join(p.visible(), ", "))
	}
}

// statement writes a statement that declares something.
func (p *programmer) statement(depth int) {
	switch p.IntN(15) {
	case 0:
		name := p.fresh("v")
		p.line("var %s = %s;", name, p.value())
		p.declare(name)
	case 1:
		first := p.short()
		p.declare(first)
		second := p.short()
		p.declare(second)
		p.line("let { p: %s, q: [, %s] } = { p: %s, q: [1, %s] };", first, second, p.value(), p.value())
	case 2:
		name := p.short()
		p.line("let %s;", name)
		p.declare(name)
		if p.chance(60) {
			p.line("%s = %s;", name, p.value())
		}
	case 3: // captured
		name := p.short()
		p.declare(name)
		if p.chance(40) { // V8 14.6 keeps a number that changes outside of the heap's objects
			p.line("let %s = %d; const %s = () => { %s += %s; }; %s = %d.5; %s = -%s;", name, p.number(), p.fresh("c"), name, p.value(), name, p.number(), name, name)
			break
		}
		p.line("%s %s = %s; const %s = %s => %s;", p.pick("let", "const"), name, p.value(), p.fresh("c"), p.pick("()", "_", "(_, { k } = {})"), name)
	case 4:
		name := p.fresh("g")
		p.line("function %s(%s) { let inner = %s; return inner; }", name, p.pick("", "a", "{ a }"), p.value())
		if p.chance(50) {
			p.declare(name)
		}
	case 5:
		name := p.fresh("K")
		p.line("class %s { #x = 1; static s = %s; get y() { return this.#x; } m() { return %s; } }", name, p.value(), p.pick("1", name))
		p.declare(name)
	case 6:
		p.line("{ let %s = %s; const %s = 2; }", p.fresh("w"), p.value(), p.fresh("w"))
	case 7:
		p.line("for (let %s = 0; i9 < 2; i9++) { let %s = i9; }", "i9", p.fresh("w"))
	case 8:
		p.line("for (const %s of [1, 2]) { const %s = %s; }", p.fresh("w"), p.fresh("w"), p.value())
	case 9:
		p.line("let %s; var %s;", p.fresh("unused"), p.fresh("unused"))
	case 10:
		p.line("try { let %s = 1; } catch ({ message: m9 }) { let w9 = m9; } finally { let %s = 2; }", p.fresh("w"), p.fresh("w"))
	case 11:
		p.line("for (let i8 = 0; i8 < 2; i8++) { const c8 = () => i8; c8(); }")
	default:
		name := p.short()
		p.line("%s %s = %s;", p.pick("let", "const"), name, p.value())
		p.declare(name)
	}
}

// after writes a statement that runs after the call, or never.
func (p *programmer) after(depth int) {
	name := p.fresh("z")
	p.line("%s", p.pick(
		"let "+name+" = 1; if ("+name+") { let q = 1; }", "for (const "+name+" in {}) { let q = "+name+"; }",
		"var "+name+" = 1;", "{ function "+name+"() { } }", "switch (1) { case 1: let "+name+" = 1; }",
	))
}

// nested writes a statement in which the call is.
func (p *programmer) nested(depth int) {
	p.scopes = append(p.scopes, nil)
	one := func() string { name := p.short(); p.declare(name); return name }
	end, sameScope := "}", false
	switch p.IntN(10) {
	case 0:
		p.line("{")
	case 1:
		p.line("if (truth) {")
	case 2:
		p.line("for (let %s = %d; ; ) {", one(), p.number())
		end = "break; }"
	case 3:
		p.line("for (%s %s of [%s]) {", p.pick("let", "const"), one(), p.value())
	case 4:
		p.line("for (const [%s] of [[%s]]) {", one(), p.value())
	case 5:
		p.line("try { throw %s } catch (%s) {", p.value(), one())
		sameScope = true
	case 6:
		p.line("try { throw { m: %s } } catch ({ m: %s, n: %s = %s }) {", p.value(), one(), one(), p.value())
		sameScope = true
	case 7:
		p.line("switch (%d) { case 0: let %s = 1; default: {", p.number(), p.fresh("z"))
		end = "} }"
	case 8:
		name := one()
		p.line("for (let %s = %d, j7 = 0; ; j7++) { const %s = () => %s;", name, p.number(), p.fresh("c"), name)
		end = "break; }"
	case 9:
		p.line("l%d: do {", p.number())
		end = "} while (0);"
	}
	scopes := p.scopes
	if !sameScope {
		p.scopes = append(p.scopes, nil)
	}
	p.body(depth + 1)
	p.scopes = scopes[:len(scopes)-1]
	p.line("%s", end)
}
