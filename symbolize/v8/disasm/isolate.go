package disasm

import (
	"debug/elf"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// Symbols of V8.
const (
	isolateKey     = "_ZN2v88internal7Isolate12isolate_key_E"
	currentIsolate = "_ZN2v88internal18g_current_isolate_E"
)

// A Slot is what a file says about where threads keep their current isolate.
type Slot struct {
	Offset int64  // from the thread pointer; 0: not known before the process runs
	Key    uint64 // address of the pthread key; 0: none
	GOT    uint64 // address of the variable that holds the offset; 0: none
	Index  uint64 // address of the pair of module ID and offset in its block; 0: none
	Add    int64  // to be added to that offset
}

// Isolate returns what f says about where threads keep their current isolate.
func Isolate(f *elfsym.File) Slot {
	if s, ok := f.Symbol(isolateKey); ok {
		return Slot{Key: s.Address}
	}
	s, ok := f.Symbol(currentIsolate)
	if !ok || s.Type != elf.STT_TLS || f.Type() != elf.ET_EXEC {
		return decodeIsolate(f)
	}
	return Slot{Offset: decoderOf(f).threadOffset(f, s.Address)}
}

// threadOffset returns where a program's thread-local variable is, from the thread pointer:
// their block ends there.
func (x86) threadOffset(f *elfsym.File, variable uint64) int64 {
	align := max(f.TLSAlign(), 1)
	block := (f.TLSSize() + align - 1) / align * align
	return int64(variable) - int64(block)
}

// decodeIsolate decodes v8::Isolate::GetCurrent.
func decodeIsolate(f *elfsym.File) Slot {
	at, ok := f.Symbol(currentGetter)
	if !ok {
		return Slot{}
	}
	return decoderOf(f).threadVariable(f, at)
}

// threadVariable decodes each of the access models that compilers use: "mov rax, fs:offset"; "mov rax, [rip+got]" and "mov rax,
// fs:[rax]"; "lea rdi, [rip+index]", a call of __tls_get_addr and "mov rax,
// [rax+add]".
func (x86) threadVariable(f *elfsym.File, at elfsym.Symbol) Slot {
	var loaded, index uint64
	for inst, next := range instructions(f, jumpTarget(f, at)) {
		m, isMem := inst.Args[1].(x86asm.Mem)
		if inst.Op == x86asm.RET {
			break
		}
		if !isMem {
			continue
		}
		switch {
		case inst.Op == x86asm.LEA && inst.Args[0] == x86asm.RDI && m.Base == x86asm.RIP:
			index = next + uint64(m.Disp)
		case inst.Op != x86asm.MOV || inst.Args[0] != x86asm.RAX:
		case m.Segment == x86asm.FS && m.Base == 0 && m.Index == 0:
			return Slot{Offset: int64(int32(m.Disp))}
		case m.Segment == x86asm.FS && m.Base == x86asm.RAX:
			return Slot{GOT: loaded}
		case m.Base == x86asm.RIP:
			loaded = next + uint64(m.Disp)
		case m.Base == x86asm.RAX && index != 0:
			return Slot{Index: index, Add: m.Disp}
		}
	}
	return Slot{}
}

// jumpTarget returns the function that s merely jumps to, or else s.
func jumpTarget(f *elfsym.File, s elfsym.Symbol) elfsym.Symbol {
	for inst, next := range instructions(f, s) {
		if rel, ok := inst.Args[0].(x86asm.Rel); ok && inst.Op == x86asm.JMP {
			return elfsym.Symbol{Address: next + uint64(int64(rel))}
		}
		break
	}
	return s
}
