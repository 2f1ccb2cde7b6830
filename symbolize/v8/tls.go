package v8

import (
	"debug/elf"
	"encoding/binary"
	"fmt"

	"golang.org/x/arch/x86/x86asm"

	"ustack/symbolize/elfsym"
)

// A TLS says where each thread keeps its current Isolate. The zero TLS means that
// this is not known.
type TLS struct {
	Offset int64  // from the thread pointer, or from the start of Module's block
	Module uint64 // module ID of a library whose thread-local variables are in a separate block; 0: none
}

// Known reports whether the location is known.
func (t TLS) Known() bool { return t != TLS{} }

// The thread pointer's second word is the dynamic thread vector (System V ABI:
// "ELF Handling For Thread-Local Storage", 3.4.6). glibc's entries have two words,
// of which the first is the block's address.
const (
	vectorAt   = 8
	vectorSize = 16
	maxModules = 1 << 12 // libraries with thread-local variables
)

// Isolate returns the isolate of the thread with that thread pointer, 0 if it has
// none.
func (t TLS) Isolate(mem Memory, threadPointer uint64) (uint64, error) {
	block := threadPointer
	if t.Module != 0 {
		vector, err := ReadWord(mem, threadPointer+vectorAt)
		if err != nil {
			return 0, err
		}
		if block, err = ReadWord(mem, vector+t.Module*vectorSize); err != nil {
			return 0, err
		}
	}
	return ReadWord(mem, block+uint64(t.Offset))
}

// A slot is what a file says about where threads keep their current isolate.
type slot struct {
	offset int64  // from the thread pointer; 0: not known before the process runs
	key    uint64 // address of the pthread key; 0: none
	got    uint64 // address of the variable that holds the offset; 0: none
	index  uint64 // address of the pair of module ID and offset in its block; 0: none
	add    int64  // to be added to that offset
}

// glibc's struct pthread: the values of the first 32 keys, 16 bytes each, with
// the value in the second word.
const (
	firstKeys   = 0x310
	keySize     = 16
	keyValue    = 8
	maxFirstKey = 31
)

func findIsolate(f *elfsym.File) slot {
	if s, ok := f.Symbol(isolateKey); ok {
		return slot{key: s.Address}
	}
	s, ok := f.Symbol(currentIsolate)
	if !ok || s.Type != elf.STT_TLS || f.Type() != elf.ET_EXEC {
		return decodeIsolate(f)
	}
	align := max(f.TLSAlign(), 1)
	block := (f.TLSSize() + align - 1) / align * align
	return slot{offset: int64(s.Address) - int64(block)}
}

// decodeIsolate decodes v8::Isolate::GetCurrent, in each of the access models
// that compilers use: "mov rax, fs:offset"; "mov rax, [rip+got]" and "mov rax,
// fs:[rax]"; "lea rdi, [rip+index]", a call of __tls_get_addr and "mov rax,
// [rax+add]".
func decodeIsolate(f *elfsym.File) slot {
	at, ok := f.Symbol(currentGetter)
	if !ok {
		return slot{}
	}
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
			return slot{offset: int64(int32(m.Disp))}
		case m.Segment == x86asm.FS && m.Base == x86asm.RAX:
			return slot{got: loaded}
		case m.Base == x86asm.RIP:
			loaded = next + uint64(m.Disp)
		case m.Base == x86asm.RAX && index != 0:
			return slot{index: index, add: m.Disp}
		}
	}
	return slot{}
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

// TLSIsolate returns where threads keep their current Isolate. It returns the
// zero TLS if that is not known, as with a C library other than glibc; r13 minus
// 0x80 is still the isolate while V8's code runs. mem is the process, bias the
// difference between V8's loaded addresses and those in the file.
func (b *Binary) TLSIsolate(mem Memory, bias uint64) (TLS, error) {
	s := b.isolate
	switch {
	case s.key != 0:
		return keyed(mem, s.key+bias)
	case s.got != 0:
		offset, err := ReadWord(mem, s.got+bias)
		if err != nil {
			return TLS{}, fmt.Errorf("read the isolate's place among thread-local variables: %w", err)
		}
		return TLS{Offset: int64(offset)}, nil
	case s.index != 0:
		module, err := ReadWord(mem, s.index+bias)
		if err != nil {
			return TLS{}, fmt.Errorf("read the isolate's place among thread-local variables: %w", err)
		}
		offset, err := ReadWord(mem, s.index+8+bias)
		if err != nil || module == 0 || module > maxModules {
			return TLS{}, err
		}
		return TLS{Module: module, Offset: int64(offset) + s.add}, nil
	}
	return TLS{Offset: s.offset}, nil
}

// keyed returns where glibc keeps the value of the pthread key at address.
func keyed(mem Memory, address uint64) (TLS, error) {
	var word [4]byte
	if _, err := mem.ReadAt(word[:], address); err != nil {
		return TLS{}, fmt.Errorf("read the isolate's pthread key: %w", err)
	}
	key := binary.LittleEndian.Uint32(word[:])
	if key > maxFirstKey {
		return TLS{}, nil
	}
	return TLS{Offset: firstKeys + keySize*int64(key) + keyValue}, nil
}
