package nodesnoop

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/trace"
)

// serving says how served.js is to serve.
type serving struct {
	Log       string `json:"log"`
	TLS       string `json:"tls,omitempty"`
	Socket    string `json:"socket,omitempty"`
	Shared    bool   `json:"shared,omitempty"`
	Lenient   bool   `json:"lenient,omitempty"`
	Forgiving bool   `json:"forgiving,omitempty"`
	Workers   int    `json:"workers,omitempty"`
	Children  int    `json:"children,omitempty"`
}

// A server is a running served.js.
type server struct {
	*nodetest.Target
	serving
	facts struct {
		Ports [][]int `json:"ports"` // of each thread: IPv4, IPv6, and the others
		PIDs  []int   `json:"pids"`
	}
}

func startServer(t testing.TB, node string, how serving) *server {
	t.Helper()
	how.Log = filepath.Join(t.TempDir(), "log")
	args, err := json.Marshal(how)
	if err != nil {
		t.Fatal(err)
	}
	s := &server{Target: nodetest.Start(t, node, nodetest.Options{Script: "served.js", Args: []string{string(args)}}), serving: how}
	s.Facts(&s.facts)
	return s
}

// selection selects all processes of the server.
func (s *server) selection() trace.Selection { return trace.Selection{PIDs: s.facts.PIDs} }

// A logged request is one as the server itself has seen it. Times are in ns of
// CLOCK_MONOTONIC: when its handler began and called response.end, and when the response
// was written.
type logged struct {
	URL    string `json:"url"`
	Method string `json:"method"`
	Port   int    `json:"port"`
	Status int    `json:"status"`
	PID    int    `json:"pid"`
	Begin  int64  `json:"begin,string"`
	Before int64  `json:"before,string"`
	Finish int64  `json:"finish,string"`
}

// logs returns what the server has logged, by URL.
func (s *server) logs(t testing.TB) map[string]logged {
	t.Helper()
	s.Signal(syscall.SIGUSR2)
	if line := s.Line(); line != "logged" {
		t.Fatalf("line = %q, want logged", line)
	}
	all := make(map[string]logged)
	for _, pid := range s.facts.PIDs {
		text, err := os.ReadFile(s.Log + "." + strconv.Itoa(pid))
		if os.IsNotExist(err) {
			continue // the process that only distributes
		}
		var entries []logged
		if err == nil {
			err = json.Unmarshal(text, &entries)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			all[e.URL] = e
		}
	}
	return all
}

// certificate writes a key and a certificate for TLS to a folder.
func certificate(t testing.TB) (folder string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	for name, block := range map[string]*pem.Block{"key.pem": {Type: "PRIVATE KEY", Bytes: private}, "cert.pem": {Type: "CERTIFICATE", Bytes: cert}} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}
