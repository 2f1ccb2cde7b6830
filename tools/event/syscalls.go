package event

import (
	_ "embed"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ustack/bpf"
)

//go:embed syscalls.tsv
var syscallTable string

// A Syscall is a system call of this architecture.
type Syscall struct {
	Name       string
	Number     int
	Parameters []Parameter
}

// A Parameter of a system call.
type Parameter struct {
	Name string
	Kind byte // of syscalls.tsv
}

// Kinds of parameters that are handled specially.
const (
	KindDescriptor = 'f'
	KindPath       = 's'
	kindInt        = 'd'
	kindLong       = 'l'
	kindUnsigned   = 'u'
	kindSize       = 'z'
	kindPointer    = 'p'
)

// value returns the argument that is in a register, which may have more bits than the parameter's
// type, and whether it is an int64.
func (p Parameter) value(register uint64) (value uint64, signed bool) {
	switch p.Kind {
	case KindDescriptor, kindInt:
		return uint64(int32(register)), true
	case kindLong:
		return register, true
	case kindUnsigned:
		return uint64(uint32(register)), false
	}
	return register, false
}

// syscalls returns this architecture's system calls by name.
var syscalls = sync.OnceValue(func() map[string]*Syscall {
	column := map[string]int{"amd64": 1, "arm64": 2}[runtime.GOARCH]
	all := make(map[string]*Syscall)
	for line := range strings.Lines(syscallTable) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) < 4 || strings.HasPrefix(line, "#") {
			continue
		}
		number, err := strconv.Atoi(cells[column])
		if err != nil { // not on this architecture
			continue
		}
		s := &Syscall{Name: cells[0], Number: number}
		for _, p := range strings.Fields(cells[3]) {
			name, kind, _ := strings.Cut(p, ":")
			s.Parameters = append(s.Parameters, Parameter{name, kind[0]})
		}
		all[s.Name] = s
	}
	return all
})

// SyscallNamed returns the system call of that name, or nil.
func SyscallNamed(name string) *Syscall { return syscalls()[name] }

// syscallsByNumber returns this architecture's system calls by number.
var syscallsByNumber = sync.OnceValue(func() map[uint32]*Syscall {
	all := make(map[uint32]*Syscall)
	for _, s := range syscalls() {
		all[uint32(s.Number)] = s
	}
	return all
})

// SyscallOf returns the system call of that number. One that the table does not have is named
// after its number, and has no known parameters.
func SyscallOf(number uint32) *Syscall {
	if s := syscallsByNumber()[number]; s != nil {
		return s
	}
	return &Syscall{Name: fmt.Sprintf("syscall_%d", number), Number: int(number)}
}

// SyscallName returns the name of the system call of that number; empty if it is not known.
func SyscallName(number int) string {
	if s := syscallsByNumber()[uint32(number)]; s != nil {
		return s.Name
	}
	return ""
}

