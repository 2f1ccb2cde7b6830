// Package release has everything that differs between V8 releases and that a
// binary's own v8dbg_ metadata omits: one file per release, with each number and
// each quirk in a field of its own. No other package compares versions of V8.
//
// The values were measured in live processes of the official Node.js binaries
// for x86-64. Offsets are in bytes from an object's untagged start, unless a
// field says otherwise; slots are in bytes from the frame pointer.
package release

// A Release is the layout of one V8 release.
type Release struct {
	Version Version // major and minor only: the patch levels of a release share the layout, except for Before
	Node    string  // the Node.js that has it, as "22" or "18.0"

	// Before lists the differences of early patch levels, newest first.
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

	Allocations Allocations

	// Types has the instance types that metadata omits: those of classes with
	// several types, or with no fields of their own. Strings are not included:
	// their types follow from their form.
	Types map[string]uint16
	// Fields has the offsets that metadata omits, by "Class.field".
	Fields map[string]uint16
}

// A Change is a difference that applies to patch levels below Version.
type Change struct {
	Version Version // the first patch level without the difference
	Apply   func(*Release)
}

// Allocations are what V8's functions for memory are called with.
type Allocations struct {
	Buffer      uint16 // in what owns an allocation buffer: start, top and limit, or a pointer to them
	Inline      bool   // the owner has the buffer itself
	MinorSweeps bool   // there are minor mark-sweeps: their bit is before those of GCType's other kinds
}

// An Isolate has the offsets of an isolate's state, for those that cannot be
// found in the binary's own code.
type Isolate struct {
	GCCount       uint32 // from the Heap to gc_count_
	GCState       uint32 // from gc_state_ to gc_count_
	VMState       uint32 // from c_entry_fp_ to current_vm_state_
	EntryFP       Place  // c_entry_fp_
	DispatchTable Place  // a pointer to the dispatch table's first entry
}

// A Place is the offset of a field in the Isolate, either from its start or as a
// distance before its Heap. What precedes the Heap differs between patch levels.
type Place struct{ Start, BeforeHeap uint32 }

// In returns a place's offset from the start of an isolate whose Heap is at
// offset heap; 0 if that is not known.
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
	Registers           int16 // the first register of an interpreted function
	BuiltinExitFunction int16 // of a BuiltinExit frame: the JSFunction that C++ implements
	APIExitFunction     int16 // of an ApiCallbackExit frame: its FunctionTemplateInfo
	RegExpArgument      int16 // of a regular expression's machine code: the JSRegExp or its data, after the isolate
	ExitReceiver        int   // of the frame of a call to a C++ builtin
	CountsReceiver      bool  // a frame's count of arguments includes the receiver
}

// Functions are the fields of JSFunction, SharedFunctionInfo and related objects.
// Zero: in metadata, or absent.
type Functions struct {
	Types            uint16 // instance types of JSFunction after the first
	ClassConstructor bool   // the last of Types is that of class constructors

	Properties     uint16 // PropertyArray, dictionary or hash
	Code           uint16
	DispatchHandle bool // Code is a u32 handle of the dispatch table

	SharedData      uint16 // BytecodeArray, Code, UncompiledData and others
	BuiltinID       uint16 // SharedFunctionInfo: Smi, when it is not bytecode
	DebugInfoScript uint16 // DebugInfo, which may stand between a SharedFunctionInfo and its Script
	TemplateShared  uint16 // FunctionTemplateInfo: its SharedFunctionInfo or undefined

	MemberInitializerKind uint8 // kind of a function that initializes a class's fields; 0: such functions have names
	StaticInitializerKind uint8 // likewise its static fields and blocks
}

// Code is the layout of machine code and of the data that maps it to source
// positions.
type Code struct {
	Start          uint16
	StartIsPointer bool // Start holds the instructions' address; otherwise they begin there
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

	// Indexes of elements of DeoptimizationData.
	DeoptInlined   int  // how many functions are inlined
	DeoptLiterals  int  // the array that begins with the inlined functions
	DeoptShared    int  // its function's SharedFunctionInfo
	DeoptInlinings int  // the position of each inlining
	SharedWrapped  bool // DeoptShared is an object whose second word is the SharedFunctionInfo

	Safepoints   Safepoints
	Translations Translations

	UnsignedSteps bool // steps in the code are unsigned in tables of positions
}

