package addonlat

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/quantize"
)

// A Slice is what was counted within a short time.
type Slice struct {
	Begin, End time.Time
	Kinds      []SliceKind // those with completed jobs, or with a name that is known now
}

// A SliceKind is the jobs of one kind within a slice.
type SliceKind struct {
	ID    any // the same in all slices; several may turn out to be of the same PID and Key
	PID   int
	Key   string
	Stack []symbolize.Frame // as of a Kind
	// Parts are the counts of Kind's Total, Wait, Run and Delivery, Sums their times in ns.
	Parts [4][quantize.Slots]uint64
	Sums  [4]uint64
}

// A slicer makes slices of sums that only grow: by their differences.
type slicer struct {
	current Slice
	due     time.Time // when the current slice ends; zero if there are no slices
	last    map[bpf.AddonlatKindKey]*lastSums
}

// lastSums are a kind's counts at the end of the last slice.
type lastSums struct {
	kind  Kind // without counts
	parts [4][quantize.Slots]uint64
	sums  [4]uint64
}

// begin begins the first slice, which lasts so long.
func (s *slicer) begin(now time.Time, width time.Duration) {
	if width > 0 {
		s.current.Begin, s.due = now, now.Add(width)
		s.last = make(map[bpf.AddonlatKindKey]*lastSums)
	}
}

// add puts what has grown since the last slice into the current one.
func (s *slicer) add(key bpf.AddonlatKindKey, kind Kind, sums *bpf.AddonlatKind) {
	if s.due.IsZero() {
		return
	}
	last := s.last[key]
	if last == nil {
		last = new(lastSums)
		s.last[key] = last
	}
	renamed := last.kind.Key != "" && last.kind.Key != kind.Key
	last.kind = kind
	grown := SliceKind{ID: key, PID: kind.PID, Key: kind.Key, Stack: kind.Stack}
	var total uint64
	for i := range sums.Parts {
		for bucket, n := range sums.Parts[i].Buckets {
			more := n - last.parts[i][bucket]
			grown.Parts[i][bucket] = more
			total += more
		}
		last.parts[i] = sums.Parts[i].Buckets
		grown.Sums[i] = sums.Parts[i].Sum - last.sums[i]
		last.sums[i] = sums.Parts[i].Sum
	}
	if total > 0 || renamed {
		s.current.Kinds = append(s.current.Kinds, grown)
	}
}

// sliceIfDue ends the current slice if it is time. It returns the time until the next
// has to end, at most until the usual tick.
func (s *session) sliceIfDue(now time.Time) (time.Duration, error) {
	if s.slicer.due.IsZero() {
		return 0, nil
	}
	var err error
	if !now.Before(s.slicer.due) {
		err = s.slice(now)
	}
	return min(max(s.slicer.due.Sub(now), time.Millisecond), usualTick), err
}

// usualTick is the longest time between two calls of tick.
const usualTick = 250 * time.Millisecond

// slice ends the current slice with what the kernel has counted so far.
func (s *session) slice(now time.Time) error {
	var key bpf.AddonlatKindKey
	var sums bpf.AddonlatKind
	entries := s.objects.Kinds.Iterate()
	for entries.Next(&key, &sums) {
		key.Turn = 0 // all have the same
		var kind Kind
		if last := s.slicer.last[key]; last != nil && last.kind.Key != unknown {
			kind = last.kind
		} else {
			kind = s.kind(key)
		}
		if kind.Builtin && !s.o.Builtin {
			continue
		}
		s.slicer.add(key, kind, &sums)
	}
	s.endSlice(now)
	if err := entries.Err(); err != nil && !errors.Is(err, ebpf.ErrIterationAborted) { // then the next has the rest
		return fmt.Errorf("read the kernel's sums: %w", err)
	}
	return nil
}

// endSlice passes on the current slice and begins the next.
func (s *session) endSlice(now time.Time) {
	if s.slicer.due.IsZero() {
		return
	}
	slice := s.slicer.current
	slice.End = now
	s.slicer.current = Slice{Begin: now}
	s.slicer.due = now.Add(s.o.Slice(&slice))
}
