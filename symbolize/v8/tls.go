package v8

import (
	"debug/elf"
	"encoding/binary"
	"fmt"
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

// glibc's struct pthread: the values of the first 32 keys, 16 bytes each, with
// the value in the second word.
const (
	keySize     = 16
	keyValue    = 8
	maxFirstKey = 31
)

// firstKeys is where they are from the thread pointer: at the same offset of struct pthread in
// all versions on x86-64, and, on arm64, in struct pthread of glibc 2.34 and newer, which ends
// at the thread pointer.
var firstKeys = map[elf.Machine]int64{elf.EM_X86_64: 0x310, elf.EM_AARCH64: -0x630}

// TLSIsolate returns where threads keep their current Isolate. It returns the
// zero TLS if that is not known, as with a C library other than glibc; V8's root register
// still says what the isolate is while V8's code runs. mem is the process, bias the
// difference between V8's loaded addresses and those in the file.
func (b *Binary) TLSIsolate(mem Memory, bias uint64) (TLS, error) {
	s := b.isolate
	switch {
	case s.Key != 0:
		return keyed(mem, s.Key+bias, firstKeys[b.machine])
	case s.GOT != 0:
		offset, err := ReadWord(mem, s.GOT+bias)
		if err != nil {
			return TLS{}, fmt.Errorf("read the isolate's place among thread-local variables: %w", err)
		}
		return TLS{Offset: int64(offset)}, nil
	case s.Index != 0:
		module, err := ReadWord(mem, s.Index+bias)
		if err != nil {
			return TLS{}, fmt.Errorf("read the isolate's place among thread-local variables: %w", err)
		}
		offset, err := ReadWord(mem, s.Index+8+bias)
		if err != nil || module == 0 || module > maxModules {
			return TLS{}, err
		}
		return TLS{Module: module, Offset: int64(offset) + s.Add}, nil
	}
	return TLS{Offset: s.Offset}, nil
}

// keyed returns where glibc keeps the value of the pthread key at address.
func keyed(mem Memory, address uint64, first int64) (TLS, error) {
	var word [4]byte
	if _, err := mem.ReadAt(word[:], address); err != nil {
		return TLS{}, fmt.Errorf("read the isolate's pthread key: %w", err)
	}
	key := binary.LittleEndian.Uint32(word[:])
	if key > maxFirstKey {
		return TLS{}, nil
	}
	return TLS{Offset: first + keySize*int64(key) + keyValue}, nil
}
