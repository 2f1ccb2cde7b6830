package v8

// Memory is the address space that V8's objects are read from: a live process, a
// core file, or bytes of a test.
type Memory interface {
	// ReadAt reads len(p) bytes at the address addr. It returns how many it
	// read, and an error unless that is all of them.
	ReadAt(p []byte, addr uint64) (int, error)
}
