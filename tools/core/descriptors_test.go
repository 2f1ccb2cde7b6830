package core

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest/calls"
	"ustack/tools/descriptors"
)

// connectsProgram has one end of a connection of its own, and one of its server.
const connectsProgram = `const net = require('net');
const ends = [];
const connected = (socket) => {
  if (ends.push(socket) < 2) return;
  const end = (s) => ({ fd: s._handle.fd, local: s.localAddress + ':' + s.localPort, remote: s.remoteAddress + ':' + s.remotePort });
  console.log('ready ' + JSON.stringify({ listens: server._handle.fd, at: '127.0.0.1:' + server.address().port, ends: ends.map(end) }));
};
const server = net.createServer(connected).listen(0, '127.0.0.1', () => {
  const socket = net.connect(server.address().port, '127.0.0.1', () => connected(socket));
});`

// TestCoreHasSockets takes cores of a process that runs and of one that a signal has stopped.
func TestCoreHasSockets(t *testing.T) {
	target := calls.StartSource(t, oneVersion, connectsProgram)
	var facts struct {
		Listens int
		At      string
		Ends    []struct {
			FD            int
			Local, Remote string
		}
	}
	target.Facts(&facts)
	want := map[int]*descriptors.Endpoint{
		facts.Listens: {Family: unix.AF_INET, Type: unix.SOCK_STREAM, State: descriptors.Listen, Local: facts.At},
	}
	for _, end := range facts.Ends {
		want[end.FD] = &descriptors.Endpoint{Family: unix.AF_INET, Type: unix.SOCK_STREAM, State: descriptors.Established, Local: end.Local, Remote: end.Remote}
	}
	check := func(t *testing.T, direct bool) {
		result, err := Write(t.Context(), target.PID, filepath.Join(t.TempDir(), "core"), Options{direct: direct})
		if err != nil {
			t.Fatal(err)
		}
		got := open(t, result.Path).Descriptors()
		if got == nil || got.Partial {
			t.Fatalf("descriptors = %+v, want all", got)
		}
		for fd, e := range want {
			d, _ := got.Find(fd)
			if diff := cmp.Diff(descriptors.Descriptor{FD: fd, Kind: descriptors.Socket, Socket: e}, d, cmpopts.IgnoreUnexported(d)); diff != "" {
				t.Errorf("descriptor %d (-want +got):\n%s", fd, diff)
			}
		}
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) { check(t, way.direct) })
	}
	heap{target}.freeze(t)
	t.Run("stopped", func(t *testing.T) { check(t, false) })
}

func TestForeignCoreHasNoDescriptors(t *testing.T) {
	var n notes
	n.addDescriptors(nil)
	n.add(noteOwner, noteDescriptors, []byte("damaged"))
	f := new(File)
	f.readNotes(n.Bytes())
	if f.Descriptors() != nil {
		t.Errorf("descriptors = %+v, want none", f.Descriptors())
	}
}
