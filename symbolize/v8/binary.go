// Package v8 knows how V8 lays out its frames, functions, scripts and strings in
// memory, and reads them. It takes what it can from the binary's own v8dbg_
// metadata; package release has the rest.
//
// It supports V8 9.4 (Node.js 16.20) and newer on x86-64 and arm64, as built for
// Node.js: without pointer compression and without the sandbox.
package v8

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"ustack/symbolize/elfsym"
	"ustack/symbolize/v8/disasm"
	"ustack/symbolize/v8/release"
)

// ErrNotV8 means that a file has none of the metadata that V8 provides for
// debuggers.
var ErrNotV8 = errors.New("no v8dbg_ symbols: no V8 here, or one built or stripped without them (use an official Node.js binary)")

// A Binary describes the V8 in a file, as far as the file says.
type Binary struct {
	Version       release.Version
	Release       *release.Release
	NodeVersion   string // as "v22.23.3"; empty if V8 has another embedder
	Layout        Layout
	FrameTypes    map[uint8]string // labels of typed frames: "entry", "construct", "builtin exit" …
	BytecodeSizes []byte           // by width of operands, see disasm.BytecodeSizes; nil: not found
	WasmState     uint64           // address in the file of the pointer to the state of WebAssembly; 0: not found

	// Missing lists the symbols that the file lacks, and what each absence rules
	// out.
	Missing []string

	machine              elf.Machine
	metadata             metadata
	kinds                map[uint16]string // V8's class names by instance type
	oddballs             map[int]string
	blobOffset, blobSize uint64
	guessed              bool // the builtins were found as code without unwind tables
	words                disasm.BlobWords
	offset               func(address uint64) (offset uint64, ok bool) // in the file
	isolate              disasm.Slot
	dispatch             disasm.Dispatch
}

// Symbols of V8 and of Node.js.
const (
	versionSymbol = "_ZN2v88internal7Version"
	blobPrefix    = "v8_Default_embedded_blob_"
	blobData      = blobPrefix + "code_data_" // up to V8 10
	blobCode      = blobPrefix + "code_"      // from V8 11 on; a pointer before
	blobSize      = blobPrefix + "code_size_"

	firstHandler = "Builtins_WideHandler" // of the interpreter: its bytecode is number 0
	frameBuilder = "Builtins_BaselineOutOfLinePrologue"
)

// Inspect reads what f says about the V8 in it. It returns ErrNotV8 if f has
// none, and a *release.UnknownVersionError if its layout is not known.
func Inspect(f *elfsym.File) (*Binary, error) {
	return inspectWith(f, release.For)
}

// InspectAs is like Inspect but assumes the layout of release r, whatever version
// f claims.
func InspectAs(f *elfsym.File, r *release.Release) (*Binary, error) {
	return inspectWith(f, func(release.Version) (*release.Release, error) { return r, nil })
}

func inspectWith(f *elfsym.File, releaseOf func(release.Version) (*release.Release, error)) (*Binary, error) {
	f.Know(append(slices.Clone(disasm.Names), metadataPrefix, versionSymbol, blobPrefix, firstHandler)...)
	m, err := readMetadata(f)
	if err != nil {
		return nil, fmt.Errorf("read V8's metadata: %w", err)
	}
	if len(m) == 0 {
		return nil, ErrNotV8
	}
	b := &Binary{machine: f.Machine(), metadata: m, FrameTypes: m.frameTypes(), offset: f.Offset}
	if b.Version, err = readVersion(f); err != nil {
		return nil, err
	}
	if b.Release, err = releaseOf(b.Version); err != nil {
		return nil, err
	}
	if b.Layout, err = derive(m, b.Release, b.machine); err != nil {
		return nil, fmt.Errorf("V8 %v: %w", b.Version, err)
	}
	b.kinds, b.oddballs = kindsOf(b), oddballsOf(m)
	b.NodeVersion = disasm.NodeVersion(f)
	b.findBuiltins(f)
	b.isolate = disasm.Isolate(f)
	b.findHeap(f)
	b.WasmState = disasm.WasmState(f)
	b.BytecodeSizes = disasm.BytecodeSizes(f)
	return b, nil
}

// Machine returns the architecture of the file's code.
func (b *Binary) Machine() elf.Machine { return b.machine }

// Builtins returns where the code of V8's builtins is in the file; size is 0 if
// the file does not say.
func (b *Binary) Builtins() (offset, size uint64) { return b.blobOffset, b.blobSize }

func (b *Binary) lacks(symbol, consequence string) {
	b.Missing = append(b.Missing, fmt.Sprintf("%s (%s)", symbol, consequence))
}

func readVersion(f *elfsym.File) (release.Version, error) {
	var v [4]int
	for i, part := range []string{"6major_E", "6minor_E", "6build_E", "6patch_E"} {
		n, err := readUint32(f, versionSymbol+part)
		if err != nil {
			return release.Version{}, fmt.Errorf("read V8's version: %w", err)
		}
		v[i] = int(n)
	}
	return release.Version{Major: v[0], Minor: v[1], Build: v[2], Patch: v[3]}, nil
}

