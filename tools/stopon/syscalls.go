package stopon

import (
	_ "embed"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"ustack/bpf"
)

//go:embed syscalls.tsv
var syscallTable string

// A systemCall is a row of the table.
type systemCall struct {
	name       string
	number     int
	parameters []parameter
}

type parameter struct {
	name string
	kind byte // of syscalls.tsv
}

// Kinds of parameters that are handled specially.
const (
	kindDescriptor = 'f'
	kindPath       = 's'
	kindSigned     = 'd'
	kindUnsigned   = 'u'
)

// syscalls returns this architecture's system calls by name.
var syscalls = sync.OnceValue(func() map[string]*systemCall {
	column := map[string]int{"amd64": 1, "arm64": 2}[runtime.GOARCH]
	all := make(map[string]*systemCall)
	for line := range strings.Lines(syscallTable) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(cells) < 4 || strings.HasPrefix(line, "#") {
			continue
		}
		number, err := strconv.Atoi(cells[column])
		if err != nil { // not on this architecture
			continue
		}
		s := &systemCall{name: cells[0], number: number}
		for _, p := range strings.Fields(cells[3]) {
			name, kind, _ := strings.Cut(p, ":")
			s.parameters = append(s.parameters, parameter{name, kind[0]})
		}
		all[s.name] = s
	}
	return all
})

// syscallOf returns the system call of that number; nil if the table has none.
func syscallOf(number uint32) *systemCall {
	for _, s := range syscalls() {
		if s.number == int(number) {
			return s
		}
	}
	return nil
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

// first returns the number of the first parameter of a kind; -1 if it has none.
func (s *systemCall) first(kind byte) int8 {
	return int8(slices.IndexFunc(s.parameters, func(p parameter) bool { return p.kind == kind }))
}

// written says how a system call passes what it writes, which is always
// argument 1.
var written = map[string]bpf.StoponDataKind{
	"write": bpf.StoponDataKindDATA_BUFFER, "pwrite64": bpf.StoponDataKindDATA_BUFFER,
	"sendto": bpf.StoponDataKindDATA_BUFFER,
	"writev": bpf.StoponDataKindDATA_VECTORS, "pwritev": bpf.StoponDataKindDATA_VECTORS,
	"pwritev2": bpf.StoponDataKindDATA_VECTORS,
	"sendmsg":  bpf.StoponDataKindDATA_MESSAGE,
}

// writing returns the names of the system calls that write.
func writing() []string {
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

// addresses are the system calls with a struct sockaddr: which argument it is,
// and how its length is given.
var addresses = map[string]struct {
	argument int8
	flags    bpf.StoponCallFlag
}{
	"bind":        {1, 0},
	"connect":     {1, 0},
	"sendto":      {4, 0},
	"accept":      {1, bpf.StoponCallFlagCALL_LENGTH_AT | bpf.StoponCallFlagCALL_ACCEPTS},
	"accept4":     {1, bpf.StoponCallFlagCALL_LENGTH_AT | bpf.StoponCallFlagCALL_ACCEPTS},
	"getsockname": {1, bpf.StoponCallFlagCALL_LENGTH_AT},
	"getpeername": {1, bpf.StoponCallFlagCALL_LENGTH_AT},
	"recvfrom":    {4, bpf.StoponCallFlagCALL_LENGTH_AT},
}

// row is what the kernel half gets to know about a system call.
func (s *systemCall) row() bpf.StoponSyscall {
	r := bpf.StoponSyscall{Descriptor: s.first(kindDescriptor), Path: s.first(kindPath), Data: -1}
	if kind, ok := written[s.name]; ok {
		r.Data, r.DataKind = 1, uint8(kind)
	}
	r.Address = -1
	if a, ok := addresses[s.name]; ok {
		r.Address, r.Flags = a.argument, uint8(a.flags)
	}
	if slices.Contains(polls, s.name) {
		r.Polls = 1
	}
	return r
}

// SyscallName returns the name of the system call of that number; empty if it is not known.
func SyscallName(number int) string {
	if s := syscallOf(uint32(number)); s != nil {
		return s.name
	}
	return ""
}
