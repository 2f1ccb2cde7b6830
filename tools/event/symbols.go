package event

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// A vocabulary names the values that an argument may have: one of values in the bits of mask, and
// flags in the others.
type vocabulary struct {
	mask   uint64
	values map[uint64]string
	flags  []flag
}

type flag struct {
	bits uint64
	name string
}

// text returns a value in symbols; what has none is a number.
func (v *vocabulary) text(value uint64) string {
	var words []string
	rest := value &^ v.mask
	if name, ok := v.values[value&v.mask]; ok {
		words = append(words, name)
	} else if v.mask != 0 {
		rest |= value & v.mask
	}
	for _, f := range v.flags {
		if rest&f.bits == f.bits {
			words = append(words, f.name)
			rest &^= f.bits
		}
	}
	if rest != 0 || len(words) == 0 {
		words = append(words, Integer(rest))
	}
	return strings.Join(words, "|")
}

// all is the mask of arguments that have no flags.
const all = ^uint64(0)

// Vocabularies that several calls share.
var (
	opening = &vocabulary{
		mask: unix.O_ACCMODE, values: map[uint64]string{unix.O_RDONLY: "O_RDONLY", unix.O_WRONLY: "O_WRONLY", unix.O_RDWR: "O_RDWR"},
		flags: []flag{
			{unix.O_CREAT, "O_CREAT"},
			{unix.O_EXCL, "O_EXCL"},
			{unix.O_TRUNC, "O_TRUNC"},
			{unix.O_APPEND, "O_APPEND"},
			{unix.O_NONBLOCK, "O_NONBLOCK"},
			{unix.O_SYNC, "O_SYNC"},
			{unix.O_DSYNC, "O_DSYNC"},
			{unix.O_DIRECT, "O_DIRECT"},
			{unix.O_TMPFILE, "O_TMPFILE"},
			{unix.O_DIRECTORY, "O_DIRECTORY"},
			{unix.O_NOFOLLOW, "O_NOFOLLOW"},
			{unix.O_NOATIME, "O_NOATIME"},
			{unix.O_PATH, "O_PATH"},
			{unix.O_NOCTTY, "O_NOCTTY"},
			{unix.O_CLOEXEC, "O_CLOEXEC"},
		},
	}
	descriptors = &vocabulary{flags: []flag{{unix.O_NONBLOCK, "O_NONBLOCK"}, {unix.O_CLOEXEC, "O_CLOEXEC"}}}
	families    = &vocabulary{mask: all, values: map[uint64]string{
		unix.AF_UNIX: "AF_UNIX", unix.AF_INET: "AF_INET", unix.AF_INET6: "AF_INET6", unix.AF_NETLINK: "AF_NETLINK",
	}}
	sockets = &vocabulary{
		mask: 0xf, values: map[uint64]string{
			unix.SOCK_STREAM: "SOCK_STREAM", unix.SOCK_DGRAM: "SOCK_DGRAM", unix.SOCK_RAW: "SOCK_RAW", unix.SOCK_SEQPACKET: "SOCK_SEQPACKET",
		},
		flags: []flag{{unix.SOCK_NONBLOCK, "SOCK_NONBLOCK"}, {unix.SOCK_CLOEXEC, "SOCK_CLOEXEC"}},
	}
	accepted = &vocabulary{flags: sockets.flags}
	messages = &vocabulary{flags: []flag{
		{unix.MSG_OOB, "MSG_OOB"},
		{unix.MSG_PEEK, "MSG_PEEK"},
		{unix.MSG_TRUNC, "MSG_TRUNC"},
		{unix.MSG_DONTWAIT, "MSG_DONTWAIT"},
		{unix.MSG_WAITALL, "MSG_WAITALL"},
		{unix.MSG_NOSIGNAL, "MSG_NOSIGNAL"},
		{unix.MSG_MORE, "MSG_MORE"},
		{unix.MSG_CMSG_CLOEXEC, "MSG_CMSG_CLOEXEC"},
	}}
	protections = &vocabulary{flags: []flag{
		{unix.PROT_READ, "PROT_READ"}, {unix.PROT_WRITE, "PROT_WRITE"}, {unix.PROT_EXEC, "PROT_EXEC"},
	}}
	lookups = &vocabulary{flags: []flag{
		{unix.AT_SYMLINK_NOFOLLOW, "AT_SYMLINK_NOFOLLOW"},
		{unix.AT_REMOVEDIR, "AT_REMOVEDIR"},
		{unix.AT_EMPTY_PATH, "AT_EMPTY_PATH"},
		{unix.AT_NO_AUTOMOUNT, "AT_NO_AUTOMOUNT"},
	}}
	accesses = &vocabulary{flags: []flag{{unix.R_OK, "R_OK"}, {unix.W_OK, "W_OK"}, {unix.X_OK, "X_OK"}}}
	signals  = &vocabulary{mask: all, values: signalNames()}
)

// signalNames returns the names of the signals, by number.
func signalNames() map[uint64]string {
	names := make(map[uint64]string)
	for s := unix.Signal(1); s <= 64; s++ {
		if name := unix.SignalName(s); name != "" {
			names[uint64(s)] = name
		}
	}
	return names
}