// Safepoints are the form of a table of safepoints, which follows the instructions of
// optimized code.
type Safepoints struct {
	FixedEntries bool  // of three u32: return address, deoptimization, trampoline
	Length       uint8 // where the number of entries is; what an entry has follows
}

// Translations are the form of the instructions by which V8 makes functions' frames from
// the frame of the code that they were compiled into.
type Translations struct {
	Operands      string  // a digit for each instruction: how many operands it has
	Values        string  // a letter for each instruction: a Translated
	Begin         Opcodes // begin a translation
	Function      Opcodes // begin a function's frame: bytecode offset, index of the function in the literals
	Continuation  Opcodes // begin a frame in which one of V8's builtins continues
	Match         uint8   // repeats instructions of an earlier translation; 0: none does
	SignedOpcodes bool    // instructions are signed numbers, as operands are
}

// Opcodes are consecutive instructions.
type Opcodes struct{ First, Count uint8 }

// Has reports whether o has an instruction.
func (o Opcodes) Has(opcode int) bool {
	return opcode >= int(o.First) && opcode < int(o.First)+int(o.Count)
}

// Strings are the forms of strings.
type Strings struct {
	External    uint16 // resource of an external string: pointer to the characters, for strings that do not cache it
	SharedTypes bool   // isolates share strings, which have their own instance types
}

// Scripts are the fields of Script. Zero: in metadata, or absent.
type Scripts struct {
	Source       uint16
	LineOffset   uint16 // Smi
	ColumnOffset uint16 // Smi
	ID           uint16 // Smi
	SourceURL    uint16 // String or undefined
	SourceMapURL uint16 // String or undefined
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

// Objects are quirks of JavaScript objects.
type Objects struct {
	DatesUnboxed   bool // a JSDate holds its number itself, not a reference to one
	SymbolOwners   bool // two bits of a symbol's flags give its owner; otherwise there is one bit for each
	EmbedderFields int  // offset of the words that an embedder keeps in an object

	ElementsKind  int      // elements kind of the first type of typed arrays
	ElementsTypes []string // types of typed arrays in the order of elements kinds
}

// Sizes are header sizes in bytes, before the counted units, of objects whose map
// does not give their size. Zero: the object does not exist, or its size is not
// known.
type Sizes struct {
	Code                   int // with the instructions inline
	CodeAlign              int
	InstructionStream      int
	BytecodeArray          int
	BytecodeArrayTagged    int // bytes that may hold references
	FeedbackVector         int
	BoilerplateDescription int // ObjectBoilerplateDescription
	ScriptContextTable     int
	DescriptorArray        int

	FeedbackMetadataClosures bool // FeedbackMetadata has two bytes for each closure
	FreeSpaceInWords         bool // a FreeSpace's length counts words, otherwise bytes
}

// Pages are the headers of the pages that V8 keeps objects in.
type Pages struct {
	MetadataApart                        bool // the header's second word points to all fields but the flags
	Flags, Size, Heap, Start, End, Owner int
	Spaces                               []string // names by number
}

// Length returns how many bytes of a header must be read.
func (p *Pages) Length() int {
	const word = 8
	return max(word, p.Flags, p.Size, p.Heap, p.Start, p.End, p.Owner) + word
}

// Traces describes how V8 formats a call in an error's stack.
type Traces struct {
	ClassReceivers    bool // a method called on a class has the class's name as a prefix
	FunctionReceivers bool // a method called on any function has the function's name as a prefix
	ClassByPrefix     bool // the class is omitted before names that begin with it; otherwise before all names that are not identifiers
	AccessorsPlain    bool // "get x" is not followed by "[as x]"
}

// Wasm is the layout of WebAssembly's objects.
type Wasm struct {
	Instance uint16 // WasmTrustedInstanceData: its instance; 0: frames hold the instance itself
	Module   uint16 // WasmInstanceObject: its WasmModuleObject
	Script   uint16 // WasmModuleObject: its Script
	KindBits uint8  // WasmCode: low bits of the flags that are its kind
}
