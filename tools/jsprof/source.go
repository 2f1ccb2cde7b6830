package jsprof

import (
	"io"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/profile"
)

// A source is what a run has in the kernel: programs that take stacks and add up values by them.
type source struct {
	spec      *ebpf.CollectionSpec
	objects   io.Closer // pointer to what bpf2go generated for spec
	variables map[string]any
	values    []value       // of the profiles that the run returns
	quantized bool          // buckets are of values
	keeps     bool          // stacks are sent before their values are known, perhaps long before
	poll      time.Duration // how long stacks may wait to be read; 0: as long as is usual

	attach func(s *session) error // once the processes that exist are known
	added  func(s *session, pid int) error
	ended  func(s *session, pid int)
	tick   func(s *session)
	// rest returns what the programs have not added up when they are detached, at end: ns,
	// CLOCK_MONOTONIC. It may be nil.
	rest   func(end uint64) (map[bpf.TraceStackKey]bpf.TraceTotal, error)
	finish func(s *session, number int, p *profile.Profile) // completes a profile that was collected
	warn   func(s *session)                                 // warns at the end of what is missing
	// place returns which profile a key's values belong to, and what is inside of the leaf.
	place func(key bpf.TraceStackKey) (number int, leaf []symbolize.Frame)
}

// A value is what a profile's values are.
type value struct {
	profile.ValueType
	event  string // what adds to them, as "syscall:read"
	counts bool   // they are numbers of events
}

// An aggregate is what the programs of every source have in common (bpf/aggregate.h).
type aggregate struct {
	Counts    *ebpf.Map      `ebpf:"counts"`
	Turn      *ebpf.Variable `ebpf:"turn"`
	Lost      *ebpf.Variable `ebpf:"lost"`
	Truncated *ebpf.Variable `ebpf:"truncated"`
	Matched   *ebpf.Variable `ebpf:"matched"`
	Negative  *ebpf.Variable `ebpf:"negative"`
	Failures  *ebpf.Variable `ebpf:"failures"`
}
