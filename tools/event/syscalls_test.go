package event

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"ustack/bpf"
)

func TestSystemCallsAreThoseOfTheKernel(t *testing.T) {
	for name, number := range map[string]int{
		"read": unix.SYS_READ, "openat": unix.SYS_OPENAT, "close": unix.SYS_CLOSE, "futex": unix.SYS_FUTEX, "io_uring_enter": unix.SYS_IO_URING_ENTER,
	} {
		s := SyscallNamed(name)
		if s == nil || s.Number != number || SyscallName(number) != name || SyscallOf(uint32(number)) != s {
			t.Errorf("%s = %+v, want number %d", name, s, number)
		}
	}
	if SyscallNamed("nonsense") != nil || SyscallName(1<<20) != "" {
		t.Error("there is a system call that does not exist")
	}
}

// TestRowsSayWhereArgumentsAre reads what the kernel half gets to know.
func TestRowsSayWhereArgumentsAre(t *testing.T) {
	rows := Rows(map[string]uint8{"openat": 3})
	for _, tt := range []struct {
		number int
		want   bpf.TraceSyscall
	}{
		{unix.SYS_OPENAT, bpf.TraceSyscall{Wanted: 3, Descriptor: 0, Path: 1, Data: -1, Address: -1}},
		{unix.SYS_WRITE, bpf.TraceSyscall{Descriptor: 0, Path: -1, Data: 1, DataKind: uint8(bpf.TraceDataKindDATA_BUFFER), Address: -1}},
		{unix.SYS_CONNECT, bpf.TraceSyscall{Descriptor: 0, Path: -1, Data: -1, Address: 1}},
		{unix.SYS_EXECVE, bpf.TraceSyscall{Descriptor: -1, Path: 0, Data: -1, Address: -1, Flags: uint8(bpf.TraceCallFlagCALL_MAY_NOT_RETURN)}},
		{unix.SYS_GETPID, bpf.TraceSyscall{Descriptor: -1, Path: -1, Data: -1, Address: -1}},
	} {
		if got := rows[tt.number]; got != tt.want {
			t.Errorf("row of %s = %+v, want %+v", SyscallName(tt.number), got, tt.want)
		}
	}
	if a, ok := SyscallNamed("accept4").Address(); !ok || !a.Accepts() || a.Argument != 1 {
		t.Errorf("accept4 has its address at %+v, %v, want argument 1 of what is accepted", a, ok)
	}
	if !slices.Contains(Writing(), "writev") || slices.Contains(Writing(), "read") {
		t.Errorf("calls that write = %v", Writing())
	}
}

func TestNamesThatResembleAreSuggested(t *testing.T) {
	known := []string{"openat", "open", "openat2", "close", "page-faults"}
	for name, want := range map[string]string{
		"opnat": " (did you mean openat?)", "OPEN": " (did you mean open or openat or openat2?)",
		"faults": " (did you mean page-faults?)", "xyzzy": "", "": "",
	} {
		if got := near(name, known); got != want {
			t.Errorf("near(%q) = %q, want %q", name, got, want)
		}
	}
}
