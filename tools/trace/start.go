package trace

import (
	"bytes"
	endian "encoding/binary"
	"slices"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/symbolize/elfsym"
)

// Where stacks begin.
const (
	programStart = "_start"       // the program's entry point, in its own file
	threadStart  = "start_thread" // glibc's function in which all other threads begin
)

// mainCallers are the glibc functions that call a program's main function on behalf of
// _start: 2.34 and newer use the first, older versions the second. All are built
// without frame pointers, so their callers are not on stacks.
var mainCallers = []string{"__libc_start_call_main", "__libc_start_main", "__libc_start_main_impl"}

// nameStart names the outermost frame of the stack with those words. It recognizes the
// C library's functions that start programs and threads by what they do: they have no
// names in stripped libraries, and all C libraries are stripped. It reports whether the
// stack ends where its thread began, and leaves out the function that calls start_thread.
func (g *target) nameStart(words []uint64, frames []symbolize.Frame) ([]symbolize.Frame, bool) {
	const most = 2 // start_thread and its caller
	for back := 1; back <= min(most, len(frames), len(words)); back++ {
		f := &frames[len(frames)-back]
		start := g.starts(words[len(words)-back], *f)
		switch {
		case start == programStart && back == 1: // its caller is not on the stack
			*f = symbolize.Frame{Name: programStart, Module: g.exe}
			return frames, true
		case start == threadStart:
			*f = symbolize.Frame{Name: threadStart, Module: f.Module}
			return frames[:len(frames)-back+1], true
		}
	}
	return frames, false
}

// starts returns programStart for a frame of the C library function that calls main,
// threadStart for one of the function that runs a thread, "" for any other.
func (g *target) starts(word uint64, f symbolize.Frame) string {
	if kindOf(word) != bpf.TraceFrameKindFRAME_NATIVE || !isLibc(f) {
		return ""
	}
	switch {
	case slices.Contains(mainCallers, f.Name):
		return programStart
	case f.Name == threadStart:
		return threadStart
	}
	pc := word & pcMask
	m := g.find(pc)
	if f.Name != "" || m == nil || m.binary == nil || m.binary.elf == nil {
		return ""
	}
	address, ok := m.binary.elf.Address(pc - m.Start + m.Offset)
	switch {
	case ok && callsExit(m.binary.elf, address):
		return programStart
	case ok && keepsResult(m.binary.elf, address):
		return threadStart
	}
	return ""
}

// callsExit reports whether the code at address passes the result of the preceding
// call to exit, as exit(main(argc, argv, environ)) is compiled: mov %eax,%edi;
// call exit.
func callsExit(f *elfsym.File, address uint64) bool {
	const size = 7
	code := readCode(f, address, size)
	exit, ok := f.Symbol("exit")
	return ok && bytes.HasPrefix(code, []byte{0x89, 0xc7, 0xe8}) && jump(address+size, code[3:]) == exit.Address
}

// keepsResult reports whether the code at address, or the code it jumps to, stores the
// result of the preceding call in the thread's descriptor, as start_thread does:
// mov %rax,%fs:…
func keepsResult(f *elfsym.File, address uint64) bool {
	const size = 5
	code := readCode(f, address, size)
	if bytes.HasPrefix(code, []byte{0xe9}) { // jmp
		code = readCode(f, jump(address+size, code[1:]), size)
	}
	return bytes.Equal(code, []byte{0x64, 0x48, 0x89, 0x04, 0x25})
}

// readCode returns size bytes of code; nil if they cannot be read.
func readCode(f *elfsym.File, address uint64, size int) []byte {
	code := make([]byte, size)
	if n, err := f.ReadAt(code, address); err != nil || n < size {
		return nil
	}
	return code
}

// jump returns the target of a jump whose operand is relative to next.
func jump(next uint64, operand []byte) uint64 {
	return next + uint64(int64(int32(endian.LittleEndian.Uint32(operand))))
}
