package stopon

import (
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// variables returns the constants of the programs.
func (o *Options) variables() map[string]any {
	all := map[string]any{
		bpf.StoponVarSyscalls:    o.table(),
		bpf.StoponVarSignals:     o.signals(),
		bpf.StoponVarStall:       uint64(o.Stall),
		bpf.StoponVarSlower:      uint64(o.Slower),
		bpf.StoponVarInterval:    uint64(o.Interval),
		bpf.StoponVarNth:         o.Nth,
		bpf.StoponVarRemaining:   o.remaining(),
		bpf.StoponVarRaised:      uint32(o.raised()),
		bpf.StoponVarOwner:       uint32(os.Getpid()),
		bpf.StoponVarPath:        pattern(o.Path),
		bpf.StoponVarData:        pattern(o.Written),
		bpf.StoponVarJavascript:  pattern(o.JS),
		bpf.StoponVarThrownClass: pattern(o.Throw),
	}
	if o.Kernel {
		all[bpf.StoponVarWithKernel] = uint32(1)
	}
	if o.Uncaught {
		all[bpf.StoponVarWithUncaught] = uint32(1)
	}
	o.addConditions(all)
	return all
}

// programs returns the programs that the options need, by name.
func (o *Options) programs() map[string]bool {
	calls, stall, slower := len(o.Syscalls) > 0, o.Stall > 0, o.Slower > 0
	entries := slices.ContainsFunc(o.Functions, func(f Function) bool { return !f.Return })
	return map[string]bool{
		bpf.StoponProgOnExec:          true,
		bpf.StoponProgOnSystemCall:    stall || calls && slower,
		bpf.StoponProgOnSystemCallEnd: calls,
		bpf.StoponProgOnCallInLoop:    stall,
		bpf.StoponProgOnSignal:        len(o.Signals) > 0,
		bpf.StoponProgOnEntry:         entries,
		bpf.StoponProgOnCall:          o.hasReturns(),
		bpf.StoponProgOnReturn:        o.hasReturns(),
		bpf.StoponProgOnExit:          o.Exit != nil,
		bpf.StoponProgOnTick:          o.samples(),
		bpf.StoponProgOnThrow:         o.throws(),
		bpf.StoponProgOnUncaught:      o.Uncaught,
		bpf.StoponProgOnSignalSent:    o.raised() == unix.SIGSTOP,
		bpf.StoponProgOnOwnerEnd:      o.raised() == unix.SIGSTOP,
	}
}

// prune empties the programs that are not needed, so that they load at once:
// the kernel takes a tenth of a second to verify one.
func prune(spec *ebpf.CollectionSpec, needed map[string]bool) {
	for name, is := range needed {
		if !is {
			spec.Programs[name].Instructions = asm.Instructions{asm.Mov.Imm(asm.R0, 0), asm.Return()}
		}
	}
}

// addConditions adds the constants about conditions.
func (o *Options) addConditions(all map[string]any) {
	var conditions [maxConditions]bpf.StoponCondition
	for i, c := range o.Conditions {
		conditions[i] = bpf.StoponCondition{Operand: c.Of, Comparison: uint32(c.Is), Value: c.Value}
	}
	all[bpf.StoponVarConditions] = conditions
	all[bpf.StoponVarConditionCount] = uint32(len(o.Conditions))
	var errnos [maxErrnos]int32
	for i, e := range o.Errnos {
		errnos[i] = int32(e)
	}
	all[bpf.StoponVarErrnos] = errnos
	all[bpf.StoponVarErrnoCount] = uint32(len(o.Errnos))
	if o.Exit != nil {
		all[bpf.StoponVarExitCode] = bpf.StoponCondition{Comparison: uint32(o.Exit.Is), Value: o.Exit.Value}
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
func (o *Options) table() (rows [maxSyscalls]bpf.StoponSyscall) {
	for i := range rows {
		rows[i] = bpf.StoponSyscall{Descriptor: -1, Path: -1, Data: -1, Address: -1}
	}
	for _, s := range syscalls() {
		if s.number < maxSyscalls {
			rows[s.number] = s.row()
		}
	}
	for _, name := range o.Syscalls {
		if s := syscalls()[name]; s.number < maxSyscalls {
			rows[s.number].Wanted = 1
		}
	}
	return rows
}

func pattern(text string) (p bpf.StoponPattern) {
	p.Length = uint32(copy(p.Text[:], text))
	return p
}
