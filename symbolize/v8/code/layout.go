package code

import (
	"ustack/symbolize/v8"
	"ustack/symbolize/v8/release"
)

// A codeLayout has the offsets needed to map machine code or bytecode to a source
// position.
type codeLayout struct {
	release.Code
	frames          release.Frames
	bytecodes       uint64 // of a BytecodeArray: its first bytecode
	kindInterpreted uint32 // kind of code; the kinds below it are builtins
	sizes           bytecodeSizes
	instructions    string // kind of the object that holds machine code
}

// The same in every supported version of V8.
const (
	tag            = 1 // of a reference to an object
	tagMask        = 3
	wordSize       = 8
	arrayLength    = 8 // FixedArray and others: a Smi
	arrayFirst     = 16
	bytecodeLength = 8 // Smi
	inliningSize   = 16
	inliningIndex  = 8 // i32 after the u64 position of the call
	streamCode     = 8
	wrappedShared  = 8
	maxInlined     = 64      // functions inlined into one another at one place; V8 stops far below
	maxBytecodes   = 8 << 20 // bytes of one function's; the largest in Node.js have 100 KiB
	maxFunctions   = 1 << 10 // inlined in one piece of code; V8's budget of bytecodes allows some 100
	maxInlinings   = 1 << 16 // entries: a position has 16 bits for the number
	maxCode        = 64 << 20
)

// codeLayoutOf returns the layout of code in b.
func codeLayoutOf(b *v8.Binary) codeLayout {
	l := codeLayout{
		Code: b.Release.Code, frames: b.Release.Frames,
		bytecodes:       uint64(b.Release.Fields["BytecodeArray.data"]),
		kindInterpreted: uint32(b.Release.Code.Interpreted),
		sizes:           b.BytecodeSizes,
		instructions:    "Code",
	}
	if n, ok := b.Constant("class_BytecodeArray__data__uintptr_t"); ok {
		l.bytecodes = uint64(n)
	}
	if n, ok := b.Constant("CodeKindInterpretedFunction"); ok {
		l.kindInterpreted = uint32(n)
	}
	if l.Streams {
		l.instructions = "InstructionStream"
	}
	return l
}
