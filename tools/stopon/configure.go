package stopon

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/tools/event"
)

// variables returns the constants of the programs.
func (o *Options) variables() map[string]any {
	all := map[string]any{
		bpf.StoponVarSyscalls:    o.table(),
		bpf.StoponVarSignals:     o.signals(),
		bpf.StoponVarStall:       uint64(o.Stall),
		bpf.StoponVarInterval:    uint64(o.Interval),
		bpf.StoponVarNth:         o.Nth,
		bpf.StoponVarRemaining:   o.remaining(),
		bpf.StoponVarRaised:      uint32(o.raised()),
		bpf.StoponVarOwner:       uint32(os.Getpid()),
		bpf.StoponVarThrownClass: event.Pattern(o.Throw),
		bpf.StoponVarWithPath:    uint32(1),
	}
	if o.Kernel {
		all[bpf.StoponVarWithKernel] = uint32(1)
	}
	if o.Uncaught {
		all[bpf.StoponVarWithUncaught] = uint32(1)
	}
	if o.Exit != nil {
		all[bpf.StoponVarExitCode] = bpf.TraceCondition{Comparison: uint32(o.Exit.Is), Value: o.Exit.Value}
	}
	o.predicate().Set(all)
	return all
}

// programs returns the programs that the options need, by name.
func (o *Options) programs() map[string]bool {
	calls, stall, slower := len(o.Syscalls) > 0, o.Stall > 0, o.Slower > 0
	entries := slices.ContainsFunc(o.Functions, func(f event.Function) bool { return !f.Return })
	return map[string]bool{
		bpf.StoponProgOnExec:          true,
		bpf.StoponProgOnSystemCall:    stall || calls && slower,
		bpf.StoponProgOnSystemCallEnd: calls,
		bpf.StoponProgOnCallInLoop:    stall,
		bpf.StoponProgOnSignal:        len(o.Signals) > 0,
		bpf.StoponProgOnEntry:         entries,
		bpf.StoponProgOnCall:          o.hasReturns(),
		bpf.StoponProgOnReturn:        o.hasReturns(),
		bpf.StoponProgOnUsdt:          len(o.USDTs) > 0,
		bpf.StoponProgOnExit:          o.Exit != nil,
		bpf.StoponProgOnTick:          o.samples(),
		bpf.StoponProgOnThrow:         o.throws(),
		bpf.StoponProgOnUncaught:      o.Uncaught,
		bpf.StoponProgOnSignalSent:    o.raised() == unix.SIGSTOP,
		bpf.StoponProgOnOwnerEnd:      o.raised() == unix.SIGSTOP,
	}
}

// signals returns the set of signals to wait for, one bit each.
func (o *Options) signals() (set uint64) {
	for _, s := range o.Signals {
		set |= 1 << (s - 1)
	}
	return set
}

// table returns what the kernel half gets to know about all system calls.
func (o *Options) table() any {
	wanted := make(map[string]uint8)
	for _, name := range o.Syscalls {
		wanted[name] = 1
	}
	return event.Rows(wanted)
}
