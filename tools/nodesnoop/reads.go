package nodesnoop

import (
	"context"
	enc "encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/process"
	"ustack/tools/descriptors"
	"ustack/tools/trace"
)

// A server's requests are found by a probe in its parser, or in what its sockets receive, which
// costs less (bpf/received.h). The probe finds all of them. It is replaced in a process only after
// all requests, for some time, could have been found without it.

// A proof is what has to be seen before a process's requests are found in what it receives.
type proof struct {
	each  time.Duration // so often, on average, a request comes that could be found so, and no other
	ports time.Duration // for so long, if all ports that the process listens on have served some
	all   time.Duration // and else for so long
}

var usualProof = proof{each: time.Millisecond, ports: time.Second, all: 30 * time.Second}

// portSet are ports; 0: none.
type portSet = [len(bpf.NodesnoopServing{}.Ports)]uint16

// heads is how the heads of a process's requests are found.
type heads struct {
	node  *trace.Module
	place place
	links []link.Link // to the probe; nil: by what is received, or not at all
	fixed bool        // node does not say what is needed to find them otherwise

	plain uint64        // how many were found so far that need no probe
	lasts time.Duration // for how long they have been many
	ports portSet       // those that have served some, when it was asked for last whether they are all
	asked bool          // it is to be asked
	long  bool          // they have been many for proof.all
}

// attachHeads attaches the probe.
func (s *session) attachHeads(t *target) (err error) {
	if !s.o.Kinds.Server || t.heads.node == nil {
		return nil
	}
	t.heads.links, err = t.attachProbes(t.heads.node, t.probes(t.heads.place))
	return err
}

// attachReceipts runs a program where sockets have received something, if it does not run yet.
func (s *session) attachReceipts() (err error) {
	if s.receipts == nil {
		s.receipts, err = loader.RawTracepoint(loader.ReceiveTracepoint, s.objects.OnReceived)
	}
	return err
}

// chooseReads decides for each process how its requests are found.
func (s *session) chooseReads() {
	if s.sends == nil || !s.o.Kinds.Server {
		return
	}
	now := time.Now()
	tick := now.Sub(s.chosen)
	s.chosen = now
	s.mutex.Lock()
	var asked []*target
	for _, t := range s.targeted {
		s.warnOfProcess(t, s.chooseRead(t, tick))
		if t.heads.asked {
			asked = append(asked, t)
		}
	}
	s.mutex.Unlock()
	for _, t := range asked { // without the lock: this may take time, and events need it
		may := mayTake(t.pid, t.heads.ports[:], t.heads.long)
		s.mutex.Lock()
		t.heads.asked = false
		if !may && t.heads.long {
			t.heads.lasts = 0
		}
		if may && s.targeted[t.pid] == t && t.isProbed() {
			s.warnOfProcess(t, s.takeReads(t))
		}
		s.mutex.Unlock()
	}
}

// warnOfProcess reports an error once: what failed may be tried again at each tick.
func (s *session) warnOfProcess(t *target, err error) {
	if err != nil {
		s.Table.Warn(fmt.Errorf("process %d: %w", t.pid, err))
	}
}

// isProbed reports whether the probe finds a process's requests, and need not.
func (t *target) isProbed() bool {
	return t.node.Reads == uint32(bpf.NodesnoopReadsREADS_BY_PROBE) && t.heads.node != nil && !t.heads.fixed && len(t.links) > 0
}

// chooseRead decides for one process, after a tick of that length. Whether its requests may be found in what
// it receives is left to what its ports are.
func (s *session) chooseRead(t *target, tick time.Duration) error {
	taken := t.node.Reads == uint32(bpf.NodesnoopReadsREADS_TAKEN) && len(t.links) > 0
	if !taken && !t.isProbed() {
		return nil
	}
	var v bpf.NodesnoopServing
	if err := s.objects.Servings.Lookup(t.number, &v); err != nil {
		return fmt.Errorf("read how it serves: %w", err)
	}
	switch {
	case v.Unfit != 0:
		return s.leaveReads(t)
	case taken:
		return s.detachHeads(t)
	}
	p, h := s.o.proof, &t.heads
	h.count(v.Plain, tick, p.each)
	h.long = h.lasts >= p.all
	if h.long || (h.lasts >= p.ports && h.ports != v.Ports) {
		h.ports, h.asked = v.Ports, true
	}
	return nil
}

