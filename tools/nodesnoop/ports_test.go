package nodesnoop

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"ustack/bpf"
	"ustack/loader"
)

// TestPortsThatHaveNotServedKeepTheProbe has a server that listens on two ports.
func TestPortsThatHaveNotServedKeepTheProbe(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{})
	if !loader.SeesSockets() {
		t.Skip("this kernel does not say when a socket has received something")
	}
	var taken atomic.Bool
	w := begin(t, Options{
		Selection: s.selection(), Kinds: Kinds{Server: true}, proof: proof{each: time.Hour, ports: 1, all: time.Hour},
		reads: func(int, bpf.NodesnoopReads) { taken.Store(true) },
	})
	ports := s.facts.Ports[0]
	one, other := dial(t, "tcp", at(ports[0]), false), dial(t, "tcp6", net.JoinHostPort("::1", strconv.Itoa(ports[1])), false)
	var all []exchange
	for begun := time.Now(); time.Since(begun) < 5*usualTick; {
		all = append(all, one.passed(t, fmt.Sprintf("/hello/one/%d", len(all)))...)
	}
	if taken.Load() {
		t.Error("the probe is not kept")
	}
	for deadline := time.Now().Add(waitLimit); !taken.Load(); {
		if time.Now().After(deadline) {
			t.Fatal("the probe is kept when all ports have served")
		}
		all = append(all, other.passed(t, fmt.Sprintf("/hello/other/%d", len(all)))...)
	}
	all = append(all, one.passed(t, "/hello/end")...)
	check(t, w.end(), s.logs(t), all)
}

// TestAllPortsAreThoseThatAreListenedOn asks of this process.
func TestAllPortsAreThoseThatAreListenedOn(t *testing.T) {
	listen := func(network, address string) net.Listener {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	var ports portSet
	for i := range 2 {
		ports[i] = uint16(listen("tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port)
	}
	if !mayTake(os.Getpid(), ports[:], false) || mayTake(os.Getpid(), ports[:1], false) {
		t.Errorf("with ports %v all are served: want it, and with one less not", ports)
	}
	listen("unix", filepath.Join(t.TempDir(), "socket"))
	if mayTake(os.Getpid(), ports[:], false) {
		t.Error("all ports are served beside a Unix socket: they have none")
	}
}

// TestClusterWorkersServeTheirParentsPorts has workers that listen on no port themselves.
func TestClusterWorkersServeTheirParentsPorts(t *testing.T) {
	s := startServer(t, prepare(t, anyVersion), serving{Children: 2})
	if !loader.SeesSockets() {
		t.Skip("this kernel does not say when a socket has received something")
	}
	var taken atomic.Int32
	w := begin(t, Options{
		Selection: s.selection(), Kinds: Kinds{Server: true}, proof: proof{each: time.Hour, ports: 1, all: time.Hour},
		reads: func(int, bpf.NodesnoopReads) { taken.Add(1) },
	})
	ports := s.facts.Ports[0]
	var all []exchange
	for deadline := time.Now().Add(waitLimit); int(taken.Load()) < s.Children; {
		if time.Now().After(deadline) {
			t.Fatalf("requests of %d processes are found in what is received, want %d", taken.Load(), s.Children)
		}
		for range s.Children { // each gets a connection in turn
			for i, c := range []*client{dial(t, "tcp", at(ports[0]), false), dial(t, "tcp6", net.JoinHostPort("::1", strconv.Itoa(ports[1])), false)} {
				all = append(all, c.passed(t, fmt.Sprintf("/hello/%d/%d", i, len(all)))...)
				_ = c.Close()
			}
		}
	}
	check(t, w.end(), s.logs(t), all)
}

// usualTick is how often it is decided how requests are found.
const usualTick = 250 * time.Millisecond