// findBuiltins finds the builtins by their symbols, or else as the code that has
// no unwind tables.
func (b *Binary) findBuiltins(f *elfsym.File) {
	s, ok := f.Symbol(blobData)
	if !ok {
		s, ok = f.Symbol(blobCode)
	}
	length, err := readUint32(f, blobSize)
	address, size := s.Address, uint64(length)
	if !ok || err != nil {
		address, size = disasm.Uncovered(f)
		b.guessed, b.words = true, disasm.FindBlobWords(f)
	}
	offset, ok := f.Offset(address)
	if !ok || size == 0 {
		b.lacks(blobCode, "builtins look like native code, and interpreted functions are not found")
		return
	}
	b.blobOffset, b.blobSize = offset, size
	if s, ok := f.Symbol(firstHandler); ok && s.Address > address && s.Address < address+size {
		b.Layout.Handlers = uint32(s.Address - address)
	}
	builder := disasm.FindFrameBuilder(f, disasm.Builtins(f, b.blobOffset, b.blobSize))
	if builder.Start == 0 {
		b.lacks(frameBuilder, "a function whose frame is being built is missing from the stack")
	}
	b.Layout.Builder, b.Layout.BuilderSavesFP, b.Layout.BuilderReturnsTo = builder.Start, builder.SavesFP, builder.ReturnsTo
}

// findHeap finds the fields of the Isolate and the dispatch table: in the code of
// functions, or by the release if the file does not say which code that is.
// Collections are counted only if the state that shows one in progress is known
// too.
func (b *Binary) findHeap(f *elfsym.File) {
	l, r := &b.Layout, &b.Release.Isolate
	functions := disasm.FindFunctions(f)
	heap := functions.HeapOffset()
	count, entry := functions.GCCount(), functions.CEntryFP()
	if count == 0 && heap != 0 {
		count = heap + r.GCCount
	}
	if at := r.EntryFP.In(heap); entry == 0 && at != 0 && b.storesFP(f, at) {
		entry = at
	}
	if count <= r.GCState {
		b.lacks(disasm.GCPrologue, "no function is remembered: each sample costs more")
	}
	if entry == 0 {
		b.lacks(disasm.CallsC, "no function is remembered, and JavaScript below a library without frame pointers is not found")
	} else {
		l.CEntryFP, l.VMState = entry, entry+r.VMState
	}
	if count > r.GCState && entry != 0 {
		l.GCCount, l.GCState = count, count-r.GCState
	}
	if l.DispatchHandle == 0 {
		return
	}
	d, ok := functions.DispatchTable()
	if !ok {
		d.Isolate = r.DispatchTable.In(heap)
	}
	if d == (disasm.Dispatch{}) {
		b.lacks(disasm.TableAddress, "the tier of JavaScript frames is not known")
	}
	b.dispatch = d
	l.DispatchTable = d.Isolate
}

// storesFP reports whether V8's builtins store the frame pointer at an offset in
// the Isolate.
func (b *Binary) storesFP(f *elfsym.File, offset uint32) bool {
	return disasm.StoresFP(f, disasm.Builtins(f, b.blobOffset, b.blobSize), offset)
}

// DispatchBase returns the address of the dispatch table's first entry if one
// table serves the whole process, and 0 if V8 has none or each isolate has its
// own (Layout.DispatchTable). mem and bias are as for TLSIsolate.
func (b *Binary) DispatchBase(mem Memory, bias uint64) (uint64, error) {
	if b.dispatch.Group == 0 {
		return 0, nil
	}
	group, err := ReadWord(mem, b.dispatch.Group+bias)
	if err != nil {
		return 0, fmt.Errorf("read the isolate group: %w", err)
	}
	if group == 0 { // V8 has not started yet
		return 0, nil
	}
	base, err := ReadWord(mem, group+uint64(b.dispatch.Offset))
	if err != nil {
		return 0, fmt.Errorf("read the dispatch table's address: %w", err)
	}
	return base, nil
}

// CheckBuiltins checks the location of the builtins, for which the file has no
// symbol, against a running V8. Before V8 has started there is nothing to check.
// mem and bias are as for TLSIsolate.
func (b *Binary) CheckBuiltins(mem Memory, bias uint64) error {
	if !b.guessed || b.words.Code == 0 || b.words.Size == 0 {
		return nil
	}
	start, err := ReadWord(mem, b.words.Code+bias)
	if err != nil {
		return fmt.Errorf("read where V8's builtins are: %w", err)
	}
	size, err := ReadWord(mem, b.words.Size+bias)
	if err != nil {
		return fmt.Errorf("read the size of V8's builtins: %w", err)
	}
	size = uint64(uint32(size))
	if start == 0 {
		return nil
	}
	offset, ok := b.offset(start - bias)
	if !ok || size == 0 || size > disasm.MaxBuiltins || offset < b.blobOffset || offset+size > b.blobOffset+b.blobSize {
		return fmt.Errorf("V8's builtins are at %#x (%d bytes), which is not the part of the file without unwind tables", start, size)
	}
	if b.Layout.Builder != 0 {
		b.Layout.Builder -= uint32(offset - b.blobOffset)
	}
	b.blobOffset, b.blobSize, b.guessed = offset, size, false
	return nil
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
