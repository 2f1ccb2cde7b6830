package event

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ustack/bpf"
)

// A Weight says what an event adds to the values of its stack. The zero Weight counts.
type Weight struct {
	kind     bpf.TraceWeight
	bytes    bool // of what the call transfers or allocates: which operand that is depends on the call
	argument int
}

// Counting is the Weight that adds 1.
var Counting = Weight{}

// Weights are the ways to write a Weight.
var Weights = []string{"count", "duration", "ret", "bytes", "arg N"}

// ParseWeight reads a Weight.
func ParseWeight(text string) (w Weight, err error) {
	switch text {
	case "count":
	case "duration":
		w.kind = bpf.TraceWeightWEIGHT_DURATION
	case "ret":
		w.kind = bpf.TraceWeightWEIGHT_RESULT
	case "bytes":
		w.bytes = true
	default:
		number, ok := strings.CutPrefix(text, "arg")
		w.kind = bpf.TraceWeightWEIGHT_ARGUMENT
		w.argument, err = strconv.Atoi(strings.TrimSpace(number))
		if !ok || err != nil || w.argument < 0 || w.argument >= maxArguments {
			return w, fmt.Errorf("no weight %q (want %s, with N from 0 to %d)", text, strings.Join(Weights, ", "), maxArguments-1)
		}
	}
	return w, nil
}

// Name is what the sum of an event's weights is called after the event's name; empty if it counts.
func (w Weight) Name() string {
	switch {
	case w == Counting:
		return ""
	case w.bytes:
		return "bytes"
	case w.kind == bpf.TraceWeightWEIGHT_DURATION:
		return "duration"
	case w.kind == bpf.TraceWeightWEIGHT_RESULT:
		return "ret"
	}
	return fmt.Sprintf("arg%d", w.argument)
}

// Unit is the unit of the weights, as pprof calls it.
func (w Weight) Unit() string {
	switch {
	case w.bytes:
		return "bytes"
	case w.kind == bpf.TraceWeightWEIGHT_DURATION:
		return "nanoseconds"
	}
	return "count"
}

// timed reports whether it is the time that calls take.
func (w Weight) timed() bool { return w.kind == bpf.TraceWeightWEIGHT_DURATION }

// NeedsBegin reports whether the weight of a call needs what is known when it begins: the time, or
// the arguments of a function.
func NeedsBegin(weigher bpf.TraceWeigher) bool {
	return slices.Contains([]bpf.TraceWeight{
		bpf.TraceWeightWEIGHT_DURATION, bpf.TraceWeightWEIGHT_ARGUMENT, bpf.TraceWeightWEIGHT_PRODUCT,
	}, bpf.TraceWeight(weigher.Weight))
}

// Weigher returns how the kernel half weighs e, or an error if it has no such weight.
func (w Weight) Weigher(e Event) (bpf.TraceWeigher, error) {
	result := len(e.Syscalls) > 0 || e.Function != nil && e.Function.Return
	arguments := len(e.Syscalls) > 0 || e.Function != nil || e.USDT != nil || e.Tracepoint != nil
	switch {
	case w.bytes:
		return bytesOf(e)
	case w.timed() && !result:
		return bpf.TraceWeigher{}, fmt.Errorf("%s takes no time (only system calls and functions with %s do)", e.Name, returns)
	case w.kind == bpf.TraceWeightWEIGHT_RESULT && !result:
		return bpf.TraceWeigher{}, fmt.Errorf("%s has no result (only system calls and functions with %s do)", e.Name, returns)
	case w.kind == bpf.TraceWeightWEIGHT_ARGUMENT && !arguments:
		return bpf.TraceWeigher{}, fmt.Errorf("%s has no arguments", e.Name)
	case w.kind == bpf.TraceWeightWEIGHT_ARGUMENT && e.Tracepoint != nil && w.argument >= len(e.Tracepoint.Fields):
		return bpf.TraceWeigher{}, fmt.Errorf("%s has no field %d (there are %s)", e.Name, w.argument, numbered(e.Tracepoint.Fields))
	}
	return bpf.TraceWeigher{Weight: uint8(w.kind), Argument: uint8(w.argument)}, nil
}

// numbered lists names with their numbers.
func numbered(names []string) string {
	var all []string
	for i, name := range names {
		all = append(all, fmt.Sprintf("%d %s", i, name))
	}
	return strings.Join(all, ", ")
}

// Which operand of a call is a number of bytes.
var (
	result  = bpf.TraceWeigher{Weight: uint8(bpf.TraceWeightWEIGHT_RESULT)}
	inBytes = map[string]bpf.TraceWeigher{
		"mmap": argument(1), "munmap": argument(1), "mremap": argument(2), "madvise": argument(1),
	}
	allocators = map[string]bpf.TraceWeigher{
		"malloc": argument(0), "valloc": argument(0), "pvalloc": argument(0),
		"calloc": {Weight: uint8(bpf.TraceWeightWEIGHT_PRODUCT), Argument: 0, Factor: 1}, "realloc": argument(1),
		"memalign": argument(1), "aligned_alloc": argument(1), "posix_memalign": argument(2),
		"_Znwm": argument(0), "_Znam": argument(0), // operator new, new[]
	}
	transfers = []string{
		"read", "readv", "pread64", "preadv", "preadv2", "write", "writev", "pwrite64", "pwritev", "pwritev2",
		"sendto", "sendmsg", "recvfrom", "recvmsg", "sendfile", "splice", "vmsplice", "tee", "copy_file_range",
		"getrandom", "process_vm_readv", "process_vm_writev", "getdents64",
	}
)

func argument(n uint8) bpf.TraceWeigher {
	return bpf.TraceWeigher{Weight: uint8(bpf.TraceWeightWEIGHT_ARGUMENT), Argument: n}
}

// bytesOf returns how e's bytes are read.
func bytesOf(e Event) (bpf.TraceWeigher, error) {
	if e.Function != nil {
		if w, ok := allocators[e.Function.Symbol]; ok {
			return w, nil
		}
		return bpf.TraceWeigher{}, fmt.Errorf("which argument of %s is a number of bytes is not known (give it as arg N, or ret)", e.Name)
	}
	var all []bpf.TraceWeigher
	for _, name := range e.Syscalls {
		w, ok := inBytes[name]
		switch {
		case slices.Contains(transfers, name):
			w = result
		case !ok:
			return w, fmt.Errorf("%s transfers no bytes (choose another weight, such as arg N)", name)
		}
		all = append(all, w)
	}
	if all = slices.Compact(all); len(all) != 1 {
		return bpf.TraceWeigher{}, fmt.Errorf("%s has no single number of bytes (give the calls as events of their own)", e.Name)
	}
	return all[0], nil
}
