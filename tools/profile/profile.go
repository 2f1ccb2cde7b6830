// Package profile holds weighted stacks and writes them in every format that
// people and programs read: text, flame graphs, pprof, and other tools' own.
package profile

import (
	"time"

	"ustack/symbolize"
)

// A Profile is a set of stacks with their values. Every source becomes a
// Profile, and every format is written from one.
type Profile struct {
	ValueType ValueType // of the stacks' values; samples if zero

	Node     string // version of the first process's Node.js, as "v22.23.3"; may be empty
	V8       string // likewise V8's, as "12.4.254.21"
	Hz       int    // samples a second on each CPU, the actual rate
	HzAsked  int    // the requested rate; 0 if it is not known
	Start    time.Time
	Duration time.Duration
	Total    uint64 // the sum of the stacks' values

	Event  string // what adds to the values, as "syscall:read"; may be empty
	Events uint64 // that Total is of, if values are not numbers of events
	Every  uint64 // of events, one in so many was taken at random, and stands for that many; 0 or 1: each was
	Seen   uint64 // events that happened, if only some were taken; 0: not known

	Throttled     uint64 // samples not taken: the machine could not keep up with HzAsked
	Lost          uint64 // samples taken but not recorded
	Truncated     uint64 // samples whose stack was deeper than the recorded part
	UnknownFrames uint64 // frames, by count, that could not be identified

	Failures map[string]uint64 // what could not be read of stacks, by cause

	Processes []Process // in the profile; what is not known about them is missing
	Stacks    []Stack
	Sources   Sources // of the functions that were asked for

	jsOnly bool // other frames were removed
}

// A Stack is one distinct stack of one thread and what it weighs: of samples,
// how often it was seen.
type Stack struct {
	Value  uint64
	Events uint64 // that Value is of, if values are not numbers of events
	Bucket uint32 // of the values of these events, if they are kept apart (tools/quantize)
	PID    int
	TID    int
	Thread string            // the thread's name, as "node"
	Frames []symbolize.Frame // leaf first
}
