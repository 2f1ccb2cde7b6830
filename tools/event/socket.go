package event

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"ustack/bpf"
)

// A Socket says what a system call's socket is bound and connected to: an
// address and port, or the path of a Unix socket, where a leading "@" marks an
// abstract name.
type Socket struct {
	Local, Peer string // empty if there is none
}

// SocketOf decodes what the kernel half has read of a socket. It returns nil if
// the descriptor is not a socket, or the socket has no address.
func SocketOf(e bpf.TraceEnds) *Socket {
	var s Socket
	switch e.Family {
	case unix.AF_INET:
		s.Local = endpoint(e.Local[:4], e.LocalPort)
		s.Peer = endpoint(e.Peer[:4], e.PeerPort)
	case unix.AF_INET6:
		s.Local = endpoint(e.Local[:], e.LocalPort)
		s.Peer = endpoint(e.Peer[:], e.PeerPort)
	case unix.AF_UNIX:
		name := unixName(e.Name[:min(int(e.NameLength), len(e.Name))])
		if e.IsPeers != 0 {
			s.Peer = name
		} else {
			s.Local = name
		}
	}
	if s == (Socket{}) {
		return nil
	}
	return &s
}

// endpoint formats an address with its port. It returns "" for port 0: a socket
// that is bound or connected has a port.
func endpoint(address []byte, port uint32) string {
	a, ok := netip.AddrFromSlice(address)
	if !ok || port == 0 {
		return ""
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(port)).String()
}

// unixName returns the name of a Unix socket: a path up to its first zero byte,
// or an abstract name, which follows a zero byte.
func unixName(name []byte) string {
	if len(name) == 0 {
		return ""
	}
	if name[0] == 0 {
		return "@" + string(name[1:])
	}
	return unix.ByteSliceToString(name)
}

// Sockaddr decodes a struct sockaddr. It returns "" if the address is too short
// or of a family that Socket does not have.
func Sockaddr(b []byte) string {
	const (
		port4, address4 = 2, 4 // struct sockaddr_in
		address6        = 8    // struct sockaddr_in6
		path            = 2    // struct sockaddr_un
	)
	if len(b) < path {
		return ""
	}
	at := func(address []byte) string {
		a, ok := netip.AddrFromSlice(address)
		if !ok {
			return ""
		}
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(b[port4:])).String()
	}
	switch binary.NativeEndian.Uint16(b) {
	case unix.AF_INET:
		if len(b) >= address4+4 {
			return at(b[address4 : address4+4])
		}
	case unix.AF_INET6:
		if len(b) >= address6+16 {
			return at(b[address6 : address6+16])
		}
	case unix.AF_UNIX:
		return unixName(b[path:])
	}
	return ""
}

// shown returns what the socket is connected to, or else bound to.
func (s *Socket) shown() string {
	switch {
	case s == nil:
		return ""
	case s.Peer != "":
		return " → " + quotedName(s.Peer)
	}
	return " on " + quotedName(s.Local)
}

// quotedName quotes the path of a Unix socket; an address needs no quotes.
func quotedName(name string) string {
	if a, err := netip.ParseAddrPort(name); err == nil && a.Addr().Zone() == "" { // a zone may be any text
		return name
	}
	return strconv.Quote(name)
}
