package nodejs

import (
	_ "embed"
	"slices"
	"strings"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

// ownGlobals are the properties of the global object that Node.js 16.20 to 26 and their flags
// define, sorted.
//
//go:embed globals.txt
var ownGlobals string

// ownSymbols are symbols with which Node.js defines some, besides those that begin with "node:".
var ownSymbols = []string{"Symbol.toStringTag", "undici.globalDispatcher.1", "undici.globalOrigin.1"}

// wrapping are the variables that Node.js gives evaluated code by properties.
var wrapping = []string{"__dirname", "__filename", "exports", "module", "require"}

// A Global is a variable that every function can use.
type Global struct {
	In     v8.Value // the global object, or the Context of a script
	Script bool     // the latter: it was declared by let, const or class
	v8.Property
	Replaces bool // what Node.js or V8 had defined
}

// Globals returns the variables that the program has added, by where they are: properties of
// live global objects, and what scripts outside of modules have declared.
func Globals(g *heap.Graph) []Global {
	f := globalFinder{g.Heap(), strings.Fields(ownGlobals)}
	var all []Global
	for id := range heap.ID(g.Len()) {
		kind := g.Map(id).Kind
		if kind != "JSGlobalObject" && kind != "ScriptContextTable" || !g.IsLive(id) {
			continue
		}
		o := g.Object(id)
		if kind == "JSGlobalObject" {
			all = append(all, f.properties(o)...)
		} else {
			all = append(all, f.declared(o, g.Size(id))...)
		}
	}
	return all
}

type globalFinder struct {
	heap *v8.Heap
	own  []string
}

// properties returns the properties of a global object that the program has added. What
// cannot be read is left out.
func (f globalFinder) properties(global v8.Object) []Global {
	properties, _ := f.heap.Properties(global)
	evaluates := !slices.ContainsFunc(wrapping, func(name string) bool {
		return !slices.ContainsFunc(properties, func(p v8.Property) bool { return p.Name == name && !p.Symbol })
	})
	var added []Global
	for _, p := range properties {
		v := Global{In: global.Ref(), Property: p}
		_, own := slices.BinarySearch(f.own, p.Name)
		switch {
		case p.Symbol && (strings.HasPrefix(p.Name, "node:") || slices.Contains(ownSymbols, p.Name)), !p.Symbol && evaluates && slices.Contains(wrapping, p.Name):
			continue
		case p.Accessor && !f.ofProgram(p.Getter) && !f.ofProgram(p.Setter):
			continue // Node.js loads modules so in evaluated code
		case own && !p.Symbol:
			if v.Replaces = f.ofProgram(p.Value); !v.Replaces {
				continue
			}
		}
		added = append(added, v)
	}
	return added
}

// ofProgram reports whether a value is a function of a script that is not Node.js's own.
func (f globalFinder) ofProgram(v v8.Value) bool {
	o, err := f.heap.Object(v)
	if err != nil || !f.heap.IsFunction(o) {
		return false
	}
	fn, err := f.heap.Function(o)
	if err != nil || fn.Script == 0 {
		return false
	}
	name, err := f.heap.FieldOf(v8.Object{Address: v8.Value(fn.Script).Address()}, "Script", "name")
	if err != nil {
		return false
	}
	const most = 16
	text, _, err := f.heap.Text(name, most)
	return err == nil && !strings.HasPrefix(text, "node:")
}

// maxScripts bounds the scripts of a table.
const maxScripts = 1 << 20

// declared returns the variables of the scripts' Contexts that a table refers to.
func (f globalFinder) declared(table v8.Object, size uint64) []Global {
	const word = 8
	var all []Global
	for at := uint64(word); at < min(size, maxScripts*word); at += word {
		v, err := f.heap.Field(table, int(at))
		if err != nil {
			break
		}
		o, err := f.heap.Object(v)
		if err != nil || !strings.HasSuffix(o.Map.Kind, "Context") {
			continue
		}
		c, err := f.heap.Context(o)
		if err != nil || c.Scope.Type != "script" {
			continue
		}
		for _, v := range c.Variables {
			if v.Name == "" || v.Name[0] == '.' || v.Name == "this" {
				continue
			}
			all = append(all, Global{In: o.Ref(), Script: true, Property: v8.Property{Name: v.Name, Value: v.Value}})
		}
	}
	return all
}
