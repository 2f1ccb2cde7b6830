package v8

// A row is what v8dbg_ metadata omits about the versions from first to last, by
// major and minor alone. Each value was measured in live processes of the
// official Node.js binaries of that line: 9.4 in Node.js 16.14 to 16.20, 10.2 in
// 18, 11.3 in 20, 12.4 in 22, 13.6 in 24, 14.1 in 25 and 14.6 in 26.
type row struct {
	first, last Version
	functions   uint16     // types of JSFunction after the first
	gcState     uint32     // bytes from the isolate's gc_state_ to its gc_count_
	vmState     uint32     // bytes from its c_entry_fp_ to its current_vm_state_
	gcCount     uint32     // bytes from its Heap to gc_count_
	entryFP     fieldPlace // c_entry_fp_
	table       fieldPlace // a pointer to the dispatch table's first entry
	layout      Layout     // the rest; metadata wins where it has a value
}

// A fieldPlace is where a field of the Isolate is: so many bytes from its start, or
// before the Heap in it. Releases of one version differ in what is before the Heap.
type fieldPlace struct{ start, beforeHeap uint32 }

// in returns the offset from the isolate's start of a place in an isolate whose
// Heap is at heap; 0 where that is not known.
func (p fieldPlace) in(heap uint32) uint32 {
	if p.beforeHeap == 0 || heap < p.beforeHeap {
		return p.start
	}
	return heap - p.beforeHeap
}

// rows has a line for each layout known, oldest first.
var rows = []row{
	{
		first: Version{9, 4, 0, 0}, last: Version{9, 4, 0, 0},
		functions: 14, gcState: 0x34, vmState: 0x38,
		gcCount: 524, entryFP: fieldPlace{beforeHeap: 27720},
		layout: Layout{
			FunctionProperties: 8, SharedData: 8, SharedID: 8, DebugInfoScript: 24,
			ScriptSource: 8, ScriptLineOffset: 24, ScriptColumnOffset: 32, ScriptID: 64, ScriptSourceURL: 104,
			ScopeMaxInlined: 65535, ScopeFlagsSmi: 1, ScopeReceiver: 1, ScopePositionsOf: 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4,
			CodeFlags: 48, CodeKindMask: 15, KindBaseline: 11, KindTurbofan: 13,
			FPBytecodeArray: -32, FPBytecodeOffset: -40, BuiltinExitFunction: 24,
			WasmModule: 208, WasmScript: 40, WasmKindBits: 3,
		},
	},
	{
		first: Version{10, 1, 0, 0}, last: Version{10, 1, 0, 0},
		functions: 15, gcState: 0x2c, vmState: 0x30,
		gcCount: 612, entryFP: fieldPlace{beforeHeap: 33048},
		layout: layout10,
	},
	{
		first: Version{10, 2, 0, 0}, last: Version{10, 2, 0, 0},
		functions: 15, gcState: 0x2c, vmState: 0x30,
		gcCount: 620, entryFP: fieldPlace{beforeHeap: 33024},
		layout: layout10,
	},
	{
		first: Version{11, 3, 0, 0}, last: Version{11, 3, 0, 0},
		functions: 15, gcState: 0x1c, vmState: 0x30,
		gcCount: 580, entryFP: fieldPlace{start: 384},
		layout: Layout{
			FunctionProperties: 8, FunctionCode: 48, SharedData: 8, SharedID: 8, DebugInfoScript: 24,
			ScriptLineOffset: 24, ScriptColumnOffset: 32, ScriptID: 64, ScriptSourceURL: 112,
			ScopeMaxInlined: 75, ScopeFlagsSmi: 1, ScopePositionsOf: scopesWithPositions,
			CodeStart: 40, CodeSize: 56, CodeFlags: 48, CodeStartPointer: 1,
			KindMaglev: 12, KindTurbofan: 13, BuiltinExitFunction: 24,
			WasmModule: 208, WasmScript: 32, WasmKindBits: 2,
		},
	},
	{
		first: Version{12, 4, 0, 0}, last: Version{12, 4, 0, 0},
		gcState: 0x1c, vmState: 0xa8,
		gcCount: 436, entryFP: fieldPlace{start: 272},
		layout: Layout{
			FunctionProperties: 8, SharedData: 8, SharedID: 8, TemplateShared: 64, ScriptType: 48,
			ScriptLineOffset: 24, ScriptColumnOffset: 32, ScriptID: 64, ScriptSourceURL: 112, ExternalData: 8,
			KindMembers: 24, KindStatic: 25,
			ScopeMaxInlined: 75, ScopeFlagsSmi: 1, ScopeModule: 3 + 1, ScopePositionsOf: scopesWithPositions,
			CodeStartPointer: 1, KindMaglev: 11, KindTurbofan: 12,
			BuiltinExitFunction: 24, APIExitFunction: 16,
			WasmInstance: 160, WasmModule: 32, WasmScript: 32, WasmKindBits: 2,
		},
	},
	{
		first: Version{13, 6, 0, 0}, last: Version{13, 6, 0, 0},
		gcState: 0x1c, vmState: 0xa8,
		gcCount: 572, entryFP: fieldPlace{start: 320}, table: fieldPlace{beforeHeap: 49312},
		layout: with13(Layout{KindMaglev: 11, KindTurbofan: 12, KindMembers: 24, KindStatic: 25, APIExitFunction: 48, WasmInstance: 152, WasmKindBits: 2}),
	},
	{
		first: Version{14, 1, 0, 0}, last: Version{14, 1, 0, 0},
		gcState: 0x1c, vmState: 0xa8,
		gcCount: 572, entryFP: fieldPlace{start: 328}, table: fieldPlace{start: 624},
		layout: with13(Layout{KindMaglev: 11, KindTurbofan: 12, KindMembers: 24, KindStatic: 25, APIExitFunction: 48, WasmInstance: 152, WasmKindBits: 3}),
	},
	{
		first: Version{14, 6, 0, 0}, last: Version{14, 6, 0, 0},
		gcState: 0x1c, vmState: 0xa8,
		gcCount: 580, entryFP: fieldPlace{start: 328}, table: fieldPlace{start: 616},
		layout: with13(Layout{KindMaglev: 12, KindTurbofan: 13, KindMembers: 24, KindStatic: 26, APIExitFunction: 40, WasmInstance: 104, WasmKindBits: 3}),
	},
}

