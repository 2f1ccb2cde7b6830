package v8

// Memory is the address space that V8's objects are read from: a live process, a
// core file, or bytes of a test.
type Memory interface {
	// ReadAt reads len(p) bytes at the address addr. It returns the number of
	// bytes read, and an error if that is less than len(p).
	ReadAt(p []byte, addr uint64) (int, error)
}
