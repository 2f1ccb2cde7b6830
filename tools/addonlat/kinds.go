package addonlat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize"
	"ustack/tools/jobs"
	"ustack/tools/quantize"
)

// report takes from the kernel what it has counted since the last report, until now.
func (s *session) report(now time.Time) (*Report, error) {
	kinds, err := s.takeKinds(now)
	if err != nil {
		return nil, err
	}
	failures, err := s.Failures(s.objects.Failures)
	if err != nil {
		return nil, err
	}
	r := &Report{
		Failures:   failures,
		Duration:   now.Sub(s.begun),
		Kinds:      kinds,
		Pools:      s.pools(now),
		Lost:       s.Count(s.objects.Lost) + s.Count(s.objects.LostEvents),
		Unfollowed: s.Count(s.objects.Unfollowed),
	}
	s.endInterval(now)
	return r, nil
}

// pools returns what happened in the pools between the last report and at.
func (s *session) pools(at time.Time) []Pool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var pools []Pool
	for _, t := range s.all {
		now, err := s.poolNow(t)
		if err != nil {
			s.Warn(err)
			continue
		}
		t.read = *now
		pools = append(pools, t.pool(now, at))
	}
	slices.SortFunc(pools, func(a, b Pool) int { return cmp.Compare(a.PID, b.PID) })
	return pools
}

func (s *session) poolNow(t *target) (*bpf.AddonlatPool, error) {
	if !t.ended.IsZero() {
		return &t.final, nil
	}
	now := new(bpf.AddonlatPool)
	if err := s.objects.Pools.Lookup(t.number, now); err != nil {
		return nil, fmt.Errorf("read the pool of process %d: %w", t.pid, err)
	}
	return now, nil
}

// pool returns the target's pool from now, at that time, less what was reported before.
func (t *target) pool(now *bpf.AddonlatPool, at time.Time) Pool {
	p := Pool{
		PID: t.pid, Inside: t.inside, Threads: t.threads(), Deepest: now.Deepest,
		SlowQuota: now.SlowQuota - t.last.SlowQuota,
		Submitted: now.Submitted - t.last.Submitted,
		Completed: now.Completed - t.last.Completed,
		Cancelled: now.Cancelled - t.last.Cancelled,
		Failed:    now.Failed - t.last.Failed,
		Before:    now.Before - t.last.Before,
		Uring:     now.Uring - t.last.Uring,
		InFlight:  now.Submitted - now.Completed, Unseen: t.unseen,
	}
	if p.Threads == 0 && now.Submitted > 0 { // it ended before libuv's count was read
		p.Threads = t.assumed
	}
	if !t.ended.IsZero() {
		at = t.ended
	}
	if thread := at.Sub(t.begun); p.Threads > 0 && thread > 0 {
		p.Busy = min(float64(now.Busy-t.last.Busy)/float64(p.Threads)/float64(thread), 1)
	}
	return p
}

// endInterval makes the next report begin where this one, which was begun at now, has ended:
// with the pools as they were read for it, and without targets that had ended by then.
func (s *session) endInterval(now time.Time) {
	s.begun = now
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for generation, t := range s.all {
		if !t.ended.IsZero() && t.ended.Before(now) {
			delete(s.all, generation)
			continue
		}
		t.last = t.read
		if t.begun.Before(now) {
			t.begun = now
		}
	}
}

// takeKinds moves the kernel's sums to user space, merging those with the same key.
func (s *session) takeKinds(now time.Time) ([]Kind, error) {
	type name struct {
		pid int
		key string
	}
	byName := make(map[name]*Kind)
	err := loader.Drain(s.objects.Kinds, s.objects.Turn, turnOf, func(key bpf.AddonlatKindKey, sums *bpf.AddonlatKind) {
		kind := s.kind(key)
		if kind.Builtin && !s.o.Builtin {
			return
		}
		s.slicer.add(key, kind, sums)
		delete(s.slicer.last, key) // the kernel starts over, too
		n := name{kind.PID, kind.Key}
		if byName[n] == nil {
			byName[n] = &kind
		}
		byName[n].add(sums, s.o.Linear)
	})
	if err != nil {
		return nil, err
	}
	s.endSlice(now)
	var kinds []Kind
	for _, k := range byName {
		kinds = append(kinds, *k)
	}
	slices.SortFunc(kinds, func(a, b Kind) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), cmp.Compare(a.Key, b.Key))
	})
	return kinds, nil
}

func turnOf(key *bpf.AddonlatKindKey) *uint16 { return &key.Turn }

// add adds the kernel's sums to k.
func (k *Kind) add(sums *bpf.AddonlatKind, linear *quantize.LQuantize) {
	k.Cancelled += sums.Cancelled
	k.Failed += sums.Failed
	for i, h := range []*quantize.Histogram{&k.Total, &k.Wait, &k.Run, &k.Delivery} {
		part := &sums.Parts[i]
		added := quantize.Histogram{Sum: part.Sum, Min: part.Min, Max: part.Max, Buckets: part.Buckets}
		for _, n := range part.Buckets {
			added.Count += n
		}
		h.Merge(&added)
	}
	k.Count = k.Total.Count
	if linear == nil {
		return
	}
	if k.Linear == nil {
		k.Linear = &quantize.LQuantize{
			Low: linear.Low, High: linear.High, Step: linear.Step, Counts: make([]uint64, len(linear.Counts)),
		}
	}
	for i := range k.Linear.Counts {
		k.Linear.Counts[i] += sums.Linear[i]
	}
}

