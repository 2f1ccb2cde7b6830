package heap

import (
	"slices"
	"strings"

	"ustack/symbolize/v8"
)

// nodeTypes are the snapshot's types of nodes that are neither strings nor a program's
// objects, by V8's class; all others are hidden.
var nodeTypes = map[string]uint64{
	"FixedArray": nodeArray, "FixedDoubleArray": nodeArray, "PropertyArray": nodeArray, "NameDictionary": nodeArray,
	"NumberDictionary": nodeArray, "OrderedHashMap": nodeArray, "OrderedHashSet": nodeArray, "EphemeronHashTable": nodeArray,
	"WeakFixedArray": nodeArray, "WeakArrayList": nodeArray, "ByteArray": nodeArray,
	"SharedFunctionInfo": nodeCode, "Script": nodeCode, "Code": nodeCode, "InstructionStream": nodeCode,
	"BytecodeArray": nodeCode, "ScopeInfo": nodeCode, "FeedbackVector": nodeCode, "FeedbackCell": nodeCode,
	"FeedbackMetadata": nodeCode, "TrustedByteArray": nodeCode, "TrustedFixedArray": nodeCode, "PreparseData": nodeCode,
	"UncompiledDataWithPreparseData": nodeCode, "UncompiledDataWithoutPreparseData": nodeCode, "CodeDataContainer": nodeCode,
	"HeapNumber": nodeNumber, "BigInt": nodeBigInt, "Symbol": nodeSymbol,
	"Map": nodeShape, "DescriptorArray": nodeShape, "TransitionArray": nodeShape,
}

// nodeNames are their names, as in V8's own snapshots; all others are named by their class.
var nodeNames = map[string]string{
	"FixedArray": "(array)", "FixedDoubleArray": "(array)", "PropertyArray": "(object properties)",
	"NameDictionary": "(object properties)", "HeapNumber": "heap number", "BigInt": "bigint", "Symbol": "symbol",
}

// object adds an object's edges and its node.
func (e *exporter) object(id ID) {
	o := e.Object(id)
	kind, name := e.describe(o)
	e.references(id, o)
	e.node(kind, name, e.nodeID(id, o.Address), e.Bytes(id))
}

// nodeID returns a unique number for an object. It has 32 bits, which is what Chrome
// keeps, and stays the same in a later snapshot of the process as long as V8 does not
// move the object: then Chrome can compare the two.
func (e *exporter) nodeID(id ID, address uint64) uint64 {
	page := e.pageOf(id)
	if page.Address != e.page {
		e.page, e.slot = page.Address, uint32(page.Address/pageAlign%idSlots)
		for e.slots[e.slot] && len(e.slots) < idSlots {
			e.slot = (e.slot + 1) % idSlots
		}
		e.slots[e.slot] = true
	}
	return uint64(e.slot)*idsInSlot + (address-page.Address)/wordSize
}

// Numbers of objects are allotted in slots, one for each page.
const (
	idsInSlot = pageAlign / wordSize
	idSlots   = 1 << 32 / idsInSlot // of 32 GiB; in a larger heap, numbers are not unique
)

// chromeGroups are the names under which Chrome groups nodes that are not of the type
// object. If objects have the same name, it loses one of the two groups.
var chromeGroups = []string{"Function", "RegExp"}

// describe returns the type and the name of an object's node.
func (e *exporter) describe(o v8.Object) (kind uint64, name string) {
	h := e.heap
	switch {
	case h.IsString(o):
		return e.describeString(o)
	case h.IsFunction(o):
		return nodeClosure, e.functionName(o)
	case o.Map.Kind == "JSBoundFunction":
		return nodeClosure, "native_bind"
	case o.Map.Kind == "JSRegExp":
		r, _ := h.RegExp(o)
		return nodeRegExp, r.Source
	case h.IsReceiver(o):
		class, err := h.Class(o)
		if err != nil {
			class = "<bad>"
		}
		if slices.Contains(chromeGroups, class) { // an object with its prototype
			class += " (object)"
		}
		return nodeObject, class
	case o.Map.Kind == "NativeContext":
		return nodeHidden, "system / NativeContext"
	case strings.HasSuffix(o.Map.Kind, "Context"):
		return nodeObject, "system / Context"
	}
	kind = nodeTypes[o.Map.Kind]
	if name, ok := nodeNames[o.Map.Kind]; ok {
		return kind, name
	}
	return kind, "system / " + o.Map.KindName()
}

// functionName returns the name of a closure, which all closures of its definition share.
func (e *exporter) functionName(o v8.Object) string {
	shared, err := e.heap.Field(o, e.shared)
	if name, ok := e.functions[shared]; ok && err == nil {
		return name
	}
	f, _ := e.heap.Function(o) // one that cannot be read has no name
	e.functions[shared] = f.Name
	return f.Name
}

func (e *exporter) describeString(o v8.Object) (kind uint64, name string) {
	switch o.Map.Kind {
	case "ConsString":
		return nodeCons, "(concatenated string)"
	case "SlicedString":
		return nodeSliced, "(sliced string)"
	}
	if e.size >= maxExportTexts {
		return nodeString, "(string)"
	}
	text, _, err := e.heap.Exact(o.Ref(), maxExportText)
	if err != nil {
		return nodeString, "<bad>"
	}
	return nodeString, text
}

// references adds an object's edges.
func (e *exporter) references(id ID, o v8.Object) {
	receiver := e.heap.IsReceiver(o)
	e.eachReference(id, func(offset int, to ID) {
		link := e.link(o, offset)
		switch link.How {
		case ByProperty:
			e.edge(edgeProperty, e.text(string(link.Name)), to)
		case ByVariable:
			e.edge(edgeContext, e.text(string(link.Name)), to)
		case ByElement:
			e.edge(edgeHidden, uint64(offset/wordSize), to)
		default:
			e.edge(edgeInternal, e.text(string(link.Name)), to)
		}
		if receiver && to != id {
			e.stored(o, link, to)
		}
	})
	for _, p := range e.pairsOf(id) {
		e.edge(edgeInternal, e.text("value of this key in a weak map"), p.value)
	}
}

// stored adds the edges of an object that V8 keeps in a separate store.
func (e *exporter) stored(owner v8.Object, link Link, store ID) {
	if link.How != ByField {
		return
	}
	o := e.Object(store)
	switch o.Map.Kind {
	case "PropertyArray":
		names := map[int]string{}
		fields, _ := e.heap.MapFields(owner.Map) // a field that cannot be read has no name
		for _, f := range fields {
			if f.Index >= 0 && f.Offset < 0 {
				names[f.Index] = f.Name
			}
		}
		e.eachReference(store, func(offset int, to ID) {
			if name, ok := names[(offset-arrayHeader)/wordSize]; ok {
				e.edge(edgeProperty, e.text(name), to)
			}
		})
	case "NameDictionary":
		properties, _ := e.heap.Properties(owner)
		for _, p := range properties {
			if to, ok := e.Find(p.Value.Address()); ok && p.Value.IsObject() {
				e.edge(edgeProperty, e.text(p.Name), to)
			}
		}
	case "FixedArray":
		if strings.Contains(string(link.Name), "elements") {
			e.eachReference(store, func(offset int, to ID) {
				if offset >= arrayHeader {
					e.edge(edgeElement, uint64((offset-arrayHeader)/wordSize), to)
				}
			})
		}
	}
}
