package nodesnoop

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/nodehttp"
	"ustack/tools/trace"
)

// A target is one program in one process.
type target struct {
	pid        int
	inside     int // see trace.Identity
	generation uint64
	number     uint32            // of its node, in the kernel
	node       bpf.NodesnoopNode // as the kernel has it
	links      []link.Link
	heads      heads
	kinds      map[uint32]string // of garbage collections
	loop       *loopClock        // nil if it is not known
}

// closeSymbol is a function that every node exports, wherever it is.
const closeSymbol = "_ZN4node10HandleWrap5CloseEN2v85LocalINS1_5ValueEEE"

// attach watches process pid, which the table has started to trace.
func (s *session) attach(pid int) error {
	t := &target{pid: pid, inside: s.Table.Inside(pid), generation: uint64(s.Table.Generation(pid))}
	s.detach(pid) // if it has a new program
	node, err := s.Table.Module(pid, closeSymbol)
	if err == nil && node == nil {
		err = fmt.Errorf("process %d: %w", pid, nodehttp.ErrNoNode)
	}
	if err != nil {
		if errors.Is(err, nodehttp.ErrNoNode) && len(s.o.Command) > 0 {
			return nil // a shell, say: its children, or its next program, may be node
		}
		return err
	}
	places, err := s.find(node)
	if s.listing != nil {
		s.listing[pid] = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("process %d: %w", pid, err)
	}
	s.mutex.Lock()
	t.number = s.numbers.Take()
	s.all[t.generation] = t // its events may come at once
	s.mutex.Unlock()
	err = s.attachTo(t, node, places)
	if err != nil {
		err = errors.Join(err, t.close(), s.forget(t))
	}
	if s.started.Load() && s.isLate(pid) {
		s.late.Add(1)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		s.numbers.GiveBack(t.number)
		delete(s.all, t.generation)
		return err
	}
	s.targeted[pid] = t
	return nil
}

// early is how long after a process has begun the kernel half notes that it sends.
const early = 2 * time.Second // EARLY

// isLate reports whether process pid, which has just begun, has sent something before it was watched;
// or, where that cannot be known, has connections.
func (s *session) isLate(pid int) bool {
	if !s.noted {
		e, err := readEndpoints(pid)
		return err == nil && slices.ContainsFunc(e.connected, func(port uint16) bool { return port != 0 })
	}
	var sent uint64
	err := s.objects.EarlySenders.Lookup(uint32(pid), &sent)
	return err == nil && clockOf(unix.CLOCK_BOOTTIME)-int64(sent) < int64(early) // else an earlier process has
}

// miss notes that process pid has ended before it could be watched.
func (s *session) miss(pid int) {
	if s.isLate(pid) {
		s.missed.Add(1)
	}
}

// found is what is known about one node.
type found struct {
	layout      *nodehttp.Layout      // nil if only collections are wanted
	collections *nodehttp.Collections // nil if they cannot be found, and are not asked for
	fileJobs    nodehttp.FileJobs     // zero if they are not wanted or cannot be found
}

