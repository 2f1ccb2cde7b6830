package descriptors

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// An Endpoint is a socket with its ends.
type Endpoint struct {
	Family uint8 // AF_INET, AF_INET6 or AF_UNIX
	Type   uint8 // SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET
	State  State // 0 if it is not known

	// Local and Remote are addresses with ports, or the path of a Unix socket, any bytes, where
	// a leading "@" marks an abstract name. They are empty if the socket has none. The kernel
	// does not say what a Unix socket is connected to.
	Local, Remote string
}

// Protocol returns the kind of socket as netstat has it: "tcp", "udp6", "unix" …
func (e *Endpoint) Protocol() string {
	name := "tcp"
	switch {
	case e.Family == unix.AF_UNIX:
		return "unix"
	case e.Type == unix.SOCK_DGRAM:
		name = "udp"
	}
	if e.Family == unix.AF_INET6 {
		name += "6"
	}
	return name
}

// A State is one of TCP's, by the kernel's number. Other sockets are Established if they are
// connected, Listen if they accept connections, and else Close.
type State uint8

// States (include/net/tcp_states.h).
const (
	Established State = 1
	SynSent     State = 2
	Close       State = 7
	Listen      State = 10
)

// states are the names of the states.
var states = [...]string{
	"-", "ESTABLISHED", "SYN_SENT", "SYN_RECV", "FIN_WAIT1", "FIN_WAIT2", "TIME_WAIT", "CLOSE", "CLOSE_WAIT",
	"LAST_ACK", "LISTEN", "CLOSING", "NEW_SYN_RECV",
}

// String returns the state's name, as netstat and ss write it.
func (s State) String() string {
	if int(s) >= len(states) {
		return fmt.Sprintf("STATE_%d", uint8(s))
	}
	return states[s]
}

// A parser reads a line of a table of sockets: an inode and the socket that has it.
type parser func(line []byte) (inode uint64, e Endpoint, ok bool)

// tables are the kernel's tables of sockets in /proc/PID/net. The one of Unix sockets is the last:
// a path may hold a newline and what looks like another socket's row.
var tables = []struct {
	name  string
	parse parser
}{
	{"tcp", internet(unix.SOCK_STREAM)},
	{"tcp6", internet(unix.SOCK_STREAM)},
	{"udp", internet(unix.SOCK_DGRAM)},
	{"udp6", internet(unix.SOCK_DGRAM)},
	{"unix", parseUnix},
}

// readEndpoints finds the sockets in the tables.
func (l *List) readEndpoints(ctx context.Context, pid int) {
	found := make(map[uint64]*Endpoint)
	for _, d := range l.All {
		if d.inode != 0 {
			found[d.inode] = nil
		}
	}
	for _, table := range tables {
		wanted := maps.Clone(found)
		maps.DeleteFunc(wanted, func(_ uint64, e *Endpoint) bool { return e != nil })
		if len(wanted) == 0 {
			break
		}
		err := readTable(ctx, fmt.Sprintf("/proc/%d/net/%s", pid, table.name), table.parse, wanted)
		maps.Copy(found, wanted)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6 has no table of it
			l.Partial = true
		}
	}
	for i := range l.All {
		l.All[i].Socket = found[l.All[i].inode]
	}
}

// readTable sets those of the sockets in a table that are wanted, by inode. One that has two
// different rows stays nil: one of them is forged, and nothing says which.
func readTable(ctx context.Context, path string, parse parser, wanted map[uint64]*Endpoint) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	seen := make(map[uint64]bool)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		inode, e, ok := parse(lines.Bytes())
		before, ours := wanted[inode]
		switch {
		case !ok || !ours:
		case !seen[inode]:
			seen[inode], wanted[inode] = true, &e
		case before != nil && *before != e:
			wanted[inode] = nil
		}
	}
	return lines.Err()
}

// internet returns the parser of the tables of TCP and UDP (Documentation/networking/proc_net_tcp.rst):
// "sl local rem st tx:rx tr:tm retrnsmt uid timeout inode …".
func internet(kind uint8) parser {
	const local, remote, state, inode = 1, 2, 3, 9
	return func(line []byte) (uint64, Endpoint, bool) {
		fields := bytes.Fields(line)
		if len(fields) <= inode {
			return 0, Endpoint{}, false
		}
		number, numberErr := strconv.ParseUint(string(fields[inode]), 10, 64)
		st, stateErr := strconv.ParseUint(string(fields[state]), 16, 8)
		from, fromOK := parseAddress(fields[local])
		to, toOK := parseAddress(fields[remote])
		if numberErr != nil || stateErr != nil || !fromOK || !toOK {
			return 0, Endpoint{}, false
		}
		e := Endpoint{Family: unix.AF_INET, Type: kind, State: State(st), Local: shown(from), Remote: shown(to)}
		if from.Addr().Is6() {
			e.Family = unix.AF_INET6
		}
		return number, e, number != 0
	}
}

// parseAddress parses an address and a port in hexadecimal: the address is a sequence of
// words in the machine's byte order.
func parseAddress(text []byte) (netip.AddrPort, bool) {
	const word = 4
	digits, port, _ := bytes.Cut(text, []byte(":"))
	var b [16]byte
	if len(digits) != 2*word && len(digits) != 2*len(b) {
		return netip.AddrPort{}, false
	}
	n, err := hex.Decode(b[:], digits)
	number, portErr := strconv.ParseUint(string(port), 16, 16)
	if err != nil || portErr != nil {
		return netip.AddrPort{}, false
	}
	for at := 0; at < n; at += word {
		binary.NativeEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:]))
	}
	a, ok := netip.AddrFromSlice(b[:n])
	return netip.AddrPortFrom(a, uint16(number)), ok
}

// shown returns an address as text; "" for port 0: a socket that is bound or connected has a port.
func shown(a netip.AddrPort) string {
	if a.Port() == 0 {
		return ""
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

// parseUnix parses a line of the table of Unix sockets (net/unix/af_unix.c, unix_seq_show):
// "Num: RefCount Protocol Flags Type St Inode Path". The path may hold any byte.
func parseUnix(line []byte) (uint64, Endpoint, bool) {
	const (
		flags, kind, state, inode = 3, 4, 5, 6
		listening                 = 1 << 16 // in the flags (__SO_ACCEPTCON)
		connecting, connected     = 2, 3    // states (enum socket_state)
	)
	var fields [inode + 1]uint64
	rest := line
	for i := range fields {
		var text []byte
		text, rest, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
		base := 16
		if i == inode {
			base = 10
		}
		var err error
		if fields[i], err = strconv.ParseUint(string(bytes.TrimSuffix(text, []byte(":"))), base, 64); err != nil {
			return 0, Endpoint{}, false
		}
	}
	e := Endpoint{Family: unix.AF_UNIX, Type: uint8(fields[kind]), State: Close, Local: string(rest)}
	switch {
	case fields[flags]&listening != 0:
		e.State = Listen
	case fields[state] == connected:
		e.State = Established
	case fields[state] == connecting:
		e.State = SynSent
	}
	return fields[inode], e, fields[inode] != 0
}
