package v8

import "encoding/binary"

// Memory is the address space that V8's objects are read from: a live process, a
// core file, or bytes of a test.
type Memory interface {
	// ReadAt reads len(p) bytes at the address addr. It returns the number of
	// bytes read, and an error if that is less than len(p).
	ReadAt(p []byte, addr uint64) (int, error)
}

// ReadWord reads the word at an address.
func ReadWord(mem Memory, addr uint64) (uint64, error) {
	var b [wordSize]byte
	if _, err := mem.ReadAt(b[:], addr); err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

// ReadWords fills words from memory at an address.
func ReadWords(mem Memory, addr uint64, words []uint64) error {
	if len(words) == 0 {
		return nil
	}
	b := make([]byte, len(words)*wordSize)
	if _, err := mem.ReadAt(b, addr); err != nil {
		return err
	}
	for i := range words {
		words[i] = binary.LittleEndian.Uint64(b[i*wordSize:])
	}
	return nil
}
