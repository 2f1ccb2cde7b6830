package stopon

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"ustack/bpf"
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
var triggers = map[bpf.StoponTrigger]string{
	bpf.StoponTriggerTRIGGER_SYSCALL: "syscall", bpf.StoponTriggerTRIGGER_ENTRY: "function",
	bpf.StoponTriggerTRIGGER_RETURN: "return", bpf.StoponTriggerTRIGGER_SIGNAL: "signal",
	bpf.StoponTriggerTRIGGER_EXIT: "exit", bpf.StoponTriggerTRIGGER_STALL: "stall",
	bpf.StoponTriggerTRIGGER_JS: "js", bpf.StoponTriggerTRIGGER_THROW: "throw",
	bpf.StoponTriggerTRIGGER_UNCAUGHT: "uncaught",
}

// tallies reads the kernel's counters, those with the most matches first.
func (s *session) tallies() ([]Tally, error) {
	var all []Tally
	var key bpf.StoponTallyKey
	var value bpf.StoponTally
	entries := s.objects.Tallies.Iterate()
	for entries.Next(&key, &value) {
		t := Tally{Trigger: triggers[bpf.StoponTrigger(key.Trigger)], Matches: value.Matches, Limited: value.Limited, Lost: value.Lost}
		switch bpf.StoponTrigger(key.Trigger) {
		case bpf.StoponTriggerTRIGGER_SYSCALL:
			t.What = callName(key.What)
		case bpf.StoponTriggerTRIGGER_ENTRY, bpf.StoponTriggerTRIGGER_RETURN:
			t.What = s.o.Functions[key.What].String()
		case bpf.StoponTriggerTRIGGER_SIGNAL:
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

func callName(number uint32) string {
	if call := syscallOf(number); call != nil {
		return call.name
	}
	return fmt.Sprintf("syscall_%d", number)
}
