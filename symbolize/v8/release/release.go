// Package release has everything that differs from one V8 release to the next
// and that a binary's own v8dbg_ metadata does not say: one file per release,
// with each number and each quirk in a field of its own. No other package
// compares versions of V8.
//
// The values were measured in live processes of the official Node.js binaries
// for x86-64. Offsets are in bytes from an object's untagged start, unless a
// field says otherwise; slots are in bytes from the frame pointer.
package release

// A Release is the layout of one V8 release.
type Release struct {
	Version Version // major and minor alone: the patch levels of a release share the layout, but see Before
	Node    string  // the Node.js that has it, as "22" or "18.0"

	// Before has what was different in early patch levels, newest first.
	Before []Change

	Isolate   Isolate
	Frames    Frames
	Functions Functions
	Code      Code
	Strings   Strings
	Scripts   Scripts
	Scopes    Scopes
	Objects   Objects
	Sizes     Sizes
	Pages     Pages
	Traces    Traces
	Wasm      Wasm

	// Types has the instance types that metadata omits: those of classes with
	// several types, or with none of their own fields. Strings have theirs by form.
	Types map[string]uint16
	// Fields has the offsets that metadata omits, by "Class.field".
	Fields map[string]uint16
}

// A Change is how the patch levels of a release before one differ from it.
type Change struct {
	Version Version // the first patch level without the difference
	Apply   func(*Release)
}

// An Isolate is where V8 keeps the state of an isolate. What is not found in the
// binary's own code is taken from here.
type Isolate struct {
	GCCount       uint32 // from the Heap to gc_count_
	GCState       uint32 // from gc_state_ to gc_count_
	VMState       uint32 // from c_entry_fp_ to current_vm_state_
	EntryFP       Place  // c_entry_fp_
	DispatchTable Place  // a pointer to the dispatch table's first entry
}

// A Place is where a field of the Isolate is: so many bytes from its start, or
// before the Heap in it. Patch levels differ in what is before the Heap.
type Place struct{ Start, BeforeHeap uint32 }

// In returns the offset from the isolate's start of a place in an isolate whose
// Heap is at heap; 0 where that is not known.
func (p Place) In(heap uint32) uint32 {
	if p.BeforeHeap == 0 || heap < p.BeforeHeap {
		return p.Start
	}
	return heap - p.BeforeHeap
}

// Frames are the slots of stack frames. Zero: in metadata, or the frame does not exist.
type Frames struct {
	BytecodeArray       int16
	BytecodeOffset      int16 // Smi
	BuiltinExitFunction int16 // of a BuiltinExit frame: the JSFunction that C++ implements
	APIExitFunction     int16 // of an ApiCallbackExit frame: its FunctionTemplateInfo
	RegExpArgument      int16 // of a regular expression's machine code: the JSRegExp or its data, after the isolate
	ExitReceiver        int   // of a frame by which a builtin in C++ is called
	CountsReceiver      bool  // a frame's count of arguments includes the receiver
}

// Functions are the fields of JSFunction, SharedFunctionInfo and what belongs to
// them. Zero: in metadata, or absent.
type Functions struct {
	Types            uint16 // instance types of JSFunction after the first
	ClassConstructor bool   // the last of these is that of class constructors

	Properties     uint16 // PropertyArray, dictionary or hash
	Code           uint16
	DispatchHandle bool // Code is a u32 handle of the dispatch table

	SharedData      uint16 // BytecodeArray, Code, UncompiledData and others
	BuiltinID       uint16 // SharedFunctionInfo: Smi, when it is not bytecode
	DebugInfoScript uint16 // DebugInfo, which stands between a SharedFunctionInfo and its Script
	TemplateShared  uint16 // FunctionTemplateInfo: its SharedFunctionInfo or undefined

	MemberInitializerKind uint8 // kind of a function that initializes a class's fields; 0: these have names
	StaticInitializerKind uint8 // likewise its static fields and blocks
}