// layout10 is V8 10's.
var layout10 = Layout{
	FunctionProperties: 8, SharedData: 8, SharedID: 8, DebugInfoScript: 24,
	ScriptLineOffset: 24, ScriptColumnOffset: 32, ScriptID: 64, ScriptSourceURL: 104,
	ScopeMaxInlined: 75, ScopeFlagsSmi: 1, ScopePositionsOf: scopesWithPositions,
	KindTurbofan: 13, BuiltinExitFunction: 24,
	WasmModule: 208, WasmScript: 40, WasmKindBits: 2,
}

// scopesWithPositions are the scope types that have positions after their names
// in V8 10.1 to 12.4: class, eval, function, module, script and shadow realm.
const scopesWithPositions = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<8

// with13 adds to l what is the same from V8 13.6 on.
func with13(l Layout) Layout {
	l.FunctionProperties, l.FunctionCode, l.DispatchHandle = 8, 24, 1
	l.SharedData, l.SharedID, l.TemplateShared = 8, 16, 72
	l.ScriptLineOffset, l.ScriptColumnOffset, l.ScriptID, l.ScriptSourceURL, l.ScriptType = 24, 32, 64, 112, 48
	l.ExternalData = 8
	l.ScopeMaxInlined, l.ScopePositions, l.ScopeModule = 75, 3, 5+1
	l.CodeStartPointer, l.BuiltinExitFunction = 1, 24
	l.WasmModule, l.WasmScript = 32, 32
	return l
}

// rowOf returns the row that v belongs to.
func rowOf(v Version) (row, bool) {
	v.Build, v.Patch = 0, 0
	for _, r := range rows {
		if r.first.Compare(v) <= 0 && v.Compare(r.last) <= 0 {
			return r, true
		}
	}
	return row{}, false
}
