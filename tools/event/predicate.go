// Package event says what may happen in a process and which of it counts: system calls,
// functions, USDT probes and tracepoints, and conditions on them. It configures the kernel
// half's predicates (bpf/predicate.h, bpf/written.h) and attaches probes to functions, also
// of files that are mapped later.
package event

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// A Comparison compares with a number; 32-bit values are taken as signed.
type Comparison struct {
	Is    bpf.TraceComparison
	Value int64
}

// What a Condition is about, besides the arguments, which are numbered from 0
// to 5.
const (
	OfResult     = uint32(bpf.TraceOperandRESULT)
	OfDescriptor = uint32(bpf.TraceOperandDESCRIPTOR) // the call's file descriptor
)

// A Condition holds when its operand satisfies the comparison.
type Condition struct {
	Of uint32
	Comparison
}

// Limits of what the kernel half inspects.
const (
	maxConditions = int(bpf.TraceHitLimitMAX_CONDITIONS)
	maxErrnos     = int(bpf.TraceHitLimitMAX_ERRNOS)
	maxPattern    = len(bpf.TracePattern{}.Text) - 1 // bytes
)

// A Predicate is the conditions that events must meet: all that apply must hold.
type Predicate struct {
	Errnos     []unix.Errno  // of system calls: any of them
	Conditions []Condition   // of system calls, functions and other probes with arguments
	Path       string        // of system calls: a pattern, in which * stands for any text and ? for one byte
	Written    string        // of system calls that write: part of what was written
	Slower     time.Duration // of system calls and functions that return: they took this long or longer
	JS         string        // a JavaScript function on the stack, as stacks show it: a pattern like Path
}

// Kinds are the kinds of events that a predicate is about.
type Kinds struct {
	Syscalls  bool
	Arguments bool // others that have arguments: functions, USDT probes, tracepoints
	Returns   bool // functions that return
}

// Check returns an error if the predicate makes no sense for such events.
func (p *Predicate) Check(k Kinds) error {
	for _, c := range p.Conditions {
		switch {
		case c.Of == OfDescriptor && !k.Syscalls:
			return errors.New("a file descriptor is of system calls only")
		case c.Of == OfResult && !k.Syscalls && !k.Returns:
			return errors.New("only system calls and functions that return have results")
		case c.Of < OfResult && !k.Syscalls && !k.Arguments:
			return errors.New("only system calls, functions and other probes have arguments")
		}
	}
	switch {
	case len(p.Conditions) > maxConditions:
		return fmt.Errorf("%d conditions on arguments and results: more than %d", len(p.Conditions), maxConditions)
	case len(p.Errnos) > maxErrnos:
		return fmt.Errorf("%d error numbers: more than %d", len(p.Errnos), maxErrnos)
	case len(p.Errnos) > 0 && !k.Syscalls:
		return errors.New("only system calls have error numbers")
	case p.Path != "" && !k.Syscalls:
		return errors.New("paths are of system calls only")
	case p.Slower > 0 && !k.Syscalls && !k.Returns:
		return errors.New("only system calls and functions that return take time")
	}
	return CheckPatterns(p.Path, p.Written, p.JS)
}

// CheckPatterns returns an error if a pattern is longer than the kernel half compares.
func CheckPatterns(patterns ...string) error {
	for _, pattern := range patterns {
		if len(pattern) > maxPattern {
			return fmt.Errorf("a pattern of more than %d bytes", maxPattern)
		}
	}
	return nil
}

// NeedsArguments reports whether a condition is about an argument.
func (p *Predicate) NeedsArguments() bool {
	for _, c := range p.Conditions {
		if c.Of < OfResult {
			return true
		}
	}
	return false
}

// Set adds the constants of the programs to all, by name; they are the same in every program
// that includes bpf/hit.h.
func (p *Predicate) Set(all map[string]any) {
	var conditions [maxConditions]bpf.TraceCondition
	for i, c := range p.Conditions {
		conditions[i] = bpf.TraceCondition{Operand: c.Of, Comparison: uint32(c.Is), Value: c.Value}
	}
	var errnos [maxErrnos]int32
	for i, e := range p.Errnos {
		errnos[i] = int32(e)
	}
	all[bpf.StoponVarConditions] = conditions
	all[bpf.StoponVarConditionCount] = uint32(len(p.Conditions))
	all[bpf.StoponVarErrnos] = errnos
	all[bpf.StoponVarErrnoCount] = uint32(len(p.Errnos))
	all[bpf.StoponVarSlower] = uint64(p.Slower)
	all[bpf.StoponVarPath] = Pattern(p.Path)
	all[bpf.StoponVarData] = Pattern(p.Written)
	all[bpf.StoponVarJavascript] = Pattern(p.JS)
}

// Pattern returns a text as the kernel half reads patterns. It must have passed CheckPatterns.
func Pattern(text string) (p bpf.TracePattern) {
	p.Length = uint32(copy(p.Text[:], text))
	return p
}
