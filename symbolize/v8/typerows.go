package v8

import "strings"

// A typeRun names instance types that follow one another.
type typeRun struct {
	first uint16
	names string // V8's class names, separated by spaces
}

// Runs that are the same in several versions.
const (
	hashTables9 = "HashTable EphemeronHashTable GlobalDictionary NameDictionary NumberDictionary OrderedHashMap " +
		"OrderedHashSet OrderedNameDictionary SimpleNumberDictionary ClosureFeedbackCellArray " +
		"ObjectBoilerplateDescription ScriptContextTable"
	hashTables12 = "HashTable EphemeronHashTable GlobalDictionary NameDictionary NameToIndexHashTable NumberDictionary " +
		"OrderedHashMap OrderedHashSet OrderedNameDictionary RegisteredSymbolTable SimpleNumberDictionary"
	hashTables10 = hashTables12 + " ClosureFeedbackCellArray ObjectBoilerplateDescription ScriptContextTable"
	hashTables14 = "HashTable EphemeronHashTable GlobalDictionary NameDictionary NameToIndexHashTable NumberDictionary " +
		"OrderedHashMap OrderedHashSet OrderedNameDictionary RegisteredSymbolTable SimpleNameDictionary SimpleNumberDictionary"
	contexts = "AwaitContext BlockContext CatchContext DebugEvaluateContext EvalContext FunctionContext ModuleContext " +
		"NativeContext ScriptContext WithContext"
	prototypes = "JSArrayIteratorPrototype JSIteratorPrototype JSMapIteratorPrototype JSObjectPrototype JSPromisePrototype " +
		"JSRegExpPrototype JSSetIteratorPrototype JSSetPrototype JSStringIteratorPrototype JSTypedArrayPrototype"
	iterators = "JSMapKeyIterator JSMapKeyValueIterator JSMapValueIterator JSSetKeyValueIterator JSSetValueIterator"
)

// typeRows name the instance types that metadata omits: those of classes with
// several types, or with none of their own fields. V8's own names of the numbers,
// as it prints them, from the official binaries of each line of rows.
var typeRows = []struct {
	version Version
	runs    []typeRun
}{
	{Version{9, 4, 0, 0}, []typeRun{
		{65, "BigInt"},
		{70, "Foreign WasmFunctionData"},
		{81, "LoadHandler StoreHandler"},
		{120, hashTables9},
		{137, contexts + " ExportedSubClassBase"},
		{160, "TransitionArray"},
		{166, "FeedbackMetadata"},
		{168, "Filler"},
		{1040, "JSSpecialApiObject"},
		{1042, prototypes + " JSGeneratorObject"},
		{1056, "JSApiObject"},
		{1074, iterators},
		{1090, "JSContextExtensionObject"},
		{1112, "WasmInstanceObject"},
		{1117, "WasmValueObject"},
	}},
	{Version{10, 2, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{180, hashTables10},
		{204, "Foreign"},
		{207, contexts},
		{221, "WasmFunctionData"},
		{225, "ExportedSubClassBase"},
		{238, "TransitionArray"},
		{244, "FeedbackMetadata"},
		{246, "Filler"},
		{1040, "JSSpecialApiObject"},
		{2081, prototypes + " " + iterators + " JSGeneratorObject"},
		{2108, "JSContextExtensionObject"},
		{2142, "WasmInstanceObject"},
		{2148, "WasmValueObject"},
	}},
	{Version{11, 3, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{176, hashTables10},
		{195, "TurboshaftFloat64Type"},
		{198, "TurboshaftWord32Type"},
		{201, "TurboshaftWord64Type"},
		{205, contexts},
		{224, "WasmFunctionData"},
		{228, "ExportedSubClassBase"},
		{241, "TransitionArray"},
		{248, "FeedbackMetadata"},
		{250, "Filler"},
		{1040, "JSSpecialApiObject"},
		{2082, prototypes + " " + iterators},
		{2105, "JSGeneratorObject"},
		{2117, "JSContextExtensionObject"},
		{2152, "WasmExceptionPackage"},
		{2154, "WasmInstanceObject"},
		{2160, "WasmValueObject"},
	}},
	{Version{12, 4, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{175, hashTables12},
		{190, contexts},
		{209, "WasmTrustedInstanceData"},
		{214, "WasmDispatchTable TurboshaftFloat64Type"},
		{218, "TurboshaftWord32Type"},
		{221, "TurboshaftWord64Type"},
		{229, "WasmFunctionData"},
		{233, "ExportedSubClassBase"},
		{248, "TransitionArray"},
		{257, "FeedbackMetadata"},
		{259, "Filler"},
		{1040, "JSSpecialApiObject"},
		{2083, prototypes + " " + iterators},
		{2107, "JSGeneratorObject"},
		{2119, "JSContextExtensionObject"},
		{2154, "WasmExceptionPackage"},
		{2162, "WasmValueObject"},
	}},
	{Version{13, 6, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{179, "WasmFunctionData"},
		{189, "WasmDispatchTable"},
		{191, "WasmTrustedInstanceData"},
		{201, "ExportedSubClassBase"},
		{206, hashTables12},
		{220, contexts + " TurboshaftFloat64Type"},
		{233, "TurboshaftWord32Type"},
		{236, "TurboshaftWord64Type"},
		{257, "TransitionArray"},
		{265, "FeedbackMetadata"},
		{267, "Filler FreeSpace"},
		{1040, "JSSpecialApiObject"},
		{2082, prototypes + " " + iterators},
		{2106, "JSDisposableStackBase"},
		{2109, "JSGeneratorObject"},
		{2123, "JSContextExtensionObject"},
		{2158, "WasmExceptionPackage"},
		{2167, "WasmValueObject"},
	}},
	{Version{14, 1, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{177, "WasmFunctionData"},
		{187, "WasmDispatchTable"},
		{190, "WasmTrustedInstanceData"},
		{200, "ExportedSubClassBase"},
		{206, hashTables14},
		{221, contexts + " TurboshaftFloat64Type"},
		{234, "TurboshaftWord32Type"},
		{237, "TurboshaftWord64Type"},
		{258, "TransitionArray"},
		{268, "FeedbackMetadata"},
		{270, "Filler FreeSpace Hole"},
		{1040, "JSSpecialApiObject"},
		{2082, prototypes + " " + iterators},
		{2106, "JSDisposableStackBase"},
		{2109, "JSGeneratorObject"},
		{2123, "JSContextExtensionObject"},
		{2149, "WasmExceptionPackage"},
		{2158, "WasmValueObject"},
	}},
	{Version{14, 6, 0, 0}, []typeRun{
		{129, "BigInt"},
		{137, "LoadHandler StoreHandler"},
		{178, "WasmFunctionData"},
		{188, "WasmDispatchTable"},
		{191, "WasmTrustedInstanceData"},
		{200, "WasmDispatchTableForImports"},
		{206, hashTables14},
		{221, contexts + " TurboshaftFloat64Type"},
		{234, "TurboshaftWord32Type"},
		{237, "TurboshaftWord64Type"},
		{245, "ExportedSubClassBase"},
		{259, "TransitionArray"},
		{270, "FeedbackMetadata"},
		{272, "Filler FreeSpace Hole"},
		{305, "JSModuleNamespace"},
		{1040, "JSSpecialApiObject"},
		{2083, prototypes},
		{2099, iterators},
		{2108, "JSDisposableStackBase"},
		{2111, "JSGeneratorObject"},
		{2125, "JSContextExtensionObject"},
		{2158, "WasmExceptionPackage"},
		{2167, "WasmValueObject"},
	}},
}

