package jscore

import (
	"testing"

	"golang.org/x/sys/unix"

	"ustack/symbolize/nodejs"
	"ustack/symbolize/v8/value"
	"ustack/tools/descriptors"
)

// TestUnknownAddressesAreReported has handles of sockets with and without what the kernel knew.
func TestUnknownAddressesAreReported(t *testing.T) {
	fd := 20
	handle := nodejs.Wrap{
		Address: 0x2000, Object: value.Brief{Address: 0x1001, Class: "TCP"}, Type: "tcp", Active: true, Referenced: true, FD: &fd,
		Owner: &nodejs.Owner{
			Brief: value.Brief{Address: 0x3001, Class: "Socket"}, Role: nodejs.Connects, Host: "example.org",
			HTTP: &value.Brief{Address: 0x4001, Class: "ClientRequest"}, Request: "GET /",
		},
	}
	const lines = `1001 TCP (fd 20, tcp, active, wrap: 2000)
    of Socket 3001, a client of example.org: ClientRequest 4001 GET /
`
	socket := descriptors.Endpoint{Family: unix.AF_INET6, Type: unix.SOCK_STREAM, Local: "[::1]:1", Remote: "[::1]:2"}
	for _, tt := range []struct {
		known  string
		socket *SocketText
		want   string
	}{
		{"unknown", nil, lines + "addresses are not known: the core has no list of the process's sockets\n"},
		{"partial", nil, lines + "some addresses are not known: the process had too many descriptors\n"},
		{"known", nil, lines},
		{"partial", socketText(&socket), lines + "    tcp6 [::1]:1 → [::1]:2\n"},
	} {
		l := &NodeObjects{What: "handles", Objects: []NodeObject{{Wrap: handle, Socket: tt.socket}}, Descriptors: tt.known}
		if got := textOf(t, l, nil); got != tt.want {
			t.Errorf("%s: text = %s, want %s", tt.known, got, tt.want)
		}
	}
}
