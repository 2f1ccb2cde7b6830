package heap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ustack/symbolize/v8"
)

// A Link says how an object refers to another.
type Link struct {
	How  string       `json:"how"`  // one of the constants below
	Name v8.ExactText `json:"name"` // of a property, variable or field; an index in decimal
}

// How an object can refer to another.
const (
	ByProperty = "property"
	ByElement  = "element"
	ByVariable = "variable" // from a Context, which closures share
	ByEntry    = "entry"    // of a Map, a Set or a WeakMap
	ByField    = "field"    // of an internal object of V8
)

// String formats the link as in a program: ".name", "[3]", "variable name".
func (l Link) String() string {
	switch l.How {
	case ByProperty:
		return "." + string(l.Name)
	case ByElement:
		return "[" + string(l.Name) + "]"
	}
	return strings.TrimSpace(l.How + " " + string(l.Name))
}

// maxParents bounds the depth of V8's class hierarchy: it is seven.
const maxParents = 16

// maxScopes bounds the scopes whose variables' names are cached.
const maxScopes = 1 << 16

// linkNames caches what is where in objects.
type linkNames struct {
	classes map[string]v8.Class
	fields  map[*v8.Map]map[int]Link
	scopes  map[v8.Value]map[int]string // names by slot
}

// link returns what an object has at an offset.
func (g *Graph) link(o v8.Object, offset int) Link {
	if names := g.fieldLinks(o.Map); names != nil {
		if l, ok := names[offset]; ok {
			return l
		}
	}
	index := (offset - arrayHeader) / wordSize
	switch {
	case offset >= arrayHeader && (o.Map.Kind == "OrderedHashMap" || o.Map.Kind == "OrderedHashSet"):
		return g.entryLink(o, offset)
	case strings.HasSuffix(o.Map.Kind, "Context"):
		if name, ok := g.slotNames(o)[index]; ok {
			return Link{ByVariable, v8.ExactText(name)}
		}
	case o.Map.Size == 0 && offset >= arrayHeader:
		return Link{ByElement, v8.ExactText(strconv.Itoa(index))}
	}
	return Link{ByField, v8.ExactText(fmt.Sprintf("at %d", offset))}
}

// arrayHeader is the size of what precedes the first word in most kinds with a length.
const arrayHeader = 16

// fieldLinks returns the fields of a map's objects, by offset.
func (g *Graph) fieldLinks(m *v8.Map) map[int]Link {
	if links, ok := g.links.fields[m]; ok {
		return links
	}
	links := map[int]Link{0: {ByField, "map"}}
	kind := m.Kind
	if g.class(kind).Name == "" && g.heap.IsReceiver(v8.Object{Map: m}) {
		kind = "JSObject" // created by an add-on or Node.js itself
	}
	for range maxParents {
		for _, f := range g.class(kind).Fields {
			if _, ok := links[f.Offset]; !ok && !f.Raw() {
				links[f.Offset] = Link{ByField, v8.ExactText(f.Name)}
			}
		}
		kind = g.class(kind).Parent
	}
	properties, _ := g.heap.MapFields(m) // what cannot be read has no name
	for _, p := range properties {
		if p.Offset >= 0 {
			links[p.Offset] = Link{ByProperty, v8.ExactText(p.Name)}
		}
	}
	if g.links.fields == nil {
		g.links.fields = make(map[*v8.Map]map[int]Link)
	}
	g.links.fields[m] = links
	return links
}

// class returns what is known about a V8 class.
func (g *Graph) class(name string) v8.Class {
	if g.links.classes == nil {
		g.links.classes = make(map[string]v8.Class)
		for _, c := range g.heap.Binary().Classes() {
			g.links.classes[c.Name] = c
		}
	}
	return g.links.classes[name]
}

// slotNames returns the names of a Context's variables by their slots.
func (g *Graph) slotNames(o v8.Object) map[int]string {
	scope, err := g.heap.Field(o, arrayHeader)
	if err != nil {
		return nil
	}
	if names, ok := g.links.scopes[scope]; ok {
		return names
	}
	names := map[int]string{0: "(scope)", 1: "(outer context)"}
	if o.Map.Kind == "NativeContext" {
		names[2] = "(global object)"
	}
	context, _ := g.heap.Context(o) // what cannot be read has no name
	for _, v := range context.Variables {
		names[v.Slot] = v.Name
	}
	if g.links.scopes == nil || len(g.links.scopes) >= maxScopes {
		g.links.scopes = make(map[v8.Value]map[int]string)
	}
	g.links.scopes[scope] = names
	return names
}