// firstTypes18 are those of the V8 in Node.js 18.0 to 18.2, which is otherwise laid
// out as that of 18.3 and later: it has no PromiseOnStack, and its Cell is in another place.
var firstTypes18 = struct {
	version Version
	runs    []typeRun
}{Version{10, 1, 0, 0}, []typeRun{
	{129, "BigInt"},
	{137, "LoadHandler StoreHandler"},
	{179, hashTables10},
	{204, "Foreign"},
	{207, contexts},
	{221, "WasmFunctionData"},
	{225, "ExportedSubClassBase"},
	{238, "TransitionArray"},
	{243, "FeedbackMetadata"},
	{245, "Filler"},
	{1040, "JSSpecialApiObject"},
	{2081, prototypes + " " + iterators + " JSGeneratorObject"},
	{2108, "JSContextExtensionObject"},
	{2142, "WasmInstanceObject"},
	{2148, "WasmValueObject"},
}}

// Bits of a string's instance type besides its form: it is no name that V8 keeps
// only once, and isolates share it.
const (
	notInternalized = 0x20
	sharedString    = 0x40
)

// typeRow returns V8's class names by instance type for the types that metadata
// does not name, a map of the caller's own. Of functions only JSFunction itself
// is named: all their types follow it.
func typeRow(v Version) map[uint16]string {
	names := map[uint16]string{}
	i := versionIndex(v)
	if i < 0 {
		return names
	}
	strung := uint16(sharedString << 1)
	if i == 0 { // isolates share none yet
		strung = sharedString
	}
	for t := range strung {
		if form := stringForm(t); form != "" {
			names[t] = form
		}
	}
	runs := typeRows[i].runs
	if v.Major == firstTypes18.version.Major && v.Minor == firstTypes18.version.Minor {
		runs = firstTypes18.runs
	}
	for _, run := range runs {
		for k, name := range strings.Fields(run.names) {
			names[run.first+uint16(k)] = name
		}
	}
	return names
}

// stringForm returns the class of the strings of an instance type below the
// first that is none; "" if there is none.
func stringForm(t uint16) string {
	if t&^(sharedString|notInternalized|uncached|oneByte|representation) != 0 {
		return ""
	}
	width := "TwoByte"
	if t&oneByte != 0 {
		width = "OneByte"
	}
	form := t & representation
	switch {
	case t&uncached != 0 && form == external:
		return "UncachedExternalString"
	case t&uncached != 0:
		return ""
	case form == external:
		return "External" + width + "String"
	case form == sequential && t&(notInternalized|sharedString) == 0:
		return "InternalizedString"
	case form == sequential:
		return "Seq" + width + "String"
	case form == cons:
		return "ConsString"
	case form == sliced:
		return "SlicedString"
	case form == thin:
		return "ThinString"
	}
	return ""
}

// versionIndex returns which of the lines of rows v belongs to; -1 for none.
func versionIndex(v Version) int {
	v.Build, v.Patch = 0, 0
	if v == (Version{10, 1, 0, 0}) {
		v.Minor = 2
	}
	for i, r := range typeRows {
		if r.version == v {
			return i
		}
	}
	return -1
}