// find finds where node is observed. A file that was read before, which takes long, is known: the next
// process that runs it is watched as soon as it begins.
func (s *session) find(node *trace.Module) (f found, err error) {
	s.mutex.Lock()
	f, known := s.files[node.ID]
	s.mutex.Unlock()
	if known {
		return f, nil
	}
	f.collections, err = nodehttp.FindCollections(node)
	if err != nil && s.o.Kinds.GC {
		return f, err
	}
	if s.o.Kinds.Server || s.o.Kinds.Client {
		if f.layout, err = nodehttp.Find(node); err != nil {
			return f, err
		}
	}
	if s.o.Kinds.IO {
		f.fileJobs, _ = nodehttp.FindFileJobs(node)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.files[node.ID] = f
	return f, nil
}

// attachTo tells the kernel where t's process has what is read, and probes it: the ends of
// requests first, so that one whose beginning is seen is seen to its end.
func (s *session) attachTo(t *target, node *trace.Module, f found) error {
	t.node.Generation, t.node.Number, t.node.HasSends = t.generation, t.number, flag(s.sends != nil)
	t.node.Tgid = uint32(t.pid)
	if l := f.layout; l != nil {
		t.node.Wrap = uint32(l.Wrap)
		t.node.Stream, t.node.Url, t.node.Started = uint32(l.Stream), uint32(l.URL), uint32(l.Started)
		t.node.Wrapped, t.node.Session, t.node.Idle = uint32(l.Wrapped), uint32(l.Session), uint32(l.Idle)
	}
	j := f.fileJobs
	t.node.FilePath, t.node.ReadError, t.node.WriteError = uint32(j.Path), uint32(j.ReadError), uint32(j.WriteError)
	if f.collections != nil {
		t.kinds = f.collections.Kinds
	}
	err := errors.Join(
		s.objects.Servings.Put(t.number, new(bpf.NodesnoopServing)), s.objects.MainPauses.Put(t.number, new(bpf.NodesnoopThreadPauses)),
		s.describe(t), s.enter(t),
	)
	if err != nil {
		return err
	}
	t.loop = newLoopClock(node, f.layout)
	if err := s.describeLoop(t); err != nil {
		return err
	}
	for _, p := range s.places(f) {
		if err := t.probe(node, t.probes(p)); err != nil {
			return err
		}
	}
	if f.layout != nil {
		t.heads = heads{node: node, place: place{s.objects.OnHeaders, f.layout.Headers, false}, fixed: !f.layout.Pauses}
	}
	if err := s.attachHeads(t); err != nil {
		return err
	}
	if err := s.attachOperations(t, node); err != nil {
		return err
	}
	t.node.Opened = uint64(monotonic())
	return s.describe(t)
}

// describe tells the kernel about the node of a process.
func (s *session) describe(t *target) error {
	if err := s.objects.Nodes.Put(t.number, &t.node); err != nil {
		return fmt.Errorf("tell the kernel about process %d: %w", t.pid, err)
	}
	return nil
}

// nodeSlots is how many slots the kernel has for processes, which the lower bits of their pids
// choose.
const nodeSlots = 1024 // NODE_SLOTS

// A slot is what the kernel has there, and how many processes of that slot are watched.
type slot struct {
	bpf.NodesnoopNodeSlot
	count int
}

// enter has the kernel find a process's node by its pid, until leave.
func (s *session) enter(t *target) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := &s.slots[t.pid%nodeSlots]
	if at.count == 0 {
		at.After = t.number + 1
	} else {
		at.IsShared = 1
	}
	at.count++
	if err := errors.Join(s.objects.NodeNumbers.Put(uint32(t.pid), t.number), s.putSlot(t.pid)); err != nil {
		return fmt.Errorf("tell the kernel about process %d: %w", t.pid, err)
	}
	return nil
}

// leave undoes enter.
func (s *session) leave(t *target) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	at := &s.slots[t.pid%nodeSlots]
	at.count--
	switch {
	case at.count == 0:
		*at = slot{}
	case at.After == t.number+1:
		at.After = math.MaxUint32 // a process may get this pid, or this number
	}
	return errors.Join(s.putSlot(t.pid), s.objects.NodeNumbers.Delete(uint32(t.pid)))
}

func (s *session) putSlot(pid int) error {
	number := pid % nodeSlots
	return s.objects.NodeSlots.Put(uint32(number), &s.slots[number].NodesnoopNodeSlot)
}

// describeLoop tells the kernel where the main thread's loop is; it finds those of others itself.
func (s *session) describeLoop(t *target) error {
	if t.loop == nil {
		return nil
	}
	if err := s.objects.Loops.Put(uint64(t.pid)<<32|uint64(t.pid), t.loop.loop); err != nil {
		return fmt.Errorf("tell the kernel about the event loop of process %d: %w", t.pid, err)
	}
	return nil
}

// attachSends runs a program where sockets have taken what is written, which costs a request less
// than one at node's function. Where that cannot be, sends stays nil.
func (s *session) attachSends() (err error) {
	if (s.o.Kinds.Server || s.o.Kinds.Client) && !s.o.preempted && loader.SeesSockets() {
		s.sends, err = loader.RawTracepoint(loader.SendTracepoint, s.objects.OnSent)
		s.noted = err == nil
	}
	return err
}

// places returns where programs are run, in order.
func (s *session) places(f found) (all []place) {
	o := &s.objects
	if c := f.collections; c != nil {
		all = append(
			all,
			place{o.OnGcEpilogue, c.Epilogue, false}, place{o.OnGcPrologue, c.Prologue, false},
			place{o.OnCollected, c.Collect, true}, place{o.OnCollector, c.Collector, false}, place{o.OnCollect, c.Collect, false},
		)
	}
	l := f.layout
	if l == nil {
		return all
	}
	write := place{o.OnTryWrite, l.TryWrite, false}
	if s.sends != nil {
		write = place{o.OnConnecting, l.Connect, false}
	}
	all = append(
		all,
		place{o.OnClose, l.Close, false}, place{o.OnShutdown, l.Shutdown, false}, place{o.OnRead, l.Read, false},
		place{o.OnTlsWrite, l.TLSWrite, false}, write,
		place{o.OnH2Close, l.HTTP2Close, false}, place{o.OnH2Received, l.HTTP2Received, false},
		place{o.OnH2Sent, l.HTTP2Sent, false}, place{o.OnH2Field, l.HTTP2Field, false}, place{o.OnH2Begin, l.HTTP2Begin, false},
	)
	if s.o.Kinds.Server {
		all = append(all, place{o.OnFlush, l.Flush, false})
	}
	return all
}

