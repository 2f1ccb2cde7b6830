package jscore

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"ustack/tools/core"
)

// A Signal is what ended a process.
type Signal struct {
	Number  unix.Signal
	Code    int    // SI_*, such as the cause of a fault; negative if a process sent the signal
	Address uint64 // of a fault: the address accessed
	Sender  int    // PID of the process that sent it; 0 for a fault
}

// siginfo_t: fields that all signals have, and two whose meaning depends on the signal.
const (
	siginfoCode   = 8
	siginfoUnion  = 16
	siginfoSize   = 24
	faults        = 1<<unix.SIGILL | 1<<unix.SIGBUS | 1<<unix.SIGFPE | 1<<unix.SIGSEGV | 1<<unix.SIGTRAP
	stops         = 1<<unix.SIGSTOP | 1<<unix.SIGTSTP | 1<<unix.SIGTTIN | 1<<unix.SIGTTOU // do not end a process
	maxSignal     = 63
	siginfoKernel = 0x80 // SI_KERNEL: a fault at an unknown address
)

// Signal returns why there is a core; false if it was taken of a running process.
func (d *Dump) Signal() (Signal, bool) {
	threads := d.core.Threads()
	if len(threads) == 0 {
		return Signal{}, false
	}
	return signalOf(threads[0])
}

func signalOf(t core.Thread) (Signal, bool) {
	info := t.Siginfo
	if len(info) < siginfoSize {
		return Signal{Number: t.Signal}, t.Signal > 0 && stops>>t.Signal&1 == 0
	}
	s := Signal{
		Number: unix.Signal(binary.LittleEndian.Uint32(info)),
		Code:   int(int32(binary.LittleEndian.Uint32(info[siginfoCode:]))),
	}
	switch {
	case s.Number <= 0 || s.Number > maxSignal, stops>>s.Number&1 != 0, s.Number == unix.SIGTRAP && s.Code>>8 != 0:
		return Signal{}, false // none, or a tracer's
	case s.Code > 0 && s.Code != siginfoKernel && faults>>s.Number&1 != 0:
		s.Address = binary.LittleEndian.Uint64(info[siginfoUnion:])
	case s.Code <= 0:
		s.Sender = int(binary.LittleEndian.Uint32(info[siginfoUnion:]))
	}
	return s, true
}
