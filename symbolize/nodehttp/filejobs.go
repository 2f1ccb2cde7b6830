package nodehttp

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/arch/x86/x86asm"
)

// FileJobs are where node's jobs that read or write a whole file (src/node_file.cc: ReadFileJob and
// WriteFileJob, since Node.js 26) keep what they do, in bytes from their ThreadPoolWork.
type FileJobs struct {
	Path                  uint64 // the address of the file's path
	ReadError, WriteError uint64 // libuv's number of the error, of 4 bytes; 0 if it succeeded
}

const (
	readFile  = "N4node2fs11ReadFileJob16DoThreadPoolWorkEv"
	writeFile = "N4node2fs12WriteFileJob16DoThreadPoolWorkEv"
	fileOpen  = "uv_fs_open"
)

// FindFileJobs returns where b's node keeps what its jobs on whole files do. It returns false if it
// has no such jobs, or is not built as expected.
func FindFileJobs(b Binary) (j FileJobs, ok bool) {
	if b.Machine() != elf.EM_X86_64 {
		return j, false
	}
	var path uint64
	if j.Path, j.ReadError, ok = fileJob(b, readFile); !ok {
		return FileJobs{}, false
	}
	if path, j.WriteError, ok = fileJob(b, writeFile); !ok || path != j.Path {
		return FileJobs{}, false
	}
	return j, true
}

// fileJob returns what the job's function, which a pool's thread calls, says of one of the two.
func fileJob(b Binary, function string) (path, failure uint64, ok bool) {
	code, _ := b.Code("_Z" + function)
	address, _ := b.Address("_Z" + function)
	open, ok := b.Address(fileOpen)
	after := baseOf(b, function)
	if code == nil || !ok || after == 0 {
		return 0, 0, false
	}
	path, failure = pathAndError(code, address, open)
	if path <= after || failure <= path {
		return 0, 0, false
	}
	return path - after, failure - after, true
}

// baseOf returns how far after its object's beginning the base is whose callers call the function's
// thunk; 0 if there is no thunk.
func baseOf(b Binary, function string) (after uint64) {
	for s := range b.Symbols(thunk) {
		if !strings.HasSuffix(s.Name, "_"+function) {
			continue
		}
		if n, _ := fmt.Sscanf(s.Name, thunk+"%d_", &after); n == 1 {
			return after
		}
	}
	return 0
}

// pathAndError follows the beginning of a job, which opens its file: the path is the third argument of
// that. A job that fails has the name of what failed, a word, beside the error; the one that is there
// wherever a name is stored is returned. Both are 0 if that is not so.
func pathAndError(code []byte, address, open uint64) (path, failure uint64) {
	var names, errors []uint64
	calls := 0
	for at, inst := range instructions(code) {
		from, isLoad := inst.Args[1].(x86asm.Mem)
		to, isStore := inst.Args[0].(x86asm.Mem)
		isField := isStore && to.Base != x86asm.RSP && to.Base != x86asm.RBP && to.Base != x86asm.RIP && to.Index == 0 && to.Disp > 0
		_, isNumber := inst.Args[1].(x86asm.Imm)
		_, isRegister := inst.Args[1].(x86asm.Reg)
		switch {
		case inst.Op == x86asm.CALL:
			if calls++; calls == 1 && target(inst, address+uint64(at)) != open {
				return 0, 0
			}
		case inst.Op != x86asm.MOV:
		case calls == 0 && isLoad && inst.Args[0] == x86asm.RDX && from.Base == x86asm.RDI && from.Index == 0 && from.Disp > 0:
			path = uint64(from.Disp)
		case isField && inst.MemBytes == 8 && isNumber:
			names = append(names, uint64(to.Disp))
		case isField && inst.MemBytes == 4 && isRegister:
			errors = append(errors, uint64(to.Disp))
		}
	}
	for _, name := range names {
		for _, beside := range []uint64{name - 4, name + 8} {
			if !slices.Contains(errors, beside) || beside == failure {
				continue
			}
			if failure != 0 {
				return 0, 0
			}
			failure = beside
		}
	}
	return path, failure
}
