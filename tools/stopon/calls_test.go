package stopon

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/loader"
	"ustack/testdata/nodetest"
	"ustack/tools/event"
)

// runsInFunctions reports whether the kernel lets programs be run in its functions
// and has them miss nothing there.
func runsInFunctions(t testing.TB) bool {
	t.Helper()
	if loader.Preempts() {
		return false
	}
	o := Options{Syscalls: []string{"close"}}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit, AttachTo: o.kernelFunctions()[0], License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()},
	})
	if err != nil {
		return false
	}
	defer p.Close()
	l, err := loader.Trace(p)
	if err != nil {
		return false
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	return true
}

// TestCallsAreSeenInOneWay opens sessions and checks where their programs are:
// in functions wherever possible, and never both there and at the tracepoints.
func TestCallsAreSeenInOneWay(t *testing.T) {
	nodetest.Root(t)
	can := runsInFunctions(t)
	t.Logf("programs can see all in the kernel's functions: %v", can)
	for _, test := range []struct {
		name      string
		options   Options
		functions int // programs in them, if that can be
	}{
		{"one", Options{Syscalls: []string{"close"}}, 1},
		{"two that are slow", Options{Syscalls: []string{"close", "fsync"}, Slower: time.Second}, 4},
		{"a function that is not there", Options{Syscalls: []string{"close", "vserver"}}, 0},
		{"a stall beside", Options{Syscalls: []string{"close"}, Stall: time.Second}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			o, err := test.options.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			s, err := open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			want := test.functions
			if !can {
				want = 0
			}
			if got := len(s.Others); !s.repeated && got != want {
				t.Errorf("programs in functions = %d, want %d", got, want)
			}
			if got, want := s.needed["on_system_call_end"], want == 0; got != want {
				t.Errorf("a program is at sys_exit: %v, want %v", got, want)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCallsAreSeenByTheirNames has this process make calls that fail, also such as
// have functions of other names in the kernel.
func TestCallsAreSeenByTheirNames(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	const noFile = 9999
	o := Options{Errnos: []unix.Errno{unix.EBADF, unix.EFAULT}}
	var calls []func()
	var want []string
	for _, call := range []struct {
		name      string
		arguments [4]uintptr
		errno     string
	}{
		{"close", [4]uintptr{noFile}, "EBADF"},
		{"stat", [4]uintptr{}, "EFAULT"},
		{"fstat", [4]uintptr{noFile}, "EBADF"},
		{"lstat", [4]uintptr{}, "EFAULT"},
		{"uname", [4]uintptr{}, "EFAULT"},
		{"sendfile", [4]uintptr{noFile, noFile, 0, 1}, "EBADF"},
		{"umount2", [4]uintptr{}, "EFAULT"},
	} {
		known := event.SyscallNamed(call.name)
		if known == nil { // on this architecture
			continue
		}
		o.Syscalls = append(o.Syscalls, call.name)
		a := call.arguments
		calls = append(calls, func() { _, _, _ = unix.Syscall6(uintptr(known.Number), a[0], a[1], a[2], a[3], 0, 0) })
		want = append(want, call.name+" "+call.errno)
	}
	r := watchOurselves(t, o)
	for _, call := range calls {
		call()
	}
	var got []string
	for _, h := range r.end(len(want)) {
		got = append(got, fmt.Sprintf("%s %s", h.Syscall, unix.ErrnoName(h.Errno)))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestCallsThatAFilterRefusesAreSeen: their functions are not reached.
func TestCallsThatAFilterRefusesAreSeen(t *testing.T) {
	nodetest.Root(t)
	r := watchOurselves(t, Options{Syscalls: []string{"fsync"}, Errnos: []unix.Errno{unix.EPERM}})
	refused := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread ends, with its filter
		if err := refuse(unix.SYS_FSYNC); err != nil {
			refused <- err
			return
		}
		refused <- unix.Fsync(-1)
	}()
	if err := <-refused; err != unix.EPERM {
		t.Fatalf("fsync: %v, want %v", err, unix.EPERM)
	}
	if hits := r.end(1); len(hits) != 1 || hits[0].Syscall != "fsync" {
		t.Errorf("hits = %v, want one of fsync", hits)
	}
}

// refuse has this thread's calls of that number fail with EPERM from now on.
func refuse(number uint32) error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, // the number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: number, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}

// watchOurselves watches our own process. The only warning is that it has no V8.
func watchOurselves(t *testing.T, o Options) *run {
	t.Helper()
	return watchWarned(t, &nodetest.Target{PID: os.Getpid()}, o, func(err error) {
		if !strings.Contains(err.Error(), "no V8 here") {
			t.Errorf("warning: %v", err)
		}
	})
}
