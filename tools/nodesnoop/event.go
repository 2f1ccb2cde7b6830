package nodesnoop

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"ustack/bpf"
	"ustack/symbolize"
	"ustack/tools/trace"
)

// A Kind is what an event is about.
type Kind uint8

// The kinds of events.
const (
	Server  Kind = iota // a request that the process has served
	Client              // a request that the process has made
	GC                  // a garbage collection
	LoopRun             // what an event loop did between two waits
	IO                  // an asynchronous operation besides HTTP
)

// String returns the kind as the column PROBE has it.
func (k Kind) String() string { return [...]string{"server", "client", "gc", "loop", "io"}[k] }

// An Outcome is how a request or an operation ended.
type Outcome uint8

// Outcomes of requests and operations.
const (
	Done    Outcome = iota
	Upgrade         // its connection became something else, such as a WebSocket
	Aborted         // the other side closed the connection before the response was complete
	Closed          // this side did
	Unknown         // of an operation, which an add-on or a class of node's does in its own way
)

// String returns the outcome as the column WHICH has it.
func (o Outcome) String() string {
	return [...]string{"done", "upgrade", "aborted", "closed", "unknown"}[o]
}

// A Peer is the other end of a connection: an address and a port, or the path of a Unix
// socket, which begins with @ if it is abstract and is empty if the socket has none.
type Peer struct {
	Addr netip.Addr // invalid for a Unix socket, and if it is not known
	Port int
	Path string
}

// IsRequest reports whether it is about a request.
func (k Kind) IsRequest() bool { return k <= Client }

// An Event is a request and its response, or one of the other kinds. Texts are as the other
// side sent them: unfit to be printed.
type Event struct {
	Kind   Kind
	PID    int
	Inside int // the PID in the process's own namespace; 0: the same
	TID    int
	Begun  time.Time
	// Monotonic is Begun by CLOCK_MONOTONIC, as process.hrtime has it.
	Monotonic time.Duration
	Latency   time.Duration

	Method    string
	URL       string // as in the request line, up to 2048 bytes
	URLBytes  int    // all of it
	Host      string // a client's Host field, up to 64 bytes
	Status    int    // 0: there was no response
	Bytes     uint64 // of the response, its head's too, before encryption
	TTFB      time.Duration
	GC        time.Duration // collections on the thread meanwhile
	Busy      time.Duration // how long the event loop ran meanwhile; -1: not known
	Encrypted bool
	Peer      Peer
	LocalPort int
	Outcome   Outcome
	EndLost   bool // the response's end was not found: Latency is until its last known byte

	Collection string // the kind of a garbage collection

	// Of an asynchronous operation Method is what it is, such as dns.lookup, fs.open, connect,
	// zlib, crypto.PBKDF2 or an add-on's function, URL the name, path or address.
	Failure string        // as node names the error; empty if there is none
	Wait    time.Duration // until a thread of libuv's pool began; 0 if none does it
	Run     time.Duration // how long the thread took

	// Frames are the stack that a collection interrupted, or that a long iteration had; empty
	// without Options.Stacks, or if it was not taken.
	Frames []symbolize.Frame
}

// A clock converts times of CLOCK_MONOTONIC.
type clock struct {
	at    time.Time
	since int64 // ns
}

func newClock() clock {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // it exists
	return clock{time.Now(), now.Nano()}
}

func (c clock) time(ns uint64) time.Time { return c.at.Add(time.Duration(int64(ns) - c.since)) }

// transaction takes a request and its response from the kernel.
func (s *session) transaction(raw []byte) {
	t := &s.record
	trace.DecodeTo(raw, t)
	e := &s.event
	*e = Event{
		Kind: Kind(t.Role), TID: int(uint32(t.Ids)), PID: int(t.Ids >> 32),
		Begun: s.clock.time(t.Begun), Monotonic: time.Duration(t.Begun), Latency: between(t.Begun, t.Ended),
		URLBytes: int(t.UrlBytes),
		Status:   int(t.Status), Bytes: t.Bytes,
		GC: time.Duration(t.Paused), Busy: time.Duration(t.Busy), // UNKNOWN is -1
		Encrypted: t.Flags&uint8(bpf.NodesnoopTransactionFlagTRANSACTION_ENCRYPTED) != 0,
		EndLost:   t.Flags&uint8(bpf.NodesnoopTransactionFlagTRANSACTION_END_LOST) != 0,
		LocalPort: int(t.LocalPort),
		Outcome:   Outcome(t.Outcome),
	}
	n := min(int(t.UrlBytes), maxURL)
	if t.Flags&uint8(bpf.NodesnoopTransactionFlagTRANSACTION_URL_LOST) != 0 {
		n = min(n, shortURL)
	}
	e.URL = string(t.Text[:n])
	var d bpf.NodesnoopDetails
	if t.Flags&uint8(bpf.NodesnoopTransactionFlagTRANSACTION_DETAILS) != 0 {
		trace.DecodeTo(t.Text[n:], &d)
	}
	e.Method, e.Host = text(d.Method[:], int(t.MethodBytes)), text(d.Host[:], int(t.HostBytes))
	if t.MethodBytes == 0 && int(t.Number) < len(methods) {
		e.Method = methods[t.Number]
	}
	e.Peer = peerOf(t, &d)
	if t.Answered > 0 {
		e.TTFB = between(t.Begun, t.Answered)
	}
	s.handle(t.Generation)
}