// Syscalls returns the names of all system calls, in order.
func Syscalls() []string {
	var names []string
	for name := range syscalls() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// First returns the number of the first parameter of a kind; -1 if it has none.
func (s *Syscall) First(kind byte) int {
	return slices.IndexFunc(s.Parameters, func(p Parameter) bool { return p.Kind == kind })
}

// written says how a system call passes what it writes, which is always
// argument 1.
var written = map[string]bpf.TraceDataKind{
	"write": bpf.TraceDataKindDATA_BUFFER, "pwrite64": bpf.TraceDataKindDATA_BUFFER,
	"sendto": bpf.TraceDataKindDATA_BUFFER,
	"writev": bpf.TraceDataKindDATA_VECTORS, "pwritev": bpf.TraceDataKindDATA_VECTORS,
	"pwritev2": bpf.TraceDataKindDATA_VECTORS,
	"sendmsg":  bpf.TraceDataKindDATA_MESSAGE,
}

// filled says how a system call passes where it puts what it reads, which is always
// argument 1.
var filled = map[string]bpf.TraceDataKind{
	"read": bpf.TraceDataKindDATA_BUFFER, "pread64": bpf.TraceDataKindDATA_BUFFER,
	"recvfrom": bpf.TraceDataKindDATA_BUFFER,
	"readv":    bpf.TraceDataKindDATA_VECTORS, "preadv": bpf.TraceDataKindDATA_VECTORS,
	"preadv2": bpf.TraceDataKindDATA_VECTORS,
	"recvmsg": bpf.TraceDataKindDATA_MESSAGE,
}

// dataArgument is the number of the argument that says where the data of calls that read or
// write is.
const dataArgument = 1

// Writing returns the names of the system calls that write.
func Writing() []string {
	var names []string
	for name := range written {
		if _, ok := syscalls()[name]; ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// polls are the system calls that an event loop waits in (libuv's src/unix/linux.c).
var polls = []string{"epoll_wait", "epoll_pwait", "epoll_pwait2"}

// mayNotReturn are the system calls that end the thread, replace the registers that made them, or
// replace the program.
var mayNotReturn = []string{"exit", "exit_group", "rt_sigreturn", "execve", "execveat"}

// An Address is the struct sockaddr of a system call.
type Address struct {
	Argument int // its number; the next one is the length
	flags    bpf.TraceCallFlag
}

// Accepts reports whether the call's result is the descriptor of a new socket.
func (a Address) Accepts() bool { return a.flags&bpf.TraceCallFlagCALL_ACCEPTS != 0 }

// Address returns where the call has the struct sockaddr, if it has one.
func (s *Syscall) Address() (a Address, ok bool) {
	a, ok = addresses[s.Name]
	return a, ok
}

// addresses are the system calls with a struct sockaddr.
var addresses = map[string]Address{
	"bind":        {1, 0},
	"connect":     {1, 0},
	"sendto":      {4, 0},
	"accept":      {1, bpf.TraceCallFlagCALL_LENGTH_AT | bpf.TraceCallFlagCALL_ACCEPTS},
	"accept4":     {1, bpf.TraceCallFlagCALL_LENGTH_AT | bpf.TraceCallFlagCALL_ACCEPTS},
	"getsockname": {1, bpf.TraceCallFlagCALL_LENGTH_AT},
	"getpeername": {1, bpf.TraceCallFlagCALL_LENGTH_AT},
	"recvfrom":    {4, bpf.TraceCallFlagCALL_LENGTH_AT},
}

// row is what the kernel half gets to know about a system call.
func (s *Syscall) row() bpf.TraceSyscall {
	r := bpf.TraceSyscall{Descriptor: int8(s.First(KindDescriptor)), Path: int8(s.First(KindPath)), Data: -1, Address: -1}
	if kind, ok := written[s.Name]; ok {
		r.Data, r.DataKind = dataArgument, uint8(kind)
	}
	if a, ok := s.Address(); ok {
		r.Address, r.Flags = int8(a.Argument), uint8(a.flags)
	}
	if slices.Contains(polls, s.Name) {
		r.Polls = 1
	}
	if slices.Contains(mayNotReturn, s.Name) {
		r.Flags |= uint8(bpf.TraceCallFlagCALL_MAY_NOT_RETURN)
	}
	return r
}

// maxSyscalls is how many numbers of system calls the kernel half knows.
const maxSyscalls = int(bpf.TraceHitLimitMAX_SYSCALLS)

// Rows returns what the kernel half gets to know about all system calls (bpf/hit.h), with the
// numbers of those that are wanted, by name: from 1, and up to 255.
func Rows(wanted map[string]uint8) (rows [maxSyscalls]bpf.TraceSyscall) {
	for i := range rows {
		rows[i] = bpf.TraceSyscall{Descriptor: -1, Path: -1, Data: -1, Address: -1}
	}
	for _, s := range syscalls() {
		if s.Number < maxSyscalls {
			rows[s.Number] = s.row()
			rows[s.Number].Wanted = wanted[s.Name]
		}
	}
	return rows
}

// RowsOfData is Rows, but the calls that read have what they read as data, too.
func RowsOfData(wanted map[string]uint8) (rows [maxSyscalls]bpf.TraceSyscall) {
	rows = Rows(wanted)
	for name, kind := range filled {
		if s := syscalls()[name]; s != nil {
			rows[s.Number].Data, rows[s.Number].DataKind = dataArgument, uint8(kind)
		}
	}
	return rows
}
