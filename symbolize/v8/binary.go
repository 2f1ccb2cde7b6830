package v8

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"ustack/symbolize/elfsym"
)

// ErrNotV8 says that a file has none of the metadata that V8 leaves for debuggers.
var ErrNotV8 = errors.New("no v8dbg_ symbols: no V8 here, or one built or stripped without them (use an official Node.js binary)")

// An UnknownVersionError says that the layout of this V8 was never measured:
// what it keeps where would be guessed, and names read by it invented.
type UnknownVersionError struct{ Version Version }

func (e *UnknownVersionError) Error() string {
	return fmt.Sprintf("V8 %v has a layout not known here (known: Node.js 16.20, 18, 20, 22, 24, 25 and 26)", e.Version)
}

// A Binary is what a file with V8 inside says about it.
type Binary struct {
	Version     Version
	NodeVersion string // as "v22.23.3"; empty if V8 has another embedder
	Layout      Layout
	FrameTypes  map[uint8]string // labels of typed frames: "entry", "construct", "builtin exit" …

	// Missing has the symbols that the file lacks, with what cannot be done for it.
	Missing []string

	metadata             metadata
	blobOffset, blobSize uint64
	isolate              slot
	dispatch             dispatch
}

// Symbols of V8's and of Node.js's.
const (
	versionSymbol  = "_ZN2v88internal7Version"
	blobData       = "v8_Default_embedded_blob_code_data_" // up to V8 10
	blobCode       = "v8_Default_embedded_blob_code_"      // from V8 11 on; a pointer before
	blobSize       = "v8_Default_embedded_blob_code_size_"
	isolateKey     = "_ZN2v88internal7Isolate12isolate_key_E"
	currentIsolate = "_ZN2v88internal18g_current_isolate_E"
)

// Inspect reads what f says about the V8 in it. It returns ErrNotV8 if there is
// none, and an *UnknownVersionError if its layout is not known.
func Inspect(f *elfsym.File) (*Binary, error) {
	m, err := readMetadata(f)
	if err != nil {
		return nil, fmt.Errorf("read V8's metadata: %w", err)
	}
	if len(m) == 0 {
		return nil, ErrNotV8
	}
	b := &Binary{metadata: m, FrameTypes: m.frameTypes()}
	if b.Version, err = readVersion(f); err != nil {
		return nil, err
	}
	r, ok := rowOf(b.Version)
	if !ok {
		return nil, &UnknownVersionError{b.Version}
	}
	if b.Layout, err = derive(m, r); err != nil {
		return nil, fmt.Errorf("V8 %v: %w", b.Version, err)
	}
	b.NodeVersion = nodeVersion(f)
	b.findBuiltins(f)
	b.isolate = findIsolate(f)
	b.findHeap(f, r)
	return b, nil
}

// Builtins returns where in the file the code of V8's builtins is; size is 0
// where the file does not say.
func (b *Binary) Builtins() (offset, size uint64) { return b.blobOffset, b.blobSize }

func (b *Binary) lacks(symbol, consequence string) {
	b.Missing = append(b.Missing, fmt.Sprintf("%s (%s)", symbol, consequence))
}

func readVersion(f *elfsym.File) (Version, error) {
	var v Version
	for _, part := range []struct {
		name string
		dst  *int
	}{{"6major_E", &v.Major}, {"6minor_E", &v.Minor}, {"6build_E", &v.Build}, {"6patch_E", &v.Patch}} {
		n, err := readUint32(f, versionSymbol+part.name)
		if err != nil {
			return Version{}, fmt.Errorf("read V8's version: %w", err)
		}
		*part.dst = int(n)
	}
	return v, nil
}

func (b *Binary) findBuiltins(f *elfsym.File) {
	s, ok := f.Symbol(blobData)
	if !ok {
		s, ok = f.Symbol(blobCode)
	}
	size, err := readUint32(f, blobSize)
	if !ok || err != nil {
		b.lacks(blobCode, "builtins look like native code, and interpreted functions are not found")
		return
	}
	if offset, ok := f.Offset(s.Address); ok {
		b.blobOffset, b.blobSize = offset, uint64(size)
	}
}

// readUint32 reads the variable name from the file.
func readUint32(f *elfsym.File, name string) (uint32, error) {
	s, ok := f.Symbol(name)
	if !ok {
		return 0, fmt.Errorf("no symbol %s", name)
	}
	var b [4]byte
	if _, err := f.ReadAt(b[:], s.Address); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return binary.LittleEndian.Uint32(b[:]), nil
}

// A slot is where each thread keeps its current isolate.
type slot struct {
	offset int64  // from the thread pointer; 0: not known before the process runs
	key    uint64 // address of the pthread key; 0: none
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
		return slot{}
	}
	align := max(f.TLSAlign(), 1)
	block := (f.TLSSize() + align - 1) / align * align
	return slot{offset: int64(s.Address) - int64(block)}
}

// TLSIsolate returns where, from a thread's thread pointer (fs_base), the
// thread's current Isolate is, 0 where that is not known: in a shared library
// or with a C library other than glibc the isolate is still in r13, less 0x80,
// while V8's code runs. mem is the process, bias what its V8 is loaded above
// the addresses in the file.
func (b *Binary) TLSIsolate(mem Memory, bias uint64) (int64, error) {
	if b.isolate.key == 0 {
		return b.isolate.offset, nil
	}
	var word [4]byte
	if _, err := mem.ReadAt(word[:], b.isolate.key+bias); err != nil {
		return 0, fmt.Errorf("read the isolate's pthread key: %w", err)
	}
	key := binary.LittleEndian.Uint32(word[:])
	if key > maxFirstKey {
		return 0, nil
	}
	return firstKeys + keySize*int64(key) + keyValue, nil
}
