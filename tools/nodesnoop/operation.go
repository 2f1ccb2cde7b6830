package nodesnoop

import (
	"bytes"
	enc "encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/loader"
	"ustack/symbolize/libuv"
	"ustack/tools/jobs"
	"ustack/tools/trace"
)

// attachOperations probes where asynchronous operations begin and end in t's process.
func (s *session) attachOperations(t *target, node *trace.Module) error {
	if !s.o.Kinds.IO {
		return nil
	}
	uv, err := s.libraryOf(t, node, libuv.QueueWork)
	if err == nil && uv == nil {
		err = fmt.Errorf("process %d: no libuv is in it, or it is stripped of all symbols", t.pid)
	}
	if err != nil {
		return err
	}
	places := jobs.Find(uv)
	for _, p := range places.Probes {
		program := s.program(p.Moment)
		if program == nil {
			continue
		}
		var points []loader.Point
		for _, at := range p.Points {
			points = append(points, loader.Point{Offset: at.Offset, Cookie: t.cookie(int64(at.Place))})
		}
		if err := t.probe(uv, loader.Probes{Program: program, Name: p.Name, Points: points}); err != nil {
			return err
		}
	}
	missing, err := s.attachRemotes(t, node)
	if err != nil {
		return err
	}
	if missing = append(missing, places.Missing...); len(missing) > 0 {
		s.Warn(fmt.Errorf("process %d: Node.js or libuv is stripped of symbols, or not built as usual, so it is not seen %s", t.pid, strings.Join(missing, ", ")))
	}
	return nil
}

// program returns the program that runs at a moment of jobs; nil if none does.
func (s *session) program(m jobs.Moment) *ebpf.Program {
	o := &s.objects
	return map[jobs.Moment]*ebpf.Program{
		jobs.Begun: o.OnRun, jobs.Ran: o.OnRan, jobs.Completed: o.OnDone, jobs.Submitted: o.OnSubmit, jobs.Queued: o.OnQueue,
	}[m]
}

// operation takes an asynchronous operation from the kernel.
func (s *session) operation(raw []byte) {
	o := trace.Decode[bpf.NodesnoopOperation](raw)
	j := &o.Job
	e := &s.event
	*e = Event{
		Kind: IO, PID: int(j.Ids >> 32), TID: int(uint32(j.Ids)),
		Begun: s.clock.time(j.Submitted), Monotonic: time.Duration(j.Submitted), Latency: between(j.Submitted, o.Completed),
		Failure: failure(o.Result),
	}
	if j.Begun != 0 && j.Ended >= j.Begun {
		e.Wait, e.Run = between(j.Submitted, j.Begun), between(j.Begun, j.Ended)
	}
	text, _, _ := bytes.Cut(o.Target[:], []byte{0})
	e.URL = string(text)
	switch {
	case o.Kind == uint32(opConnect):
		e.Method, e.Peer = "connect", peerAt(o.Target[:])
		e.URL = e.Peer.String()
	case o.Kind == uint32(opConnectPath):
		e.Method, e.Peer = "connect", Peer{Path: e.URL}
	case o.Kind == uint32(opQuery):
		e.Method, e.Failure = resolves(o.Type), queryFailure(o.Result)
	case o.Kind == uint32(opReverse):
		e.Method, e.Failure = "dns.reverse", queryFailure(o.Result)
		e.URL = peerAt(o.Target[:]).Addr.String()
	case o.Kind == uint32(bpf.TraceWorkKindWORK_QUEUED):
		e.Method = s.queuedBy(uint32(o.Generation), o)
		e.settle(o)
	default:
		e.Method = jobs.Operation(bpf.TraceWorkKind(o.Kind), o.Type)
	}
	switch {
	case o.Kind == uint32(bpf.TraceWorkKindWORK_NAMEINFO):
		e.URL = peerAt(o.Target[:]).Addr.String()
	case o.Kind == uint32(bpf.TraceWorkKindWORK_FS) && e.URL == "" && o.File >= 0:
		e.URL = fmt.Sprintf("fd %d", o.File)
	}
	e.URLBytes = len(e.URL)
	if len(e.URL) == targetBytes-1 {
		e.URLBytes++ // there may be more
	}
	s.handle(o.Generation)
}

const targetBytes = int(bpf.NodesnoopOperationLimitTARGET_BYTES)

// settle says what work that was given to uv_queue_work came to, if that is known: only its own class
// knows, and what the work was on.
func (e *Event) settle(o *bpf.NodesnoopOperation) {
	var err int32
	switch e.Method {
	case "fs.readFile":
		err = o.ReadError
	case "fs.writeFile":
		err = o.WriteError
	default:
		e.URL = ""
	}
	if e.Failure != "" {
		return
	}
	if e.Failure = failure(int64(err)); e.URL == "" {
		e.Outcome = Unknown
	}
}

// queuedBy names work that was given to uv_queue_work: the add-on's function that does it, or
// what node's class does.
func (s *session) queuedBy(generation uint32, o *bpf.NodesnoopOperation) string {
	for _, address := range o.Job.Functions {
		if f := s.Table.Native(generation, address); jobs.IsAddon(f) {
			return jobs.Function(f)
		}
	}
	if name := jobs.OfClass(s.Table.Class(generation, o.Job.Class)); name != "" {
		return name
	}
	return jobs.Function(s.Table.Native(generation, o.Job.Functions[0]))
}

// lookupErrors are libuv's errors of name look-ups (include/uv/errno.h), as node has them.
var lookupErrors = map[int64]string{
	-3000: "EAI_ADDRFAMILY", -3001: "EAI_AGAIN", -3002: "EAI_BADFLAGS", -3003: canceled, -3004: "EAI_FAIL",
	-3005: "EAI_FAMILY", -3006: "EAI_MEMORY", -3007: "ENOTFOUND", -3008: "ENOTFOUND", -3009: "EAI_OVERFLOW",
	-3010: "EAI_SERVICE", -3011: "EAI_SOCKTYPE", -3013: "EAI_BADHINTS", -3014: "EAI_PROTOCOL",
}

const canceled = "ECANCELED"

// failure names libuv's number of an error; empty if it is none.
func failure(result int64) string {
	if result >= 0 {
		return ""
	}
	if name, ok := lookupErrors[result]; ok {
		return name
	}
	if name := unix.ErrnoName(syscall.Errno(-result)); name != "" {
		return name
	}
	return fmt.Sprintf("error %d", result)
}

// peerAt returns what a struct sockaddr holds.
func peerAt(address []byte) Peer {
	port := int(enc.BigEndian.Uint16(address[2:]))
	switch enc.NativeEndian.Uint16(address) {
	case unix.AF_INET:
		return Peer{Addr: netip.AddrFrom4([4]byte(address[4:])), Port: port}
	case unix.AF_INET6:
		return Peer{Addr: netip.AddrFrom16([16]byte(address[8:])).Unmap(), Port: port}
	}
	return Peer{}
}

// String returns an address with its port, or a path.
func (p Peer) String() string {
	if !p.Addr.IsValid() {
		return p.Path
	}
	return netip.AddrPortFrom(p.Addr, uint16(p.Port)).String()
}
