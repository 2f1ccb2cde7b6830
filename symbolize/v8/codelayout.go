package v8

import (
	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8/release"
)

// A codeLayout has the offsets needed to map machine code or bytecode to a source
// position.
type codeLayout struct {
	release.Code
	frames             release.Frames
	bytecodes          uint64 // of a BytecodeArray: its first bytecode
	bytecodePositions  uint64 // its table of source positions
	kindInterpreted    uint32 // kind of code; the kinds below it are builtins
	sizes              bytecodeSizes
	byteArrays         []uint16 // types of tables
	instructionsObject uint16   // type of the object that holds machine code
}

// The same in every supported version of V8.
const (
	bytecodeLength  = 8 // Smi
	inliningSize    = 16
	inliningIndex   = 8 // i32 after the u64 position of the call
	streamCode      = 8
	wrappedShared   = 8
	maxInlined      = 64      // functions inlined into one another at one place; V8 stops far below
	maxBytecodes    = 8 << 20 // bytes of one function's; the largest in Node.js have 100 KiB
	maxInlinings    = 1 << 16 // entries: a position has 16 bits for the number
	maxCode         = 64 << 20
	bytecodeSizesOf = "_ZN2v88internal11interpreter9Bytecodes14kBytecodeSizesE"
)

// codeLayoutOf returns the layout for a release of V8 in f.
func codeLayoutOf(f *elfsym.File, r *release.Release) codeLayout {
	l := codeLayout{
		Code: r.Code, frames: r.Frames,
		bytecodes:         uint64(r.Fields["BytecodeArray.data"]),
		bytecodePositions: uint64(r.Fields["BytecodeArray.source_position_table"]),
		kindInterpreted:   uint32(r.Code.Interpreted),
	}
	l.read(f)
	return l
}

// read sets the fields that f has symbols for.
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
	if l.Streams {
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
