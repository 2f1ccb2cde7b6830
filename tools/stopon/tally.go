package stopon

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/tools/event"
)

// A Tally is how often a trigger matched, as the kernel counted: exact, also
// where nothing was reported.
type Tally struct {
	Trigger string `json:"trigger"`        // as of a Hit
	What    string `json:"what,omitempty"` // the system call, the function or the signal
	Matches uint64 `json:"matches"`
	Limited uint64 `json:"limited"` // of these, came too soon after others
	Lost    uint64 `json:"lost"`    // of these, the kernel had no room for
}

// triggers are the words for the kernel's triggers.
var triggers = map[bpf.TraceTrigger]string{
	bpf.TraceTriggerTRIGGER_SYSCALL: "syscall", bpf.TraceTriggerTRIGGER_ENTRY: "function",
	bpf.TraceTriggerTRIGGER_RETURN: "return", bpf.TraceTriggerTRIGGER_USDT: "usdt", bpf.TraceTriggerTRIGGER_SIGNAL: "signal",
	bpf.TraceTriggerTRIGGER_EXIT: "exit", bpf.TraceTriggerTRIGGER_STALL: "stall",
	bpf.TraceTriggerTRIGGER_JS: "js", bpf.TraceTriggerTRIGGER_THROW: "throw",
	bpf.TraceTriggerTRIGGER_UNCAUGHT: "uncaught",
}

// tallies reads the kernel's counters, those with the most matches first.
func (s *session) tallies() ([]Tally, error) {
	var all []Tally
	var key bpf.StoponTallyKey
	var value bpf.StoponTally
	entries := s.objects.Tallies.Iterate()
	for entries.Next(&key, &value) {
		t := Tally{Trigger: triggers[bpf.TraceTrigger(key.Trigger)], Matches: value.Matches, Limited: value.Limited, Lost: value.Lost}
		switch bpf.TraceTrigger(key.Trigger) {
		case bpf.TraceTriggerTRIGGER_SYSCALL:
			t.What = event.SyscallOf(key.What).Name
		case bpf.TraceTriggerTRIGGER_ENTRY, bpf.TraceTriggerTRIGGER_RETURN:
			t.What = s.o.Functions[key.What].String()
		case bpf.TraceTriggerTRIGGER_USDT:
			t.What = s.o.USDTs[key.What].String()
		case bpf.TraceTriggerTRIGGER_SIGNAL:
			t.What = signalName(unix.Signal(key.What))
		}
		all = append(all, t)
	}
	if err := entries.Err(); err != nil {
		return nil, fmt.Errorf("read how often triggers matched: %w", err)
	}
	slices.SortFunc(all, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.Matches, a.Matches), cmp.Compare(a.Trigger, b.Trigger), cmp.Compare(a.What, b.What))
	})
	return all, nil
}
