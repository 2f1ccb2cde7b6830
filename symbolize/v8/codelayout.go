package v8

import "ustack/symbolize/elfsym"

// A codeLayout is what finds a place in the source from a place in machine code
// or bytecode: offsets in bytes, types, and indices of elements. What has no
// symbol was measured in live processes of the official Node.js binaries.
type codeLayout struct {
	bytecodes          uint64 // of a BytecodeArray: its first bytecode
	bytecodePositions  uint64 // its table of source positions
	codeDeopt          uint64 // of Code: its DeoptimizationData
	codePositions      uint64 // its table of source positions, or of bytecode offsets
	inlined            int    // of DeoptimizationData: how many functions are inlined
	literals           int    // the array that has the inlined functions first
	shared             int    // its function's SharedFunctionInfo
	wrapped            bool   // shared is an object whose second word is that
	inlinings          int    // where each was inlined
	unsigned           bool   // steps in the code are unsigned in tables
	kindInterpreted    uint32 // kind of code; the kinds below it are builtins
	countsReceiver     bool   // a frame's count of arguments includes the receiver
	exitReceiver       int    // slot from fp of the receiver, in the frame by which a builtin in C++ is called
	streams            bool   // machine code is an InstructionStream with its Code after the map
	sizes              bytecodeSizes
	byteArrays         []uint16 // types of tables
	instructionsObject uint16   // type of what holds machine code
}

// What is the same in every V8 that is supported.
const (
	bytecodeLength  = 8 // Smi
	inliningSize    = 16
	inliningIndex   = 8 // i32 after the u64 position of the call
	streamCode      = 8
	wrappedShared   = 8
	maxInlined      = 64      // functions within one another at one place; V8 stops far below
	maxBytecodes    = 8 << 20 // bytes of one function's; Node.js's largest have 100 KiB
	maxInlinings    = 1 << 16 // entries: a position has 16 bits for the number
	maxCode         = 64 << 20
	bytecodeSizesOf = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
)

// codeLayoutOf returns the layout for the V8 of version v in f.
func codeLayoutOf(f *elfsym.File, v Version) codeLayout {
	before := func(major int) bool { return v.Major < major }
	l := codeLayout{
		bytecodes: 54, bytecodePositions: 32, codeDeopt: 16, codePositions: 24,
		inlined: 1, literals: 2, shared: 6, inlinings: 7,
		kindInterpreted: 10, countsReceiver: !before(10), unsigned: !before(14), streams: !before(11),
	}
	if !before(12) {
		l.bytecodes, l.bytecodePositions, l.codeDeopt, l.codePositions, l.kindInterpreted = 64, 24, 8, 16, 9
	}
	if !before(13) {
		l.literals, l.shared, l.inlinings, l.wrapped = 3, 7, 8, true
	}
	l.exitReceiver = 48
	if v.Compare(Version{14, 6, 0, 0}) >= 0 { // the slot that only fills space is gone
		l.exitReceiver = 40
	}
	l.read(f)
	return l
}

// read takes what f has symbols for.
func (l *codeLayout) read(f *elfsym.File) {
	if n, err := readUint32(f, metadataPrefix+"class_BytecodeArray__data__uintptr_t"); err == nil {
		l.bytecodes = uint64(n)
	}
	if n, err := readUint32(f, metadataPrefix+"CodeKindInterpretedFunction"); err == nil {
		l.kindInterpreted = n
	}
	for _, name := range []string{"type_ByteArray__BYTE_ARRAY_TYPE", "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE"} {
		if n, err := readUint32(f, metadataPrefix+name); err == nil {
			l.byteArrays = append(l.byteArrays, uint16(n))
		}
	}
	object := "type_Code__CODE_TYPE"
	if l.streams {
		object = "type_InstructionStream__INSTRUCTION_STREAM_TYPE"
	}
	if n, err := readUint32(f, metadataPrefix+object); err == nil {
		l.instructionsObject = uint16(n)
	}
	const maxSizes = widths << 8
	if s, ok := f.Symbol(bytecodeSizesOf); ok && s.Size <= maxSizes {
		sizes := make([]byte, s.Size)
		if _, err := f.ReadAt(sizes, s.Address); err == nil {
			l.sizes = sizes
		}
	}
}
