package event

import (
	"encoding/json"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCallsAreShownInSymbols(t *testing.T) {
	for want, c := range map[string]Call{
		`openat(dfd=AT_FDCWD, filename="/a\x1b", flags=O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, mode=0666) = -1 EACCES (permission denied)`: {
			Syscall: SyscallNamed("openat"), Path: "/a\x1b", PathRead: true, Result: -int64(unix.EACCES),
			Values: [6]uint64{1<<32 - 100, 0x1000, unix.O_WRONLY | unix.O_CREAT | unix.O_TRUNC | unix.O_CLOEXEC, 0o666},
		},
		"mmap(addr=0, len=4096, prot=0, flags=MAP_PRIVATE|MAP_ANONYMOUS|0x2000000, fd=-1, off=0) = 0x7f0000000000": {
			Syscall: SyscallNamed("mmap"), Result: 0x7f0000000000,
			Values: [6]uint64{0, 4096, unix.PROT_NONE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | 1<<25, 1<<64 - 1},
		},
		"socket(family=AF_INET6, type=SOCK_STREAM|SOCK_NONBLOCK|SOCK_CLOEXEC, protocol=0) = 21": {
			Syscall: SyscallNamed("socket"), Result: 21, Values: [6]uint64{unix.AF_INET6, unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC},
		},
		"futex(uaddr=0x123456, op=FUTEX_WAIT_BITSET|FUTEX_PRIVATE_FLAG, val=0, utime=0, uaddr2=0, val3=1) = -1 ERESTARTSYS (interrupted by a signal)": {
			Syscall: SyscallNamed("futex"), Result: -512, Values: [6]uint64{0x123456, 9 | 128, 0, 0, 0, 1},
		},
		`write(fd=1 → 10.0.0.7:80, buf="ab\n"..., count=9) = 9`: {
			Syscall: SyscallNamed("write"), Values: [6]uint64{1, 0x1000, 9}, Result: 9,
			Socket: &Socket{Peer: "10.0.0.7:80"}, Data: "ab\n", DataCut: true,
		},
		"pwrite64(fd=3, buf=0x123456, count=4294967297, pos=4294967301) = 1": {
			Syscall: SyscallNamed("pwrite64"), Values: [6]uint64{3, 0x123456, 1<<32 + 1, 1<<32 + 5}, Result: 1,
		},
		"setresuid(ruid=4294967295, euid=0, suid=4294967295) = 0": {Syscall: SyscallNamed("setresuid"), Values: [6]uint64{1<<64 - 1, 0, 1<<32 - 1}},
		"chdir(filename=0) = -1 EFAULT (bad address)":             {Syscall: SyscallNamed("chdir"), Result: -int64(unix.EFAULT)},
		`chdir(filename="") = -1 ENOENT (no such file or directory)`: {
			Syscall: SyscallNamed("chdir"), Values: [6]uint64{0x1000}, PathRead: true, Result: -int64(unix.ENOENT),
		},
		`chdir(filename="/a"...) = 0`: {Syscall: SyscallNamed("chdir"), Values: [6]uint64{0x1000}, Path: "/a", PathRead: true, PathCut: true},
		`listen(fd=22 on "/run/a", backlog=511) = 0`: {
			Syscall: SyscallNamed("listen"), Values: [6]uint64{22, 511}, Socket: &Socket{Local: "/run/a"},
		},
		"kill(pid=-1, sig=77) = 0":            {Syscall: SyscallNamed("kill"), Values: [6]uint64{1<<64 - 1, 77}},
		"fchmod(fd=3, mode=0600) = 0":         {Syscall: SyscallNamed("fchmod"), Values: [6]uint64{3, 0x7f0000000180}},
		"kill(pid=1, sig=SIGTERM) = 0":        {Syscall: SyscallNamed("kill"), Values: [6]uint64{1, 15}},
		"lseek(fd=3, offset=0, whence=9) = 0": {Syscall: SyscallNamed("lseek"), Values: [6]uint64{3, 0, 9}},
		"syscall_100000() = 0":                {Syscall: SyscallOf(100000)},
	} {
		if got := c.Called() + " = " + c.Returned(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestNumbersInJSONAreWhole(t *testing.T) {
	c := Call{Syscall: SyscallNamed("lseek"), Values: [6]uint64{0xffffffff, 1<<64 - 1<<33, 1<<32 | 2}}
	got, err := json.Marshal(c.Arguments())
	want := `[{"name":"fd","value":-1,"text":"-1"},{"name":"offset","value":-8589934592,"text":"-8589934592"},{"name":"whence","value":2,"text":"SEEK_END"}]`
	if err != nil || string(got) != want {
		t.Errorf("arguments = %s, %v, want %s", got, err, want)
	}
}

func TestArgumentsInJSON(t *testing.T) {
	c := Call{Syscall: SyscallNamed("openat"), Values: [6]uint64{0xffffff9c, 0x7ffff0000000, 0, 0}, Path: "/a", PathRead: true}
	got, err := json.Marshal(c.Arguments())
	want := `[{"name":"dfd","value":-100,"text":"AT_FDCWD"},{"name":"filename","value":140737219919872,"text":"\"/a\""},` +
		`{"name":"flags","value":0,"text":"O_RDONLY"},{"name":"mode","value":0,"text":"0"}]`
	if err != nil || string(got) != want {
		t.Errorf("arguments = %s, %v, want %s", got, err, want)
	}
}
