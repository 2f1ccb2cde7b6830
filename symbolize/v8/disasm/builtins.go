package disasm

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// Stripped files keep the functions of V8's API, which reveal what symbols would
// have said.
const (
	embeddedRange = "_ZN2v87Isolate20GetEmbeddedCodeRangeEPPKvPm"            // the builtins, in two variables
	embeddedCode  = "_ZN2v88internal7Isolate23CurrentEmbeddedBlobCodeEv"     // one of them; exported up to Node.js 22
	embeddedSize  = "_ZN2v88internal7Isolate27CurrentEmbeddedBlobCodeSizeEv" // the other
	currentGetter = "_ZN2v87Isolate10GetCurrentEv"                           // the thread's isolate
	minBuiltins   = 256 << 10                                                // no other run of code without unwind tables is this long
)

// builtinAlignment is what addresses of builtins are multiples of.
const builtinAlignment = 32

// MaxBuiltins bounds the bytes of the builtins; V8 has about 2 MiB.
const MaxBuiltins = 64 << 20

// BlobWords are the addresses of the variables that hold the builtins' address
// and size in a process; 0: not known.
type BlobWords struct{ Code, Size uint64 }

// FindBlobWords finds the variables through the functions that return them.
func FindBlobWords(f *elfsym.File) BlobWords {
	code, okCode := f.Symbol(embeddedCode)
	size, okSize := f.Symbol(embeddedSize)
	if okCode && okSize {
		d := decoderOf(f)
		return BlobWords{d.returned(f, code.Address), d.returned(f, size.Address)}
	}
	s, ok := f.Symbol(embeddedRange)
	if !ok {
		return BlobWords{}
	}
	return decoderOf(f).stored(f, s)
}

// returned returns the address of the variable that the function at address
// returns; 0 if the function does anything else.
func (x86) returned(f *elfsym.File, address uint64) uint64 {
	for inst, next := range instructions(f, elfsym.Symbol{Address: address}) {
		switch inst.Op {
		case x86asm.MOV:
			if m, ok := inst.Args[1].(x86asm.Mem); ok && fullRegister(inst.Args[0]) == x86asm.RAX && m.Base == x86asm.RIP {
				return next + uint64(m.Disp)
			}
		case x86asm.RET, x86asm.JMP, x86asm.CALL:
			return 0
		}
	}
	return 0
}

// stored decodes which functions GetEmbeddedCodeRange(void** code, size_t* size)
// calls, and where it stores which result.
func (d x86) stored(f *elfsym.File, s elfsym.Symbol) BlobWords {
	var words BlobWords
	const code, size = 1, 2 // stand for the parameters; addresses of variables are greater
	holds := map[x86asm.Arg]uint64{x86asm.RSI: code, x86asm.RDX: size}
	for inst, next := range instructions(f, s) {
		switch to, toMemory := inst.Args[0].(x86asm.Mem); {
		case inst.Op == x86asm.RET:
			return words
		case inst.Op == x86asm.CALL:
			delete(holds, x86asm.RAX)
			if rel, ok := inst.Args[0].(x86asm.Rel); ok {
				holds[x86asm.RAX] = d.returned(f, next+uint64(int64(rel)))
			}
		case inst.Op != x86asm.MOV:
		case toMemory && holds[to.Base] == code:
			words.Code = holds[fullRegister(inst.Args[1])]
		case toMemory && holds[to.Base] == size:
			words.Size = holds[fullRegister(inst.Args[1])]
		case !toMemory:
			holds[fullRegister(inst.Args[0])] = holds[fullRegister(inst.Args[1])]
		}
	}
	return BlobWords{}
}

// fullRegister returns the 64-bit register whose lower half is a given 32-bit
// register.
func fullRegister(a x86asm.Arg) x86asm.Arg {
	if r, ok := a.(x86asm.Reg); ok && r >= x86asm.EAX && r <= x86asm.R15L {
		return r - x86asm.EAX + x86asm.RAX
	}
	return a
}