// offsets returns the offsets at which an object refers to another.
func (g *Graph) offsets(from, to ID) []int {
	var offsets []int
	g.eachReference(from, func(offset int, id ID) {
		if id == to {
			offsets = append(offsets, offset)
		}
	})
	return offsets
}

// eachReference visits the objects to which an object has strong references, with the
// offsets of the references.
func (g *Graph) eachReference(id ID, visit func(offset int, to ID)) {
	k := g.kinds.at(g.kind[id])
	size := g.Size(id)
	if k.form.Tagged >= 0 {
		size = min(size, uint64(k.form.Tagged))
	}
	if k.weak.pairs {
		size = min(size, wordSize)
	}
	buffer := g.takeBuffer()
	defer func() { g.buffers = append(g.buffers, buffer) }()
	address := g.Address(id)
	for at := uint64(0); at < size; {
		n, err := g.memory.ReadAt(buffer[:min(size-at, uint64(len(buffer)))], address+at)
		for i := 0; i+wordSize <= n; i += wordSize {
			offset := int(at) + i
			if w := wordOf(buffer, i); w&3 == 1 && !slices.Contains(k.weak.fields, offset) {
				if to, ok := g.Find(w - 1); ok {
					visit(offset, to)
				}
			}
		}
		if err != nil {
			break
		}
		at += uint64(n)
	}
}

// takeBuffer returns a buffer that no visit in progress uses: one visit may start another.
func (g *Graph) takeBuffer() []byte {
	last := len(g.buffers) - 1
	if last < 0 {
		return make([]byte, pageAlign)
	}
	buffer := g.buffers[last]
	g.buffers = g.buffers[:last]
	return buffer
}

// through returns what the owner of one of V8's stores has at an offset in the store:
// the words of properties, elements and tables are not in the object itself.
func (g *Graph) through(owner, store v8.Object, offset int) (Link, bool) {
	index := (offset - arrayHeader) / wordSize
	switch store.Map.Kind {
	case "PropertyArray":
		fields, _ := g.heap.MapFields(owner.Map)
		for _, f := range fields {
			if f.Index == index && f.Offset < 0 {
				return Link{ByProperty, v8.ExactText(f.Name)}, true
			}
		}
	case "NameDictionary":
		return g.throughDictionary(store, offset)
	case "GlobalDictionary":
		return g.throughCell(store, offset)
	case "OrderedHashMap", "OrderedHashSet", "EphemeronHashTable":
		return g.entryLink(store, offset), true
	case "FixedArray":
		at, ok := g.heap.Offset("JSObject", "elements")
		if elements, err := g.heap.Field(owner, at); ok && err == nil && elements == store.Ref() {
			return Link{ByElement, v8.ExactText(strconv.Itoa(index))}, true
		}
	}
	return Link{}, false
}

// throughDictionary returns the property whose value a dictionary has at an offset:
// an entry is its key, its value and a small integer of details.
func (g *Graph) throughDictionary(store v8.Object, offset int) (Link, bool) {
	key, err := g.heap.Field(store, offset-wordSize)
	details, detailsErr := g.heap.Field(store, offset+wordSize)
	if _, ok := details.Smi(); !ok || err != nil || detailsErr != nil {
		return Link{}, false
	}
	o, err := g.heap.Object(key)
	if err != nil || !g.heap.IsString(o) && o.Map.Kind != "Symbol" {
		return Link{}, false
	}
	return Link{ByProperty, v8.ExactText(g.propertyName(key))}, true
}

// throughCell returns the global variable whose cell a dictionary has at an offset.
func (g *Graph) throughCell(store v8.Object, offset int) (Link, bool) {
	cell, err := g.heap.Field(store, offset)
	if err != nil {
		return Link{}, false
	}
	o, err := g.heap.Object(cell)
	at, ok := g.heap.Offset("PropertyCell", "name")
	if err != nil || !ok {
		return Link{}, false
	}
	name, err := g.heap.Field(o, at)
	return Link{ByProperty, v8.ExactText(g.propertyName(name))}, err == nil
}

// maxName bounds the characters of a property's name.
const maxName = 255

// propertyName returns the name of a property by its key, a string or a symbol.
func (g *Graph) propertyName(key v8.Value) string {
	o, err := g.heap.Object(key)
	if err == nil && o.Map.Kind == "Symbol" {
		if key, err = g.heap.FieldOf(o, "Symbol", "description"); err == nil {
			o, err = g.heap.Object(key)
		}
	}
	if err != nil || !g.heap.IsString(o) {
		return ""
	}
	text, length, err := g.heap.Exact(key, maxName)
	if err != nil {
		return "<bad>"
	}
	if length > maxName {
		text += "…"
	}
	return text
}
