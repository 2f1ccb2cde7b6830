// Package verify checks that a process whose V8 is newer than all known ones is laid out as
// its binary assumes.
package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"ustack/symbolize/contain"
	"ustack/symbolize/elfsym"
	"ustack/symbolize/space"
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/code"
	"ustack/symbolize/v8/disasm"
	"ustack/symbolize/v8/heap"
)

// Bounds on what is verified of a process.
const (
	maxVerifiedPages = 64      // of each space
	maxFunctionPages = 1 << 10 // of the old space, in which functions are searched
	maxVerifiedText  = 1 << 12 // characters of a string
	minObjects       = 1000
	minFunctions     = 100 // of Node.js, which has several thousand
	maxFunctions     = 200
	minScripts       = 10
	minBuiltins      = 50
)

// A Subject is a process that is verified.
type Subject struct {
	Memory  heap.Memory
	Binary  *v8.Binary
	File    *elfsym.File // that Binary was read from
	Bias    uint64       // of addresses in memory relative to the file's
	Running bool         // objects may change and move meanwhile
}

// A Check verifies a property of a process of any V8 that is read with the right layout.
type Check struct {
	Name  string
	Holds func() error
}

// Layout checks that a process whose V8 has no known layout is laid out as its binary
// assumes: by the code and the instance types in the file, by pages, objects, strings,
// functions and scripts that each Node.js process has, and by further checks of the
// caller. It returns an error for the first check that fails, and otherwise says what is
// assumed, and what of that could not be verified.
func Layout(ctx context.Context, s Subject, more ...Check) (assumption string, err error) {
	v, err := newVerification(ctx, s)
	if err != nil {
		return "", err
	}
	checks := []Check{
		{"instance types", s.Binary.CheckTypes},
		{"code of V8", v.checkCode},
		{"pages", v.checkPages},
		{"objects", v.checkObjects},
		{"strings", v.checkStrings},
		{"values", v.checkValues},
		{"functions of Node.js", v.checkFunctions},
		{"kinds of functions", v.checkForms},
		{"scripts of Node.js", v.checkScripts},
		{"builtins", v.checkBuiltins},
		{"code of functions", v.checkCodes},
	}
	for _, c := range append(checks, more...) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := c.verify(); err != nil {
			return "", fmt.Errorf("it is not laid out as in Node.js %s: %s: %w", s.Binary.Release.Node, c.Name, err)
		}
	}
	return fmt.Sprintf("it is read as that of Node.js %s, which checks of the process confirm except for %s",
		s.Binary.Release.Node, strings.Join(v.unverified, ", ")), nil
}

func (c Check) verify() (err error) {
	defer contain.Panic(&err, "verify %s", c.Name)
	return c.Holds()
}

// A verification is what the checks know about a process.
type verification struct {
	Subject
	ctx        context.Context
	memory     *steadyMemory
	heap       *v8.Heap
	codes      *code.Finder
	exec       []space.Region
	heapOffset uint64 // of the Heap in the Isolate; 0: not known
	unverified []string

	pages   []heap.Page // all
	old     []heap.Page // of the old space, whose functions were not yet searched
	walker  *heap.Walker
	strings map[string]bool
	values  map[string]bool // undefined, null and the like

	shared    map[v8.Value]bool // SharedFunctionInfos of functions that were examined
	scripts   map[v8.Value]int  // numbers of scripts of Node.js
	builtins  map[int]bool
	forms     [unknownForm + 1]int
	functions tally // of Node.js, with parameters and a body
	code      tally
}

func newVerification(ctx context.Context, s Subject) (*verification, error) {
	v := &verification{
		Subject: s, ctx: ctx, memory: newSteadyMemory(s.Memory), heapOffset: uint64(disasm.FindFunctions(s.File).HeapOffset()),
		strings: map[string]bool{}, values: map[string]bool{},
		shared: map[v8.Value]bool{}, scripts: map[v8.Value]int{}, builtins: map[int]bool{},
	}
	var err error
	if v.heap, err = v8.NewHeap(v.memory, s.Binary); err != nil {
		return nil, err
	}
	if v.codes, err = code.NewFinder(v.heap, s.Bias); err != nil {
		return nil, err
	}
	for _, r := range s.Memory.Regions() {
		if r.Exec {
			v.exec = append(v.exec, r)
		}
	}
	return v, nil
}

// checkCode compares the layout with V8's own code.
func (v *verification) checkCode() (err error) {
	v.unverified, err = checkCode(v.Binary, v.File)
	return err
}

// checkPages finds the pages of each space.
func (v *verification) checkPages() error {
	v.pages = heap.FindPages(v.Memory, &v.Binary.Release.Pages)
	v.walker = heap.NewWalker(v.Memory, v.heap, v.pages)
	spaces := map[string]int{}
	for _, p := range v.pages {
		spaces[p.Space]++
		if p.Space == "old" && len(v.old) < maxFunctionPages {
			v.old = append(v.old, p)
		}
	}
	for _, space := range []string{"readonly", "old", "new"} {
		if spaces[space] == 0 {
			return fmt.Errorf("none of %d pages belongs to the %s space", len(v.pages), space)
		}
	}
	return nil
}