// vocabularies are those of arguments, by call and parameter.
var vocabularies = map[string]*vocabulary{
	"open.flags": opening, "openat.flags": opening,
	"pipe2.flags": descriptors, "dup3.flags": descriptors, "eventfd2.flags": descriptors, "epoll_create1.flags": descriptors,
	"inotify_init1.flags": descriptors,
	"socket.family":       families, "socketpair.family": families,
	"socket.type": sockets, "socketpair.type": sockets, "accept4.flags": accepted,
	"sendto.flags": messages, "recvfrom.flags": messages, "sendmsg.flags": messages, "recvmsg.flags": messages,
	"statx.flags": lookups, "newfstatat.flag": lookups, "unlinkat.flag": lookups, "faccessat2.flags": lookups,
	"access.mode": accesses, "faccessat.mode": accesses, "faccessat2.mode": accesses,
	"kill.sig": signals, "tgkill.sig": signals, "rt_sigaction.sig": signals,
	"mmap.prot": protections, "mprotect.prot": protections,
	"mmap.flags": {
		mask: unix.MAP_TYPE, values: map[uint64]string{
			unix.MAP_SHARED: "MAP_SHARED", unix.MAP_PRIVATE: "MAP_PRIVATE", unix.MAP_SHARED_VALIDATE: "MAP_SHARED_VALIDATE",
		},
		flags: []flag{
			{unix.MAP_FIXED, "MAP_FIXED"},
			{unix.MAP_ANONYMOUS, "MAP_ANONYMOUS"},
			{unix.MAP_NORESERVE, "MAP_NORESERVE"},
			{unix.MAP_STACK, "MAP_STACK"},
			{unix.MAP_POPULATE, "MAP_POPULATE"},
			{unix.MAP_HUGETLB, "MAP_HUGETLB"},
			{unix.MAP_FIXED_NOREPLACE, "MAP_FIXED_NOREPLACE"},
		},
	},
	"madvise.behavior": {mask: all, values: map[uint64]string{
		unix.MADV_NORMAL: "MADV_NORMAL", unix.MADV_RANDOM: "MADV_RANDOM", unix.MADV_SEQUENTIAL: "MADV_SEQUENTIAL",
		unix.MADV_WILLNEED: "MADV_WILLNEED", unix.MADV_DONTNEED: "MADV_DONTNEED", unix.MADV_FREE: "MADV_FREE",
		unix.MADV_DONTFORK: "MADV_DONTFORK", unix.MADV_HUGEPAGE: "MADV_HUGEPAGE", unix.MADV_NOHUGEPAGE: "MADV_NOHUGEPAGE",
		unix.MADV_DONTDUMP: "MADV_DONTDUMP", unix.MADV_DODUMP: "MADV_DODUMP",
	}},
	"fcntl.cmd": {mask: all, values: map[uint64]string{
		unix.F_DUPFD: "F_DUPFD", unix.F_GETFD: "F_GETFD", unix.F_SETFD: "F_SETFD", unix.F_GETFL: "F_GETFL", unix.F_SETFL: "F_SETFL",
		unix.F_GETLK: "F_GETLK", unix.F_SETLK: "F_SETLK", unix.F_SETLKW: "F_SETLKW", unix.F_DUPFD_CLOEXEC: "F_DUPFD_CLOEXEC",
	}},
	"shutdown.how": {mask: all, values: map[uint64]string{unix.SHUT_RD: "SHUT_RD", unix.SHUT_WR: "SHUT_WR", unix.SHUT_RDWR: "SHUT_RDWR"}},
	"lseek.whence": {mask: all, values: map[uint64]string{unix.SEEK_SET: "SEEK_SET", unix.SEEK_CUR: "SEEK_CUR", unix.SEEK_END: "SEEK_END"}},
	"epoll_ctl.op": {mask: all, values: map[uint64]string{
		unix.EPOLL_CTL_ADD: "EPOLL_CTL_ADD", unix.EPOLL_CTL_DEL: "EPOLL_CTL_DEL", unix.EPOLL_CTL_MOD: "EPOLL_CTL_MOD",
	}},
	"futex.op": { // include/uapi/linux/futex.h
		mask: 127, values: map[uint64]string{
			0: "FUTEX_WAIT", 1: "FUTEX_WAKE", 3: "FUTEX_REQUEUE", 4: "FUTEX_CMP_REQUEUE", 5: "FUTEX_WAKE_OP", 6: "FUTEX_LOCK_PI",
			7: "FUTEX_UNLOCK_PI", 8: "FUTEX_TRYLOCK_PI", 9: "FUTEX_WAIT_BITSET", 10: "FUTEX_WAKE_BITSET",
		},
		flags: []flag{{128, "FUTEX_PRIVATE_FLAG"}, {256, "FUTEX_CLOCK_REALTIME"}},
	},
}

// symbols returns an argument in the symbols of C; "" if it has none.
func symbols(call string, p Parameter, value uint64) string {
	if p.Kind == KindDescriptor || p.Kind == KindPath || p.Kind == kindPointer {
		return ""
	}
	if v := vocabularies[call+"."+p.Name]; v != nil {
		return v.text(uint64(uint32(value)))
	}
	if p.Name == "mode" {
		return fmt.Sprintf("%#o", uint32(value)) // its register may have more
	}
	return ""
}
