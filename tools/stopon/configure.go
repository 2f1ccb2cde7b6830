package stopon

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
)

// configure writes the options into spec, before it is loaded.
func configure(spec *ebpf.CollectionSpec, o *Options) error {
	namespace, err := loader.PIDNamespace()
	if err != nil {
		return err
	}
	v := variables{spec: spec}
	v.set(bpf.StoponVarPidNamespace, namespace)
	v.set(bpf.StoponVarSyscalls, o.table())
	v.setConditions(o)
	v.setSignals(o)
	v.set(bpf.StoponVarStall, uint64(o.Stall))
	v.set(bpf.StoponVarSlower, uint64(o.Slower))
	v.set(bpf.StoponVarInterval, uint64(o.Interval))
	v.set(bpf.StoponVarNth, o.Nth)
	v.set(bpf.StoponVarRemaining, o.remaining())
	v.set(bpf.StoponVarRaised, uint32(o.raised()))
	v.set(bpf.StoponVarOwner, uint32(os.Getpid()))
	if o.Kernel {
		v.set(bpf.StoponVarWithKernel, uint32(1))
	}
	v.set(bpf.StoponVarPath, pattern(o.Path))
	v.set(bpf.StoponVarData, pattern(o.Written))
	v.set(bpf.StoponVarJavascript, pattern(o.JS))
	v.set(bpf.StoponVarThrownClass, pattern(o.Throw))
	if o.Uncaught {
		v.set(bpf.StoponVarWithUncaught, uint32(1))
	}
	if err := errors.Join(v.errs...); err != nil {
		return fmt.Errorf("configure BPF programs: %w", err)
	}
	return nil
}

// programs returns the programs that the options need, by name.
func (o *Options) programs() map[string]bool {
	calls, stall, slower := len(o.Syscalls) > 0, o.Stall > 0, o.Slower > 0
	entries := slices.ContainsFunc(o.Functions, func(f Function) bool { return !f.Return })
	return map[string]bool{
		bpf.StoponProgOnExec:          true,
		bpf.StoponProgOnSystemCall:    stall || calls && slower,
		bpf.StoponProgOnSystemCallEnd: stall || calls,
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

// variables sets the variables of a collection and collects the errors.
type variables struct {
	spec *ebpf.CollectionSpec
	errs []error
}

func (v *variables) set(name string, value any) {
	variable, ok := v.spec.Variables[name]
	if !ok {
		v.errs = append(v.errs, fmt.Errorf("no variable %s", name))
		return
	}
	v.errs = append(v.errs, variable.Set(value))
}

func (v *variables) setConditions(o *Options) {
	var conditions [maxConditions]bpf.StoponCondition
	for i, c := range o.Conditions {
		conditions[i] = bpf.StoponCondition{Operand: c.Of, Comparison: uint32(c.Is), Value: c.Value}
	}
	v.set(bpf.StoponVarConditions, conditions)
	v.set(bpf.StoponVarConditionCount, uint32(len(o.Conditions)))
	var errnos [maxErrnos]int32
	for i, e := range o.Errnos {
		errnos[i] = int32(e)
	}
	v.set(bpf.StoponVarErrnos, errnos)
	v.set(bpf.StoponVarErrnoCount, uint32(len(o.Errnos)))
	if o.Exit != nil {
		v.set(bpf.StoponVarExitCode, bpf.StoponCondition{Comparison: uint32(o.Exit.Is), Value: o.Exit.Value})
	}
}

func (v *variables) setSignals(o *Options) {
	var signals uint64
	for _, s := range o.Signals {
		signals |= 1 << (s - 1)
	}
	v.set(bpf.StoponVarSignals, signals)
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
