package event

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"ustack/bpf"
)

func TestSockaddrOfAnyBytes(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"\x02":                             "",
		"\x02\x00\x1f\x90\x0a\x00\x00":     "",
		"\x02\x00\x1f\x90\x0a\x00\x00\x07": "10.0.0.7:8080",
		"\x0a\x00\x00\x50":                 "",
		"\x0a\x00\x00\x50\x00\x00\x00\x00" + strings.Repeat("\x00", 15) + "\x01": "[::1]:80",
		"\x01\x00/run/x\x00junk": "/run/x",
		"\x01\x00\x00name":       "@name",
		"\x01\x00":               "",
		"\x63\x00whatever":       "",
	} {
		if got := Sockaddr([]byte(text)); got != want {
			t.Errorf("Sockaddr(%q) = %q, want %q", text, got, want)
		}
	}
}

// ends returns what the kernel half reads of a socket with these addresses, of the family that
// the local one has.
func ends(local, peer string) (e bpf.TraceEnds) {
	from, to := netip.MustParseAddrPort(local), netip.MustParseAddrPort(peer)
	e.Family = unix.AF_INET6
	if from.Addr().Is4() {
		e.Family = unix.AF_INET
	}
	e.LocalPort, e.PeerPort = uint32(from.Port()), uint32(to.Port())
	copy(e.Local[:], from.Addr().AsSlice())
	copy(e.Peer[:], to.Addr().AsSlice())
	return e
}

// named returns what it reads of a Unix socket.
func named(name string, length uint32) bpf.TraceEnds {
	e := bpf.TraceEnds{Family: unix.AF_UNIX, NameLength: length}
	copy(e.Name[:], name)
	return e
}

// peers returns the ends of a Unix socket that is connected to what has that name.
func peers(e bpf.TraceEnds) bpf.TraceEnds {
	e.IsPeers = 1
	return e
}

func TestSocketsAreThoseOfTheKernel(t *testing.T) {
	long := strings.Repeat("x", 108)
	for _, tt := range []struct {
		name string
		ends bpf.TraceEnds
		want *Socket
	}{
		{"IPv4", ends("10.0.0.7:8080", "127.0.0.1:55555"), &Socket{"10.0.0.7:8080", "127.0.0.1:55555"}},
		{"IPv6", ends("[::1]:80", "[fe80::2]:443"), &Socket{"[::1]:80", "[fe80::2]:443"}},
		{"IPv4 in IPv6", ends("[::ffff:10.0.0.7]:80", "[::ffff:10.0.0.8]:81"), &Socket{"10.0.0.7:80", "10.0.0.8:81"}},
		{"listening", ends("0.0.0.0:8080", "0.0.0.0:0"), &Socket{Local: "0.0.0.0:8080"}},
		{"not bound", ends("0.0.0.0:0", "0.0.0.0:0"), nil},
		{"Unix", named("/run/x\x00junk", 11), &Socket{Local: "/run/x"}},
		{"abstract", named("\x00a\x00b", 4), &Socket{Local: "@a\x00b"}},
		{"the longest path", named(long, 108), &Socket{Local: long}},
		{"a length beyond", named(long, 1<<32-1), &Socket{Local: long}},
		{"Unix, connected", peers(named("/run/x\x00junk", 11)), &Socket{Peer: "/run/x"}},
		{"without name", named("", 0), nil},
		{"another family", bpf.TraceEnds{Family: unix.AF_NETLINK, LocalPort: 7}, nil},
	} {
		if diff := cmp.Diff(tt.want, SocketOf(tt.ends)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// FuzzSockaddr decodes any bytes that a program passes as an address.
func FuzzSockaddr(f *testing.F) {
	for _, b := range []string{"\x02\x00\x1f\x90\x0a\x00\x00\x07", "\x0a\x00\x00\x50" + strings.Repeat("\x00", 20), "\x01\x00\x00name", "\x01\x00/run", "\x01\x00[::1%\x1b]:80"} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := Sockaddr(b)
		if len(text) > len(b)+len("[]:65535")+40 {
			t.Errorf("Sockaddr of %d bytes has %d: %q", len(b), len(text), text)
		}
		if text != "" && (len(b) < 3 || b[1] != 0) {
			t.Errorf("Sockaddr(%q) = %q, want none", b, text)
		}
		if quoted := quotedName(text); strings.ContainsAny(quoted, "\x00\x1b\n") {
			t.Errorf("quotedName(%q) = %s", text, quoted)
		}
	})
}
