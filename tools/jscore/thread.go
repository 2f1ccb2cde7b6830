package jscore

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"ustack/symbolize/unwind"
	"ustack/tools/core"
)

// A Thread is one of the process's threads.
type Thread struct {
	TID       int
	Registers Registers
	Isolate   uint64      // the V8 isolate it has entered; 0 if none
	Signal    unix.Signal // that had stopped the process before; 0 if none
}

// Registers are the registers of a thread on x86-64.
type Registers struct {
	PC, SP, FP uint64
	FSBase     uint64                       // the thread pointer
	General    [unwind.RegisterCount]uint64 // by their numbers in DWARF
}

// Words of struct user_regs_struct: the general registers in DWARF's order, then others.
var registerWords = [unwind.RegisterCount]int{10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0}

const (
	wordPC     = 16
	wordFSBase = 21
)

func registersOf(general []byte) Registers {
	word := func(i int) uint64 {
		if 8*i+8 > len(general) {
			return 0
		}
		return binary.LittleEndian.Uint64(general[8*i:])
	}
	r := Registers{PC: word(wordPC), FSBase: word(wordFSBase)}
	for i, w := range registerWords {
		r.General[i] = word(w)
	}
	r.SP, r.FP = r.General[unwind.SP], r.General[unwind.BP]
	return r
}

// Threads returns the process's threads, starting with the one that the core is about.
func (d *Dump) Threads() []Thread { return d.threads }

// findThreads reads the threads' registers and isolates.
func (d *Dump) findThreads() {
	slot := d.isolateSlot()
	for _, t := range d.core.Threads() {
		thread := Thread{TID: t.TID, Registers: registersOf(t.General), Signal: t.Signal}
		thread.Isolate = d.isolateOf(thread.Registers, slot)
		d.threads = append(d.threads, thread)
	}
}

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
