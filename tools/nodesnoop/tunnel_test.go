package nodesnoop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// connect answers CONNECT, as a proxy does.
func connect(w http.ResponseWriter, r *http.Request) {
	server, err := net.Dial("tcp", r.Host)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	w.WriteHeader(http.StatusOK)
	client, buffered, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// TestTunnelsAreForgotten has connections that become others: a request to a proxy, and then TLS on
// the same socket. What is known of all must go when they close, so that the next one that has the
// socket's address is seen.
func TestTunnelsAreForgotten(t *testing.T) {
	node := prepare(t, anyVersion)
	servers := origins(t)
	proxy := httptest.NewServer(http.HandlerFunc(connect))
	t.Cleanup(proxy.Close)
	for name, preempted := range map[string]bool{"tracepoint": false, "probes": true} {
		t.Run(name, func(t *testing.T) {
			const count = 20
			args, err := json.Marshal(map[string]any{
				"origin": servers[0], "secure": servers[1], "proxy": proxy.Listener.Addr().(*net.TCPAddr).Port, "count": count,
			})
			if err != nil {
				t.Fatal(err)
			}
			target := nodetest.Start(t, node, nodetest.Options{Script: "tunnels.js", Args: []string{string(args)}})
			w := begin(t, Options{Selection: trace.Selection{PIDs: []int{target.PID}}, Kinds: Kinds{Client: true}, preempted: preempted})
			target.Signal(syscall.SIGUSR2)
			if line := target.Line(); line != "asked" {
				t.Fatalf("line = %q, want asked", line)
			}
			for _, name := range []string{"streams", "aliases", "requests"} {
				if n := keys(t, name); n != 0 {
					t.Errorf("%s has %d keys when all connections are closed, want none", name, n)
				}
			}
			got := make(map[string]int)
			for _, e := range w.end() {
				got[fmt.Sprint(e.Method, " ", e.Status, " ", e.Outcome, " ", e.Encrypted)]++
			}
			want := map[string]int{"CONNECT 200 upgrade false": count, "GET 200 done true": count, "GET 200 done false": count}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
}

// keys returns how many keys the map of that name has that this process holds.
func keys(t *testing.T, name string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may be closed by now
		_, after, ok := strings.Cut(string(text), "\nmap_id:")
		if !ok {
			continue
		}
		var id ebpf.MapID
		if _, err := fmt.Sscan(after, &id); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Name != name {
			continue
		}
		key, value := make([]byte, m.KeySize()), make([]byte, m.ValueSize())
		for all := m.Iterate(); all.Next(key, value); {
			n++
		}
		return n
	}
	t.Errorf("no map %s", name)
	return 0
}
