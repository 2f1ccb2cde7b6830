package v8

// VMStateGC is the value of an isolate's Layout.VMState byte during a collection.
// A function's address stays valid while GCCount is unchanged and the state is not
// VMStateGC. GCState alone leaves a gap between the increment of GCCount and the
// move.
const VMStateGC = 1

// A Layout is where V8 keeps what a stack unwinder reads: everything that differs
// between versions of V8, as plain integers, so that the unwinder needs no
// version checks. Zero means absent or not known, except where a field says
// otherwise.
//
// Offsets are in bytes from the object's untagged start. Pointers are tagged
// with 1; a small integer (Smi) has its value in the upper 32 bits and zero in
// the lower. All values were measured on x86-64 builds without pointer
// compression.
type Layout struct {
	// Offsets in the Isolate, decoded from the binary's own code. Zero: not found
	// there.
	GCCount       uint32 // int: collections begun; incremented by one for each
	GCState       uint32 // int: 0 while nothing is moved; set some time after GCCount is incremented
	VMState       uint32 // u8: VMStateGC from before GCCount is incremented until the collection is over
	CEntryFP      uint32 // frame pointer of the thread's newest exit frame; holds 0 when no JavaScript frame is on the stack
	DispatchTable uint32 // pointer to the dispatch table's first entry; 0: process-wide (Binary.DispatchBase) or none

	Handlers uint32 // offset in the builtins' code of the bytecode handlers, the last of all; 0: not known

	// The builtin that builds the frames of the baseline compiler's code: see disasm.FrameBuilder.
	Builder                          uint32 // offset in the builtins' code; 0: not known
	BuilderSavesFP, BuilderReturnsTo uint16

	// Instance types, as a map stores them.
	FirstJSFunction    uint16
	LastJSFunction     uint16
	SharedFunctionInfo uint16
	ScopeInfo          uint16
	Script             uint16
	Code               uint16
	BytecodeArray      uint16
	FirstNonstring     uint16 // strings are the types below it
	DebugInfo          uint16 // stands between a SharedFunctionInfo and its Script if not zero
	DebugInfoScript    uint16 // DebugInfo: its Script
	PropertyArray      uint16
	JSBoundFunction    uint16
	FirstUncompiled    uint16 // types of UncompiledData: start and end of a function not yet compiled
	LastUncompiled     uint16
	FunctionTemplate   uint16 // FunctionTemplateInfo: a function that an embedder's C++ implements
	Oddball            uint16 // undefined, null, true, false
	HeapNumber         uint16

	// Map.
	MapInstanceType   uint16 // u16
	MapInstanceSize   uint16 // u8, in words
	MapInobject       uint16 // u8: word of the object at which in-object properties start
	MapBitField3      uint16 // u32
	MapDescriptors    uint16 // DescriptorArray
	MapPrototype      uint16
	MapConstructor    uint16 // JSFunction, or the Map that this one was derived from
	DescriptorsHeader uint16 // DescriptorArray: its first entry; an entry is key, details (Smi), value

	DictionaryBit   uint8 // bit field 3: set when properties are in a dictionary, not described by the map
	DescriptorShift uint8 // bit field 3: own descriptors, 10 bits from here
	DetailsLocation uint8 // details: bit that is 0 for a field and 1 for a value in the descriptor
	DetailsIndex    uint8 // details: field's index, 10 bits from here; bit 0 is 1 for an accessor

	// JSFunction.
	FunctionProperties uint16 // PropertyArray, dictionary or hash
	FunctionShared     uint16 // SharedFunctionInfo
	FunctionCode       uint16 // Code; u32 dispatch handle when DispatchHandle is 1

	// SharedFunctionInfo.
	SharedName   uint16 // String, ScopeInfo or Smi
	SharedScript uint16 // Script, DebugInfo or undefined
	SharedData   uint16 // BytecodeArray, Code, UncompiledData and others
	SharedID     uint16 // Smi builtin id when it is not bytecode; equal to SharedData up to V8 12
	SharedFlags  uint16 // u32; the function's kind is in the low five bits

	TemplateShared uint16 // FunctionTemplateInfo: its SharedFunctionInfo or undefined

	KindMembers uint8 // kind of a function that initializes a class's fields; 0: such functions have names
	KindStatic  uint8 // likewise its static fields and blocks

	// UncompiledData.
	UncompiledName  uint16 // inferred name
	UncompiledStart uint16 // i32
	UncompiledEnd   uint16 // i32

	// Script.
	ScriptSource       uint16 // String or undefined
	ScriptName         uint16 // String or undefined
	ScriptLineOffset   uint16 // Smi
	ScriptColumnOffset uint16 // Smi
	ScriptID           uint16 // Smi
	ScriptSourceURL    uint16 // String or undefined
	ScriptSourceMapURL uint16 // String or undefined
	ScriptType         uint16 // Smi: 3 for a WebAssembly module's

	// External strings.
	ExternalData uint16 // of the resource: pointer to the characters, for strings that do not cache it

	// ScopeInfo, in words from byte 8 of the object. Word 0 holds the flags.
	ScopeLocals      uint16 // word of the number n of context locals (Smi)
	ScopeFirst       uint16 // first word after the fixed ones
	ScopeMaxInlined  uint16 // with n below it n names follow, else one word (a hash table)
	ScopePositions   uint16 // word of the start position, the end's follows; 0: after the names
	ScopeFlagsSmi    uint8  // 1: flags are a Smi; 0: a u32 in the word's lower half
	ScopeModule      uint8  // scope type of a module, plus one; 0: a module has no count of variables before its names
	ScopeReceiver    uint8  // 1: one word more, after the n infos, when flag bits 7-8 are 1 or 2
	ScopePositionsOf uint16 // bit per scope type (flag bits 0-3): those that have positions after the names

	// Code.
	CodeStart        uint16 // instructions, or their address when CodeStartPointer is 1
	CodeSize         uint16 // u32, in bytes
	CodeFlags        uint16 // u32
	CodeStartPointer uint8  // 1: the field holds the address; 0: instructions start inline at that offset
	CodeKindMask     uint8
	KindBaseline     uint8
	KindMaglev       uint8
	KindTurbofan     uint8
	DispatchHandle   uint8 // 1: FunctionCode is a handle h; entry base+(h>>8)*16, its second word>>16 is the Code

	// Frames: slots from fp.
	FPContext        int16 // context, or the frame's type times two where bit 0 is clear
	FPFunction       int16 // JSFunction
	FPBytecodeArray  int16
	FPBytecodeOffset int16 // Smi

	FrameEntry           uint8 // frame types
	FrameConstructEntry  uint8
	FrameExit            uint8
	FrameConstruct       uint8
	FrameFastConstruct   uint8
	FrameInternal        uint8
	FrameStub            uint8
	FrameBuiltin         uint8
	FrameBuiltinExit     uint8
	FrameAPICallbackExit uint8

	FrameWasm uint8 // its slot FPFunction holds the instance: see WasmInstance

	// WebAssembly: from a frame's instance to the script that is named by the module's URL.
	WasmModuleObject uint16 // type
	WasmInstance     uint16 // WasmTrustedInstanceData: its instance; 0: frames hold the instance itself
	WasmModule       uint16 // WasmInstanceObject: its WasmModuleObject
	WasmScript       uint16 // WasmModuleObject: its Script
	WasmKindBits     uint8  // WasmCode: low bits of the flags that are its kind

	// Regular expressions: machine code is called with the isolate and one of these.
	RegExp         uint16 // type: of JSRegExp, or of its data (IrRegExpData)
	RegExpSource   uint16 // String; the next field has the flags (Smi)
	RegExpArgument int16  // slot from fp of the code's frame
	RegExpIsolate  int16  // slot from fp; 0: the one before RegExpArgument
	FrameRegExp    uint8  // 0: the frame has no type

	BuiltinExitFunction int16 // slot from fp of a BuiltinExit frame: the JSFunction that C++ implements
	APIExitFunction     int16 // slot from fp of an ApiCallbackExit frame: its FunctionTemplateInfo
}