// Uncovered returns the longest run of code in the file that no unwind table
// covers: V8's builtins, for which V8 writes none. It returns 0 if no run is long
// enough.
func Uncovered(f *elfsym.File) (address, size uint64) {
	header, ok := readFrameHeader(f)
	if !ok {
		return 0, 0
	}
	for i := range header.count() - 1 {
		start, entry := header.row(i)
		next, _ := header.row(i + 1)
		if next < start || next-start < minBuiltins {
			continue
		}
		end, ok := endOfEntry(f, start, entry)
		limit, isCode := f.CodeEnd(end)
		if !ok || !isCode {
			continue
		}
		end = min(max(end, (end+builtinAlignment-1)/builtinAlignment*builtinAlignment), next, limit)
		if run := min(next, limit) - end; run >= minBuiltins && run > size {
			address, size = end, run
		}
	}
	return address, size
}

// A frameHeader is the sorted table in .eh_frame_hdr (Linux Standard Base Core 5,
// 10.6.2), in the form that linkers write: the start of each function and the
// address of its entry.
type frameHeader struct {
	address uint64 // base address of the rows
	rows    []byte
}

const (
	frameHeaderBytes = 12
	frameRowBytes    = 8
	maxFrameHeader   = 32 << 20 // bytes; node has 1 MiB
)

func readFrameHeader(f *elfsym.File) (frameHeader, bool) {
	address, size := f.UnwindHeader()
	if size < frameHeaderBytes || size > maxFrameHeader {
		return frameHeader{}, false
	}
	data := make([]byte, size)
	if _, err := f.ReadAt(data, address); err != nil {
		return frameHeader{}, false
	}
	// version 1; pointers of 4 bytes relative to themselves, a u32, signed ones relative to the header
	if !bytes.Equal(data[:4], []byte{1, 0x1b, 0x03, 0x3b}) {
		return frameHeader{}, false
	}
	count := uint64(binary.LittleEndian.Uint32(data[8:]))
	rows := data[frameHeaderBytes:]
	if count == 0 || count > uint64(len(rows))/frameRowBytes {
		return frameHeader{}, false
	}
	return frameHeader{address, rows[:count*frameRowBytes]}, true
}

func (h frameHeader) count() int { return len(h.rows) / frameRowBytes }

// row returns the start of a function and the address of its entry in .eh_frame.
func (h frameHeader) row(i int) (start, entry uint64) {
	row := h.rows[i*frameRowBytes:]
	at := func(b []byte) uint64 { return h.address + uint64(int64(int32(binary.LittleEndian.Uint32(b)))) }
	return at(row), at(row[4:])
}

// endOfEntry returns where the function that the entry describes ends. An entry
// has a length, a pointer to the data that functions share, the start, and the
// size.
func endOfEntry(f *elfsym.File, start, entry uint64) (uint64, bool) {
	const sizeAt = 12
	var word [4]byte
	if _, err := f.ReadAt(word[:], entry+sizeAt); err != nil {
		return 0, false
	}
	size := uint64(binary.LittleEndian.Uint32(word[:]))
	return start + size, size <= math.MaxUint64-start
}

// StoresFP reports whether the builtins' code of f stores the frame pointer at an offset
// in the Isolate. It does so at two offsets, one of which is c_entry_fp_.
func StoresFP(f *elfsym.File, builtins []byte, offset uint32) bool {
	d := decoderOf(f)
	return d.savesFPAt(builtins, int64(offset)-d.rootBias())
}

// savesFPAt finds mov [r13+offset], rbp.
func (x86) savesFPAt(builtins []byte, offset int64) bool {
	return bytes.Contains(builtins, binary.LittleEndian.AppendUint32([]byte{0x49, 0x89, 0xad}, uint32(offset)))
}

// Builtins returns the builtins' code, at an offset in the file; nil if it cannot be read.
func Builtins(f *elfsym.File, offset, size uint64) []byte {
	address, ok := f.Address(offset)
	if !ok || size == 0 || size > MaxBuiltins {
		return nil
	}
	code := make([]byte, size)
	if _, err := f.ReadAt(code, address); err != nil {
		return nil
	}
	return code
}