// kind returns what the kernel's key stands for, without counts.
func (s *session) kind(key bpf.AddonlatKindKey) Kind {
	s.mutex.Lock()
	by, ok := s.kinds[key.Kind]
	t := s.all[key.Generation]
	s.mutex.Unlock()
	var k Kind
	if t != nil {
		k.PID = t.pid
	}
	var frames []symbolize.Frame
	if ok {
		frames, _ = s.Table.Frames(by.stack)
	}
	work := bpf.TraceWorkKind(key.Work)
	addon := by.stack.Addon
	if by.stack.NewCode { // what it was is known only now
		addon = mayBeAddons(frames)
	}
	k.Builtin = work != bpf.TraceWorkKindWORK_QUEUED || ok && !addon
	switch {
	case s.o.By <= Resource && work != bpf.TraceWorkKindWORK_QUEUED:
		k.Key = jobs.Operation(work, int32(key.Operation))
	case len(frames) == 0:
		k.Key = unknown // its record was lost, which is counted
	case s.o.By == JS:
		k.Key = javascript(caller(frames))
		if k.Key == noJavaScript && by.stack.NewCode {
			k.Key = tooEarly
		}
	case s.o.By == Stack:
		k.Stack = frames
		k.Key = s.o.text(frames)
	case k.Builtin && s.o.By <= Resource:
		k.Key = nodesOwn(frames)
	default:
		submitter := frames[max(0, slices.IndexFunc(frames, jobs.IsAddon), slices.IndexFunc(frames, isLost))]
		if by.jumped != "" {
			submitter.Name = by.jumped
		}
		k.Key = s.named(submitter, frames)
	}
	return k
}

// isLost reports whether a frame is in a library that was never seen: the process had
// ended before its mappings were read again.
func isLost(f symbolize.Frame) bool {
	return f.Module == "" && f.Name == symbolize.Unknown && f.Offset != 0
}

// mayBeAddons reports whether a stack through new code is an add-on's, as far as is
// known by now: the classes of node's own jobs have names.
func mayBeAddons(frames []symbolize.Frame) bool {
	own := len(frames) > 0 && strings.HasPrefix(frames[len(frames)-1].Name, "node::")
	return slices.ContainsFunc(frames, jobs.IsAddon) || slices.ContainsFunc(frames, isLost) && !own
}

// named returns the add-on's function, or if that has no symbol the name that the work
// was given.
func (s *session) named(submitter symbolize.Frame, frames []symbolize.Frame) string {
	if given := givenName(frames); s.o.By == Function && (jobs.IsAddon(submitter) || isLost(submitter)) && jobs.IsNameless(submitter) && given != "" {
		return given
	}
	return jobs.Function(submitter)
}

// givenName returns the name of the work, which comes after the code; empty if it has none.
func givenName(frames []symbolize.Frame) string {
	for _, f := range slices.Backward(frames) {
		if f.Module == "" && f.Kind == symbolize.Native && f.Offset == 0 && !jobs.IsNameless(f) {
			return f.Name
		}
	}
	return ""
}

// caller returns the program's own function nearest among the frames, or the nearest of
// node's if there is none.
func caller(frames []symbolize.Frame) symbolize.Frame {
	own := func(f symbolize.Frame) bool {
		return f.Kind == symbolize.JS && f.File != "" && !strings.HasPrefix(f.File, "node:")
	}
	return frames[max(0, slices.IndexFunc(frames, own))]
}

// text returns a string that distinguishes stacks.
func (o Options) text(frames []symbolize.Frame) string {
	var lines []string
	for _, f := range frames {
		tier := symbolize.NoTier
		if o.Tiers {
			tier = f.Tier
		}
		lines = append(lines, fmt.Sprintf("%d %s %s %s:%d:%d %s", f.Kind, f.Name, f.Module, f.File, f.Line, f.Column, tier))
	}
	return strings.Join(lines, "\n")
}

// unknown is the key of jobs whose submitter is not known, or not yet.
const unknown = "(unknown)"

// Keys of jobs whose JavaScript caller has no name: there is no such caller, or V8 had
// put its code in memory that had not been read yet.
const (
	noJavaScript = "(no JavaScript)"
	tooEarly     = "(submitted before V8's code was known)"
)

// javascript formats the function with its location.
func javascript(f symbolize.Frame) string {
	switch {
	case f.Kind != symbolize.JS:
		return noJavaScript
	case f.Line == 0:
		return strings.TrimSpace(f.Name + " " + f.File)
	}
	return fmt.Sprintf("%s %s:%d:%d", f.Name, f.File, f.Line, f.Column)
}

// nodesOwn returns which part of node submitted the job, by the job's class, which the
// kernel puts last; otherwise node's function.
func nodesOwn(frames []symbolize.Frame) string {
	if name := jobs.OfClass(frames[len(frames)-1].Name); name != "" {
		return name
	}
	for _, f := range frames[:len(frames)-1] {
		if !strings.HasPrefix(f.Name, "uv_") && !strings.HasPrefix(f.Name, "Builtins_") {
			return jobs.Function(f)
		}
	}
	return jobs.Function(frames[0])
}
