package descriptors

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"
)

// fdOf returns the descriptor of a connection or a listener.
func fdOf(t *testing.T, c syscall.Conn) int {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	number := -1
	if err := raw.Control(func(fd uintptr) { number = int(fd) }); err != nil {
		t.Fatal(err)
	}
	return number
}

// TestOwnDescriptorsAreRead compares what is read of this process with what the process knows.
func TestOwnDescriptorsAreRead(t *testing.T) {
	type connection interface {
		net.Conn
		syscall.Conn
	}
	want := make(map[int]Descriptor)
	for _, at := range []struct {
		network, address string
		family           uint8
	}{{"tcp4", "127.0.0.1:0", unix.AF_INET}, {"tcp6", "[::1]:0", unix.AF_INET6}} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			t.Skipf("listen at %s: %v", at.address, err)
		}
		defer l.Close()
		c, err := net.Dial(at.network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fd := fdOf(t, l.(*net.TCPListener))
		want[fd] = Descriptor{FD: fd, Kind: Socket, Socket: &Endpoint{at.family, unix.SOCK_STREAM, Listen, l.Addr().String(), ""}}
		fd = fdOf(t, c.(connection))
		want[fd] = Descriptor{FD: fd, Kind: Socket, Socket: &Endpoint{at.family, unix.SOCK_STREAM, Established, c.LocalAddr().String(), c.RemoteAddr().String()}}
	}
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	fd := fdOf(t, u.(*net.UDPConn))
	want[fd] = Descriptor{FD: fd, Kind: Socket, Socket: &Endpoint{unix.AF_INET, unix.SOCK_DGRAM, Close, u.LocalAddr().String(), ""}}
	path := filepath.Join(t.TempDir(), "a socket")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fd = fdOf(t, l.(*net.UnixListener))
	want[fd] = Descriptor{FD: fd, Kind: Socket, Socket: &Endpoint{unix.AF_UNIX, unix.SOCK_STREAM, Listen, path, ""}}
	file, err := os.Create(filepath.Join(t.TempDir(), "name\nwith: anything"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	want[int(file.Fd())] = Descriptor{FD: int(file.Fd()), Kind: File, Name: file.Name()}

	got, err := Read(t.Context(), os.Getpid())
	if err != nil || got.Partial {
		t.Fatalf("Read = %+v, %v, want all", got, err)
	}
	for fd, d := range want {
		found, ok := got.Find(fd)
		if diff := cmp.Diff(d, found, cmpopts.IgnoreUnexported(Descriptor{})); diff != "" || !ok {
			t.Errorf("descriptor %d (-want +got):\n%s", fd, diff)
		}
	}
	if !slices.ContainsFunc(got.All, func(d Descriptor) bool { return d.Kind == Anonymous && d.Name == "[eventpoll]" }) {
		t.Errorf("descriptors = %+v, want the runtime's eventpoll among them", got.All)
	}
}

// TestAForgedSocketIsNotBelieved binds a socket to a path that looks like the row of another one.
func TestAForgedSocketIsNotBelieved(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir) // a path has at most 107 bytes
	listen := func(path string) int {
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return fdOf(t, l.(*net.UnixListener))
	}
	inodeOf := func(fd int) uint64 {
		var s unix.Stat_t
		if err := unix.Fstat(fd, &s); err != nil {
			t.Fatal(err)
		}
		return s.Ino
	}
	victim := listen("honest")
	forger := listen(fmt.Sprintf("x\n0: 2 0 10000 1 1 %d forged", inodeOf(victim)))
	got, err := Read(t.Context(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if d, ok := got.Find(victim); !ok || d.Socket != nil {
		t.Errorf("the socket whose row was forged = %+v (%t), want an unknown one", d, ok)
	}
	if d, ok := got.Find(forger); !ok || d.Socket == nil || d.Socket.Local != "x" {
		t.Errorf("the socket that forged a row = %+v (%t), want the path up to its newline", d, ok)
	}
}

func TestReadStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if l, err := Read(ctx, os.Getpid()); err != nil || !l.Partial || len(l.All) > 0 {
		t.Errorf("Read = %+v, %v, want nothing, partial", l, err)
	}
}

// TestOnlyWhatStaysIsBetweenReadings has a socket whose state changes, one that is replaced by
// another, and descriptors that are opened and closed.
func TestOnlyWhatStaysIsBetweenReadings(t *testing.T) {
	socket := func(fd int, inode uint64, state State, remote string) Descriptor {
		return Descriptor{FD: fd, Kind: Socket, inode: inode, Socket: &Endpoint{Family: unix.AF_INET, Type: unix.SOCK_STREAM, State: state, Local: "127.0.0.1:80", Remote: remote}}
	}
	file := Descriptor{FD: 1, Kind: File, Name: "/dev/null"}
	before := &List{All: []Descriptor{{FD: 0, Kind: Pipe, Name: "pipe:[1]"}, file, socket(2, 7, SynSent, ""), socket(3, 8, Established, "10.0.0.1:1")}}
	after := &List{All: []Descriptor{file, socket(2, 7, Established, "10.0.0.2:1"), socket(3, 9, Established, "10.0.0.1:1"), {FD: 4, Kind: Anonymous, Name: "[eventfd]"}}}
	want := &List{All: []Descriptor{{FD: 0}, file, socket(2, 7, 0, ""), {FD: 3}, {FD: 4}}}
	if diff := cmp.Diff(want, Between(before, after), cmp.AllowUnexported(Descriptor{})); diff != "" {
		t.Errorf("Between (-want +got):\n%s", diff)
	}
	if got := Between(before, &List{Partial: true}); !got.Partial {
		t.Errorf("Between = %+v, want it partial", got)
	}
}

func TestTablesOfSocketsAreParsed(t *testing.T) {
	for _, tt := range []struct {
		parse parser
		line  string
		want  Endpoint
		inode uint64
	}{
		{
			internet(unix.SOCK_STREAM), "   1: 0100007F:0050 0200000A:01BB 08 00000000:00000000 00:00000000 00000000     0        0 345 1 0000000000000000 20 4 30 10 -1",
			Endpoint{unix.AF_INET, unix.SOCK_STREAM, 8, "127.0.0.1:80", "10.0.0.2:443"},
			345,
		},
		{
			internet(unix.SOCK_STREAM), "   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 12 1",
			Endpoint{unix.AF_INET6, unix.SOCK_STREAM, Listen, "[::]:8080", ""},
			12,
		},
		{ // from a client of IPv4
			internet(unix.SOCK_STREAM), "   0: 0000000000000000FFFF00000100007F:1F90 0000000000000000FFFF00000200007F:0401 01 00000000:00000000 00:00000000 00000000 0 0 13 1",
			Endpoint{unix.AF_INET6, unix.SOCK_STREAM, Established, "127.0.0.1:8080", "127.0.0.2:1025"},
			13,
		},
		{
			parseUnix, "ffff8880: 00000002 00000000 00010000 0001 01   9873 /run/a b",
			Endpoint{unix.AF_UNIX, unix.SOCK_STREAM, Listen, "/run/a b", ""},
			9873,
		},
		{
			parseUnix, "0000000000000000: 00000003 00000000 00000000 0005 03   11",
			Endpoint{unix.AF_UNIX, unix.SOCK_SEQPACKET, Established, "", ""},
			11,
		},
	} {
		inode, got, ok := tt.parse([]byte(tt.line))
		if diff := cmp.Diff(tt.want, got); diff != "" || !ok || inode != tt.inode {
			t.Errorf("%q: inode %d, %v, want %d (-want +got):\n%s", tt.line, inode, ok, tt.inode, diff)
		}
	}
	for _, line := range []string{"", "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", "Num       RefCount Protocol Flags    Type St Inode Path"} {
		for _, table := range tables {
			if inode, e, ok := table.parse([]byte(line)); ok {
				t.Errorf("%s: %q is inode %d, %+v, want nothing", table.name, line, inode, e)
			}
		}
	}
}

func FuzzTables(f *testing.F) {
	f.Add("   1: 0100007F:0050 0200000A:01BB 08 00000000:00000000 00:00000000 00000000     0        0 345 1")
	f.Add("ffff8880: 00000002 00000000 00010000 0001 01   9873 /run/a b")
	f.Fuzz(func(t *testing.T, line string) {
		for _, table := range tables {
			if inode, e, ok := table.parse([]byte(line)); ok && (inode == 0 || !e.valid()) {
				t.Errorf("%s: inode %d, %+v", table.name, inode, e)
			}
		}
	})
}
