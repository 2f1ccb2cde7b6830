package heap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"ustack/symbolize/contain"
	"ustack/symbolize/v8"
)

// Bounds on what is verified of a process.
const (
	maxVerifiedPages = 64 // of each space
	minObjects       = 1000
	minFunctions     = 100     // of Node.js, which has several thousand
	maxVerifiedText  = 1 << 12 // characters of a function's text in which its name is searched
)

// A Check verifies a property of a process of any V8 that is read with the right layout.
type Check struct {
	Name  string
	Holds func() error
}

// Verify checks that a process whose V8 has no known layout is laid out as its heap
// assumes: by the instance types in its metadata, its pages and objects, strings and
// functions that each Node.js process has, and further checks of the caller. It returns
// an error for the first check that fails.
func Verify(ctx context.Context, m Memory, h *v8.Heap, more ...Check) error {
	if h == nil {
		return errors.New("its metadata lacks what reading objects takes")
	}
	v := &verification{memory: m, heap: h, strings: map[string]bool{}, values: map[string]bool{}, names: map[string]bool{}}
	checks := []Check{
		{"instance types", h.Binary().CheckTypes},
		{"pages", v.checkPages},
		{"objects", v.checkObjects},
		{"strings", v.checkStrings},
		{"values", v.checkValues},
		{"functions of Node.js", v.checkFunctions},
	}
	for _, c := range append(checks, more...) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.verify(); err != nil {
			return fmt.Errorf("it is not laid out as in Node.js %s: %s: %w", h.Binary().Release.Node, c.Name, err)
		}
	}
	return nil
}

func (c Check) verify() (err error) {
	defer contain.Panic(&err, "verify %s", c.Name)
	return c.Holds()
}

// A verification is what the checks know about a process.
type verification struct {
	memory  Memory
	heap    *v8.Heap
	objects *Objects
	strings map[string]bool // internalized strings found in the pages
	values  map[string]bool // undefined, null and the like
	names   map[string]bool // of Node.js's functions
	texts   int             // functions of Node.js that have their name in their text
	others  int             // those that do not
}

// checkPages selects the pages to verify: some of each space.
func (v *verification) checkPages() error {
	pages := FindPages(v.memory, &v.heap.Binary().Release.Pages)
	spaces := map[string]int{}
	pages = slices.DeleteFunc(pages, func(p Page) bool {
		spaces[p.Space]++
		return spaces[p.Space] > maxVerifiedPages
	})
	for _, space := range []string{"readonly", "old", "new"} {
		if spaces[space] == 0 {
			return fmt.Errorf("none of %d pages belongs to the %s space", len(pages), space)
		}
	}
	v.objects = &Objects{memory: v.memory, heap: v.heap, known: map[uint64]int32{}, mapped: pages}
	return nil
}

// checkObjects walks the pages from object to object.
func (v *verification) checkObjects() error {
	if err := v.objects.walk(context.Background()); err != nil {
		return err
	}
	d := &v.objects.Doubts
	bytes := uint64(0)
	for _, p := range v.objects.Pages() {
		bytes += p.End - p.Start
	}
	const lostPart = 2000 // V8 does not clear memory that it reserves for its next objects
	switch n := v.objects.Len(); {
	case n < minObjects:
		return fmt.Errorf("only %d objects are found", n)
	case d.Lost > bytes/lostPart || d.Overlong > 0 || d.Overlapping > n/lostPart:
		return fmt.Errorf("%d of %d bytes are of no object, %d objects are too long, %d overlap", d.Lost, bytes, d.Overlong, d.Overlapping)
	}
	for id := range ID(v.objects.Len()) {
		v.see(v.objects.Object(id))
	}
	return nil
}

// see records what the later checks need.
func (v *verification) see(o v8.Object) {
	h := v.heap
	switch {
	case o.Map.Kind == "InternalizedString":
		if text, _, err := h.Text(o.Ref(), maxVerifiedText); err == nil {
			v.strings[text] = true
		}
	case o.Map.Kind == "Oddball":
		v.values[h.Oddball(o.Ref())] = true
	case h.IsFunction(o):
		v.seeFunction(o)
	}
}

// seeFunction records a function of Node.js, and whether its name is in its text.
func (v *verification) seeFunction(o v8.Object) {
	h := v.heap
	f, err := h.Function(o)
	if err != nil {
		v.others++
		return
	}
	if f.Script == 0 || f.Name == "" {
		return
	}
	script, err := h.Object(v8.Ref(f.Script))
	if err != nil {
		v.others++
		return
	}
	name, err := h.FieldOf(script, "Script", "name")
	if err != nil {
		v.others++
		return
	}
	if file, _, err := h.Text(name, maxVerifiedText); err != nil || !strings.HasPrefix(file, "node:") {
		return
	}
	text, _, err := h.SourceText(o, maxVerifiedText)
	if err != nil || !strings.Contains(text, f.Name) {
		v.others++
		return
	}
	v.texts++
	v.names[f.Name] = true
}

func (v *verification) checkStrings() error {
	return lacking(v.strings, "constructor", "prototype", "toString", "undefined")
}

func (v *verification) checkValues() error {
	return lacking(v.values, "undefined", "null", "true", "false")
}

// checkFunctions checks for functions that Node.js creates on startup, and for the names
// of all its functions in their texts. Some have computed names.
func (v *verification) checkFunctions() error {
	if v.texts < minFunctions || v.others > v.texts {
		return fmt.Errorf("%d have their name in their text, %d have not", v.texts, v.others)
	}
	return lacking(v.names, "processTicksAndRejections", "emit")
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