const (
	maxURL   = int(bpf.NodesnoopHttpLimitURL_BYTES)
	shortURL = 256 // SHORT_URL_BYTES of the kernel half
)

func between(begun, ended uint64) time.Duration { return time.Duration(max(ended, begun) - begun) }

// text returns the first n bytes of a field, or all that it has.
func text(field []byte, n int) string { return string(field[:min(n, len(field))]) }

// handle passes s.event, an event of a target, on.
func (s *session) handle(generation uint64) {
	if t := s.of(generation); t != nil {
		s.event.PID, s.event.Inside = t.pid, t.inside
	}
	s.handling.Lock()
	defer s.handling.Unlock()
	s.o.Event(&s.event)
}

// peerOf returns the other end of a request's connection.
func peerOf(t *bpf.NodesnoopTransaction, d *bpf.NodesnoopDetails) Peer {
	switch t.Family {
	case unix.AF_INET:
		return Peer{Addr: netip.AddrFrom4([4]byte(t.Peer[:4])), Port: int(t.PeerPort)}
	case unix.AF_INET6:
		return Peer{Addr: netip.AddrFrom16(t.Peer).Unmap(), Port: int(t.PeerPort)}
	case unix.AF_UNIX:
		name := d.Name[:min(int(t.NameLength), len(d.Name))]
		if len(name) > 0 && name[0] == 0 {
			return Peer{Path: "@" + string(name[1:])}
		}
		for len(name) > 0 && name[len(name)-1] == 0 {
			name = name[:len(name)-1]
		}
		return Peer{Path: string(name)}
	}
	return Peer{}
}

// methods are llhttp's, by number (llhttp/src/llhttp/constants.ts), the same in all versions.
var methods = []string{
	"DELETE", "GET", "HEAD", "POST", "PUT", "CONNECT", "OPTIONS", "TRACE", "COPY", "LOCK", "MKCOL", "MOVE",
	"PROPFIND", "PROPPATCH", "SEARCH", "UNLOCK", "BIND", "REBIND", "UNBIND", "ACL", "REPORT", "MKACTIVITY",
	"CHECKOUT", "MERGE", "M-SEARCH", "NOTIFY", "SUBSCRIBE", "UNSUBSCRIBE", "PATCH", "PURGE", "MKCALENDAR",
	"LINK", "UNLINK", "SOURCE", "PRI", "DESCRIBE", "ANNOUNCE", "SETUP", "PLAY", "PAUSE", "TEARDOWN",
	"GET_PARAMETER", "SET_PARAMETER", "REDIRECT", "RECORD", "FLUSH", "QUERY",
}

// pause takes a garbage collection from the kernel.
func (s *session) pause(raw []byte) {
	p := trace.Decode[bpf.NodesnoopPause](raw)
	kind := "unknown"
	if t := s.of(p.Generation); t != nil && t.kinds[p.Kind] != "" {
		kind = t.kinds[p.Kind]
	}
	s.event = Event{
		Kind: GC, PID: int(p.Ids >> 32), TID: int(uint32(p.Ids)), Begun: s.clock.time(p.Begun), Monotonic: time.Duration(p.Begun),
		Latency: time.Duration(p.Length), Collection: kind, Frames: s.framesOf(p.Hash),
	}
	s.handle(p.Generation)
}

// iteration takes what a loop did between two waits from the kernel.
func (s *session) iteration(raw []byte) {
	i := trace.Decode[bpf.NodesnoopIteration](raw)
	s.event = Event{
		Kind: LoopRun, PID: int(i.Ids >> 32), TID: int(uint32(i.Ids)),
		Begun: s.clock.time(i.Begun), Monotonic: time.Duration(i.Begun), Latency: time.Duration(i.Length),
		Frames: s.framesOf(i.Hash),
	}
	s.handle(uint64(i.Generation))
}

// framesOf returns the frames of a stack that was taken.
func (s *session) framesOf(hash uint64) []symbolize.Frame {
	if hash == 0 {
		return nil
	}
	return s.stacks.Frames(hash)
}