// Code is the layout of machine code and of what leads from it to a position in
// the source.
type Code struct {
	Start          uint16
	StartIsPointer bool // Start holds the instructions' address; else they begin there
	Size           uint16
	Flags          uint16
	Deopt          uint16 // DeoptimizationData
	Positions      uint16 // table of source positions, or of bytecode offsets
	Streams        bool   // machine code is an InstructionStream with its Code after the map

	KindMask    uint8
	Interpreted uint8 // kinds of code; those below are builtins
	Baseline    uint8
	Maglev      uint8
	Turbofan    uint8

	// Elements of DeoptimizationData.
	DeoptInlined   int  // how many functions are inlined
	DeoptLiterals  int  // the array that has the inlined functions first
	DeoptShared    int  // its function's SharedFunctionInfo
	DeoptInlinings int  // where each was inlined
	SharedWrapped  bool // DeoptShared is an object whose second word is that

	UnsignedSteps bool // tables of positions have the steps in the code without a sign
}

// Strings are the forms of strings.
type Strings struct {
	External    uint16 // resource of an external string: pointer to the characters, for strings that do not cache it
	SharedTypes bool   // isolates share strings, which have instance types of their own
}

// Scripts are the fields of Script. Zero: in metadata, or absent.
type Scripts struct {
	Source       uint16
	LineOffset   uint16 // Smi
	ColumnOffset uint16 // Smi
	ID           uint16 // Smi
	SourceURL    uint16 // String or undefined
	Type         uint16 // Smi
}

// Scopes are the forms of ScopeInfo, in words from byte 8 of the object.
type Scopes struct {
	FlagsAreSmi        bool     // else a u32 in the lower half of the first word
	MaxInlined         uint16   // with fewer locals their names follow, else a hash table
	Positions          uint16   // word of the start position, the end's follows; 0: after the names
	ReceiverInfo       bool     // one word more, after the locals, when flag bits 7-8 are 1 or 2
	ModuleVariables    bool     // a module has a count of variables before its names
	Types              []string // V8's ScopeType by number
	TypesWithPositions []string // those with positions after the names
}

// Objects are quirks of JavaScript's objects.
type Objects struct {
	DatesUnboxed   bool // a JSDate's number is in itself, not in an object of its own
	SymbolOwners   bool // two bits of a symbol's flags say whose it is, else one bit for each
	EmbedderFields int  // where the words begin that an embedder keeps in an object

	ElementsKind  int      // kind of elements of the first type of typed arrays
	ElementsTypes []string // types of typed arrays in the order of kinds
}

// Sizes are how long objects are whose map does not say: bytes of the header,
// before the units that are counted. Zero: there is no such object, or its size
// is not known.
type Sizes struct {
	Code                   int // with the instructions inline
	CodeAlign              int
	InstructionStream      int
	BytecodeArray          int
	BytecodeArrayTagged    int // bytes of it that may hold references
	FeedbackVector         int
	BoilerplateDescription int // ObjectBoilerplateDescription
	ScriptContextTable     int
	DescriptorArray        int

	FeedbackMetadataClosures bool // FeedbackMetadata has two bytes for each closure
	FreeSpaceInWords         bool // a FreeSpace's length counts words, else bytes
}

// Pages are the headers of the pages that V8 keeps objects in.
type Pages struct {
	MetadataApart                        bool // all but the flags is where the header's second word points
	Flags, Size, Heap, Start, End, Owner int
	Spaces                               []string // names by number
}

// Length returns how many bytes of a header have to be read.
func (p *Pages) Length() int {
	const word = 8
	return max(word, p.Flags, p.Size, p.Heap, p.Start, p.End, p.Owner) + word
}

// Traces are how V8 writes a call in an error's stack.
type Traces struct {
	ClassReceivers    bool // a method of a class itself has the class's name before it
	FunctionReceivers bool // a method of any function has the function's name before it
	ClassByPrefix     bool // the class is left out before names that begin with it, else before all that are no identifiers
	AccessorsPlain    bool // "get x" is not followed by "[as x]"
}

// Wasm is the layout of WebAssembly's objects.
type Wasm struct {
	Instance uint16 // WasmTrustedInstanceData: its instance; 0: frames hold the instance itself
	Module   uint16 // WasmInstanceObject: its WasmModuleObject
	Script   uint16 // WasmModuleObject: its Script
	KindBits uint8  // WasmCode: low bits of the flags that are its kind
}