// A FrameBuilder is where in the builtins' code the one is that builds the frame of a
// function for code of the baseline compiler. That code calls it first of all.
type FrameBuilder struct {
	Start     uint32 // offset of the builtin; 0: not found
	SavesFP   uint16 // offset in it of push rbp; mov rbp, rsp: the return address to the code is off the stack by then
	ReturnsTo uint16 // offset of the instruction that pushes that address again, above a complete frame
}

// maxBuilder bounds the bytes of the builtin up to ReturnsTo; it has 62 to 84.
const maxBuilder = 127

// buildsFrame is push rbp; mov rbp, rsp; push rsi. Code that has its return address in a
// register by then is in no other builtin.
var buildsFrame = []byte{0x55, 0x48, 0x89, 0xe5, 0x56}

// loadsFeedback begins the builtin: mov r8, [rdi+n].
var loadsFeedback = []byte{0x4c, 0x8b, 0x47}

// FindFrameBuilder finds the builtin in f's builtins.
func FindFrameBuilder(f *elfsym.File, builtins []byte) FrameBuilder {
	return decoderOf(f).frameBuilder(builtins)
}

func (x86) frameBuilder(builtins []byte) FrameBuilder {
	return onlyFrameBuilder(builtins, buildsFrame, frameBuilderBefore)
}

// onlyFrameBuilder finds the only builtin around instructions that does what this one does,
// as decode reports of their offset.
func onlyFrameBuilder(builtins, instructions []byte, decode func(builtins []byte, at int) (FrameBuilder, bool)) (found FrameBuilder) {
	for from := 0; ; {
		next := bytes.Index(builtins[from:], instructions)
		if next < 0 {
			return found
		}
		at := from + next
		from = at + 1
		b, ok := decode(builtins, at)
		if ok && found.Start != 0 {
			return FrameBuilder{}
		}
		if ok {
			found = b
		}
	}
}

// frameBuilderBefore returns the builtin that begins to build a frame at an offset.
func frameBuilderBefore(builtins []byte, at int) (FrameBuilder, bool) {
	for start := max(at-maxBuilder, 1); start < at; start++ {
		if !bytes.HasPrefix(builtins[start:], loadsFeedback) {
			continue
		}
		if b, ok := frameBuilderAt(builtins, start); ok && start+int(b.SavesFP) == at {
			return b, true
		}
	}
	return FrameBuilder{}, false
}

// endsRun are the instructions after which another does not follow, or not at once.
var endsRun = []x86asm.Op{x86asm.RET, x86asm.CALL, x86asm.JMP, x86asm.INT}

// frameBuilderAt decodes the builtin that starts at start: it takes its return address
// into a register, builds the frame and pushes the address again.
func frameBuilderAt(builtins []byte, start int) (b FrameBuilder, ok bool) {
	var address x86asm.Arg
	var pushed []x86asm.Arg
	code := builtins[start:min(start+maxBuilder, len(builtins))]
	for at := 0; at < len(code); {
		inst, err := x86asm.Decode(code[at:], 64)
		switch {
		case err != nil || slices.Contains(endsRun, inst.Op):
			return b, false
		case address == nil && inst.Op == x86asm.POP:
			address = inst.Args[0]
			b = FrameBuilder{Start: uint32(start), SavesFP: uint16(at + inst.Len)}
		case inst.Op == x86asm.POP || address == nil && inst.Op == x86asm.PUSH:
			return b, false
		case inst.Op == x86asm.PUSH && inst.Args[0] == address:
			b.ReturnsTo = uint16(at)
			return b, slices.Contains(pushed, x86asm.Arg(x86asm.RDI))
		case inst.Op == x86asm.PUSH:
			pushed = append(pushed, inst.Args[0])
		}
		at += inst.Len
	}
	return b, false
}