// checkObjects walks some pages of each space from object to object. While the process
// runs, these are the pages whose objects never change.
func (v *verification) checkObjects() error {
	spaces := map[string]int{}
	var pages []heap.Page
	bytes := uint64(0)
	for _, p := range v.pages {
		spaces[p.Space]++
		if spaces[p.Space] <= maxVerifiedPages && (!v.Running || p.Space == "readonly") {
			pages = append(pages, p)
			bytes += p.End - p.Start
		}
	}
	o, err := v.walker.Walk(v.ctx, pages)
	if err != nil {
		return err
	}
	const lostPart = 2000 // V8 does not clear memory that it reserves for its next objects
	switch n, d := o.Len(), &o.Doubts; {
	case n < minObjects:
		return fmt.Errorf("only %d objects are found", n)
	case d.Lost > bytes/lostPart || d.Overlong > 0 || d.Overlapping > n/lostPart:
		return fmt.Errorf("%d of %d bytes are of no object, %d objects are too long, %d overlap", d.Lost, bytes, d.Overlong, d.Overlapping)
	}
	for id := range heap.ID(o.Len()) {
		v.see(o.Object(id))
	}
	return nil
}

// see records the strings and values that each process has.
func (v *verification) see(o v8.Object) {
	switch o.Map.Kind {
	case "InternalizedString":
		if text, _, err := v.heap.Text(o.Ref(), maxVerifiedText); err == nil {
			v.strings[text] = true
		}
	case "Oddball":
		v.values[v.heap.Oddball(o.Ref())] = true
	}
}

func (v *verification) checkStrings() error {
	return lacking(v.strings, "constructor", "prototype", "toString", "undefined")
}

func (v *verification) checkValues() error {
	return lacking(v.values, "undefined", "null", "true", "false")
}

// lacking returns an error for the first of names that is missing.
func lacking(there map[string]bool, names ...string) error {
	for _, name := range names {
		if !there[name] {
			return fmt.Errorf("%q is not among %d", name, len(there))
		}
	}
	return nil
}

// enough reports whether enough functions were examined.
func (v *verification) enough() bool {
	return v.functions.right+v.functions.wrong >= maxFunctions && len(v.scripts) >= minScripts && len(v.builtins) >= minBuiltins
}

// checkFunctions examines functions of Node.js in the old space, where they move rarely.
func (v *verification) checkFunctions() error {
	const batch = 16 // pages
	for len(v.old) > 0 && !v.enough() {
		n := min(len(v.old), batch)
		o, err := v.walker.Walk(v.ctx, v.old[:n])
		if err != nil {
			return err
		}
		v.old = v.old[n:]
		for id := range heap.ID(o.Len()) {
			if x := o.Object(id); v.heap.IsFunction(x) && (!v.enough() || v.forms[initializer] == 0) {
				v.examine(x, v.isolateOf(o.Page(id)))
			}
		}
	}
	return v.functions.judge(minFunctions)
}

// isolateOf returns the address of the isolate that a page belongs to; 0 if the page is
// shared, or the file does not say where the Heap is in the Isolate.
func (v *verification) isolateOf(p heap.Page) uint64 {
	if v.heapOffset == 0 || p.Heap <= v.heapOffset {
		return 0
	}
	return p.Heap - v.heapOffset
}

// checkForms checks that functions have a kind that is known, even those few that
// initialize the fields of classes.
func (v *verification) checkForms() error {
	initializers, unknown := v.forms[initializer], v.forms[unknownForm]
	if unknown > initializers {
		return fmt.Errorf("%d functions initialize fields of classes, %d are of no known kind", initializers, unknown)
	}
	if initializers == 0 {
		v.unverified = append(v.unverified, "initializers of fields")
	}
	return nil
}

// examine examines a function, unless another with the same SharedFunctionInfo was. Of
// most, it is only the form.
func (v *verification) examine(fn v8.Object, isolate uint64) {
	shared, err := v.heap.Field(fn, int(v.Binary.Layout.FunctionShared))
	if err != nil || v.shared[shared] {
		return
	}
	v.shared[shared] = true
	var form functionForm
	if steady, err := v.memory.examine(func() (err error) {
		form, err = formOf(v.heap, fn)
		return err
	}); steady && err == nil {
		v.forms[form]++
	}
	if v.enough() {
		return
	}
	var node nodeFunction
	ofNode := false
	v.functions.count(v.memory, func() (bool, error) {
		node, ofNode, err = checkFunction(v.heap, fn)
		return node.name != "", err
	})
	if !ofNode {
		if id, ok, err := builtinOf(v.heap, fn); ok && err == nil {
			v.builtins[id] = true
		}
		return
	}
	if node.scriptID != 0 {
		v.scripts[node.script] = node.scriptID
	}
	v.code.count(v.memory, func() (bool, error) { return true, v.checkFunctionCode(fn, isolate) })
}

// checkScripts checks the scripts of the functions that were examined.
func (v *verification) checkScripts() error {
	ids := map[int]bool{}
	var t tally
	for script, id := range v.scripts {
		ids[id] = true
		t.count(v.memory, func() (bool, error) { return true, checkScript(v.heap, script) })
	}
	if len(ids) < len(v.scripts)-len(v.scripts)/racePart {
		return fmt.Errorf("%d scripts have %d numbers", len(v.scripts), len(ids))
	}
	return t.judge(minScripts)
}

// checkBuiltins checks that V8's own functions have numbers.
func (v *verification) checkBuiltins() error {
	if len(v.builtins) < minBuiltins {
		return fmt.Errorf("only %d numbers of builtins are found", len(v.builtins))
	}
	return nil
}

func (v *verification) checkCodes() error { return v.code.judge(minFunctions) }

// checkFunctionCode checks that a function's code is executable.
func (v *verification) checkFunctionCode(fn v8.Object, isolate uint64) error {
	c, err := v.codes.OfFunction(fn.Ref(), isolate)
	if err != nil {
		return err
	}
	if c.Size == 0 || !slices.ContainsFunc(v.exec, func(r space.Region) bool { return c.Start >= r.Start && c.Start+c.Size <= r.End }) {
		return fmt.Errorf("the code at %#x, of %d bytes, cannot be executed", c.Start, c.Size)
	}
	return nil
}
