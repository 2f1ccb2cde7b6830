package jscore

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/v8"
	"ustack/tools/descriptors"
)

// NodeObjects are objects of Node.js that wait for something: handles or requests.
type NodeObjects struct {
	What    string       `json:"what"` // "handles" or "requests"
	Objects []NodeObject `json:"objects"`
	// Descriptors says of handles whether their sockets are known: "known", "partial" if the process had
	// too many, or "unknown" if the core does not say.
	Descriptors string `json:"descriptors,omitempty"`
}

// A NodeObject is one of them.
type NodeObject struct {
	Isolate *int `json:"isolate,omitempty"` // number; nil if there is only one
	nodejs.Wrap
	Socket *SocketText `json:"socket,omitempty"` // nil if the handle has no socket, or it is not known
}

// A SocketText is a socket as the kernel had it.
type SocketText struct {
	Protocol string `json:"protocol"`        // "tcp", "udp6", "unix" …
	State    string `json:"state,omitempty"` // "ESTABLISHED", "LISTEN" …; empty for datagrams, and if it changed while the core was taken
	Local    string `json:"local,omitempty"` // address and port, or path; empty: none, or not known
	Remote   string `json:"remote,omitempty"`
}

func socketText(e *descriptors.Endpoint) *SocketText {
	s := &SocketText{Protocol: e.Protocol(), Local: e.Local, Remote: e.Remote}
	if e.State != 0 && e.Type != unix.SOCK_DGRAM {
		s.State = e.State.String()
	}
	return s
}

// String returns the ends with an arrow to the remote one, and the state.
func (s *SocketText) String() string {
	text := s.Protocol
	if s.Local != "" {
		text += " " + s.Local
	}
	if s.Remote != "" {
		text += " → " + s.Remote
	}
	if s.State != "" {
		text += ", " + s.State
	}
	return text
}

// nodeObjects returns objects by isolate.
func (d *Dump) nodeObjects(what string, wraps []nodejs.Wrap) *NodeObjects {
	number := d.isolateNumbers()
	l := &NodeObjects{What: what, Objects: []NodeObject{}}
	for _, w := range wraps {
		l.Objects = append(l.Objects, NodeObject{Isolate: number(w.Heap), Wrap: w})
	}
	slices.SortStableFunc(l.Objects, func(a, b NodeObject) int { return compareIsolates(a.Isolate, b.Isolate) })
	return l
}

// Handles returns what node listens to: sockets, pipes, signals, node's own timers.
func (d *Dump) Handles(g *Graph) (*NodeObjects, error) {
	handles, err := d.Node().Handles(g.Graph)
	l := d.nodeObjects("handles", handles)
	open := d.core.Descriptors()
	switch {
	case open == nil:
		l.Descriptors = "unknown"
		return l, err
	case open.Partial:
		l.Descriptors = "partial"
	default:
		l.Descriptors = "known"
	}
	for i, o := range l.Objects {
		if o.FD == nil {
			continue
		}
		if found, ok := open.Find(*o.FD); ok && found.Socket != nil {
			l.Objects[i].Socket = socketText(found.Socket)
		}
	}
	return l, err
}

// Requests returns what node has requested from the system and not received yet.
func (d *Dump) Requests(g *Graph) (*NodeObjects, error) {
	requests, err := d.Node().Requests(g.Graph)
	return d.nodeObjects("requests", requests), err
}

// WriteText writes a line for each object, and below it whose it is.
func (l *NodeObjects) WriteText(w io.Writer) error {
	var b strings.Builder
	unknown := false
	for i, o := range l.Objects {
		if i == 0 && o.Isolate != nil || i > 0 && !sameIsolate(l.Objects[i-1].Isolate, o.Isolate) {
			b.WriteString(isolateTitle(o.Isolate))
		}
		fmt.Fprintf(&b, "%s %s (%v)\n", o.Object.Address, o.Object.Class, wrapText(o.Wrap))
		if o.Owner != nil {
			fmt.Fprintf(&b, "%s%s\n", indent, ownerText(o.Owner))
		}
		if o.Socket != nil {
			fmt.Fprintf(&b, "%s%v\n", indent, o.Socket)
		}
		unknown = unknown || o.Socket == nil && o.FD != nil && *o.FD >= 0
	}
	switch {
	case len(l.Objects) == 0:
		fmt.Fprintf(&b, "no %s\n", l.What)
	case unknown && l.Descriptors == "unknown":
		b.WriteString("addresses are not known: the core has no list of the process's sockets\n")
	case unknown && l.Descriptors == "partial":
		b.WriteString("some addresses are not known: the process had too many descriptors\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ownerText describes a handle's owner in a line.
func ownerText(o *nodejs.Owner) string {
	text := fmt.Sprintf("of %s %s", o.Class, o.Address)
	switch o.Role {
	case nodejs.Listens:
		text += ", a server"
	case nodejs.Accepted:
		text += fmt.Sprintf(", accepted by %s %s", o.Server.Class, o.Server.Address)
	case nodejs.Connects:
		text += ", a client"
		if o.Host != "" {
			text += " of " + o.Host
		}
	}
	if o.HTTP == nil {
		return text
	}
	text += fmt.Sprintf(": %s %s", o.HTTP.Class, o.HTTP.Address)
	if o.Request != "" {
		text += " " + o.Request
	}
	return text
}

func wrapText(o nodejs.Wrap) string {
	text := fmt.Sprintf("wrap: %s", o.Address)
	if o.Type == "" {
		return text
	}
	state := "inactive"
	switch {
	case o.Closing:
		state = "closing"
	case o.Active && o.Referenced:
		state = "active"
	case o.Active:
		state = "active, unref"
	}
	text = fmt.Sprintf("%s, %s, %s", o.Type, state, text)
	if o.FD != nil {
		text = fmt.Sprintf("fd %d, %s", *o.FD, text)
	}
	return text
}

// Addresses returns the addresses of the JavaScript objects.
func (l *NodeObjects) Addresses() []v8.Value {
	var values []v8.Value
	for _, o := range l.Objects {
		if value := v8.Value(o.Object.Address); value.IsObject() {
			values = append(values, value)
		}
	}
	return values
}