// A place is where a program is run.
type place struct {
	program *ebpf.Program
	points  []nodehttp.Point
	returns bool
}

// probes returns how to run the place's program there.
func (t *target) probes(p place) loader.Probes {
	probes := loader.Probes{Program: p.program, Return: p.returns}
	for _, at := range p.points {
		probes.Name = at.Name
		probes.Points = append(probes.Points, loader.Point{Offset: at.Offset, Cookie: t.cookie(at.Adjust)})
	}
	return probes
}

// attachProbes attaches probes, if there are any, to a module of the process.
func (t *target) attachProbes(m *trace.Module, p loader.Probes) ([]link.Link, error) {
	if len(p.Points) == 0 {
		return nil, nil
	}
	path, err := m.Path()
	if err != nil {
		return nil, fmt.Errorf("probe %s: %w", p.Name, err)
	}
	p.Path, p.PID = path, t.pid
	return loader.AttachProbes(p)
}

// probe attaches probes until the target is closed.
func (t *target) probe(m *trace.Module, p loader.Probes) error {
	links, err := t.attachProbes(m, p)
	t.links = append(t.links, links...)
	return err
}

// cookie is what the kernel half needs of a probe: its node's number in the lower half, what
// to know of the place in the upper half, such as what to add to the first argument.
func (t *target) cookie(place int64) uint64 { return uint64(place)<<32 | uint64(t.number) }

// close removes the probes.
func (t *target) close() error {
	err := loader.CloseAll(slices.Concat(t.links, t.heads.links))
	t.links, t.heads.links = nil, nil
	return err
}

// detach stops watching process pid, which has ended.
func (s *session) detach(pid int) {
	s.mutex.Lock()
	t := s.targeted[pid]
	delete(s.targeted, pid)
	s.mutex.Unlock()
	if t == nil {
		return
	}
	err := errors.Join(t.close(), s.forget(t))
	s.mutex.Lock()
	s.numbers.GiveBack(t.number)
	s.mutex.Unlock()
	if err != nil {
		s.Warn(err)
	}
}

// forget removes from the kernel what it knows about the connections of a program that has
// ended.
func (s *session) forget(t *target) error {
	err := errors.Join(
		s.leave(t),
		loader.RemoveKeys(s.objects.Streams, func(k bpf.NodesnoopStreamKey) bool { return k.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Aliases, func(k bpf.NodesnoopStreamKey) bool { return k.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Requests, func(k bpf.NodesnoopRequestKey) bool { return k.Stream.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Multiplexed, func(k bpf.NodesnoopRequestKey) bool { return k.Stream.Generation == t.generation }),
		loader.RemoveKeys(s.objects.LongUrls, func(k bpf.NodesnoopRequestKey) bool { return k.Stream.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Jobs, func(k bpf.NodesnoopOperationKey) bool { return k.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Exchanges, func(k bpf.NodesnoopOperationKey) bool { return k.Generation == t.generation }),
		loader.RemoveKeys(s.objects.Loops, func(ids uint64) bool { return int(ids>>32) == t.pid }),
		loader.RemoveKeys(s.objects.Pauses, func(ids uint64) bool { return int(ids>>32) == t.pid }),
		loader.RemoveKeys(s.objects.Woken, func(ids uint64) bool { return int(ids>>32) == t.pid }),
	)
	if err != nil {
		return fmt.Errorf("forget process %d: %w", t.pid, err)
	}
	return nil
}

// detachAll removes all probes, so that no more events come. Nothing begins any more when the
// first is removed: what has begun is seen to its end, or not at all.
func (s *session) detachAll() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var errs []error
	var links []link.Link
	for _, t := range s.targeted {
		if len(t.links) == 0 {
			continue
		}
		t.node.Opened = 0
		errs = append(errs, s.describe(t))
		links = slices.Concat(links, t.links, t.heads.links)
		t.links, t.heads.links = nil, nil
	}
	for _, l := range []*link.Link{&s.sends, &s.receipts} {
		if *l != nil {
			links = append(links, *l)
			*l = nil
		}
	}
	return errors.Join(append(errs, loader.CloseAll(links))...)
}

// of returns the target of that generation, which an event is of.
func (s *session) of(generation uint64) *target {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.all[generation]
}