// count notes how many requests there were at the end of a tick, which are many if there was one
// each so long.
func (h *heads) count(plain uint64, tick, each time.Duration) {
	h.lasts += tick
	if time.Duration(plain-h.plain)*each < tick {
		h.lasts = 0
	}
	h.plain = plain
}

// takeReads has a process's requests found in what its sockets receive. While the probe is attached,
// too, no request is found twice.
func (s *session) takeReads(t *target) error {
	return errors.Join(s.attachReceipts(), s.describeReads(t, bpf.NodesnoopReadsREADS_TAKEN))
}

// detachHeads removes the probe a tick after takeReads: what was received before that is parsed by now.
func (s *session) detachHeads(t *target) error {
	links := t.heads.links
	if links == nil {
		return nil
	}
	t.heads.links = nil
	err := loader.CloseAll(links)
	if s.o.reads != nil {
		s.o.reads(t.pid, bpf.NodesnoopReadsREADS_TAKEN)
	}
	return err
}

// leaveReads has them found by the probe, for good: one has come that can be found by that only,
// or one that is encrypted may come.
func (s *session) leaveReads(t *target) error {
	if t.heads.links == nil {
		if err := s.attachHeads(t); err != nil {
			return err
		}
	}
	err := s.describeReads(t, bpf.NodesnoopReadsREADS_LEFT)
	if s.o.reads != nil {
		s.o.reads(t.pid, bpf.NodesnoopReadsREADS_LEFT)
	}
	return err
}

// describeReads tells the kernel how requests are found.
func (s *session) describeReads(t *target, reads bpf.NodesnoopReads) error {
	t.node.Reads = uint32(reads)
	return s.describe(t)
}

// unfit handles an event: a process's requests can be found by the probe only.
func (s *session) unfit(record []byte) {
	const numberAt = 4
	if len(record) < numberAt+4 {
		return
	}
	number := enc.NativeEndian.Uint32(record[numberAt:])
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, t := range s.targeted {
		if t.number != number {
			continue
		}
		s.warnOfProcess(t, s.chooseRead(t, 0))
	}
}

// endpoints are what ports a process listens on, and which its connections have; without one it is 0.
type endpoints struct {
	listening, connected []uint16
}

// mayTake reports whether a process's requests may be found in what it receives, if some of these ports
// could. It must listen on no others; or, if it has served for long, have no connections of others:
// they may be encrypted, which only their beginning says.
func mayTake(pid int, ports []uint16, long bool) bool {
	own, err := readEndpoints(pid)
	if err == nil && len(own.listening) == 0 {
		own.listening, err = parentListens(pid) // for the workers of a cluster
	}
	if err != nil {
		return false
	}
	all := len(own.listening)
	others := slices.DeleteFunc(own.listening, func(port uint16) bool { return port != 0 && slices.Contains(ports, port) })
	if all > 0 && len(others) == 0 {
		return true
	}
	return long && !slices.ContainsFunc(own.connected, func(port uint16) bool { return port != 0 && slices.Contains(others, port) })
}

// parentListens returns the ports that a process's parent listens on.
func parentListens(pid int) ([]uint16, error) {
	p, err := process.Open(pid)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	parent, err := p.Parent()
	if err != nil || parent == 0 {
		return nil, err
	}
	e, err := readEndpoints(parent)
	return e.listening, err
}

func readEndpoints(pid int) (e endpoints, err error) {
	open, err := descriptors.Read(context.Background(), pid)
	if err != nil {
		return e, err
	}
	if open.Partial {
		return e, fmt.Errorf("process %d has too many descriptors", pid)
	}
	for _, d := range open.All {
		if d.Socket == nil || d.Socket.Type != unix.SOCK_STREAM {
			continue
		}
		local, _ := netip.ParseAddrPort(d.Socket.Local) // of a Unix socket it is a path
		if d.Socket.State == descriptors.Listen {
			e.listening = append(e.listening, local.Port())
		} else {
			e.connected = append(e.connected, local.Port())
		}
	}
	return e, nil
}
