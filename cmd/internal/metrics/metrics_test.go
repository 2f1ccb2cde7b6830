package metrics

import (
	"net"
	"net/http"
	"testing"
)

// TestLoopbackHasNoOtherName: pages of other sites cannot read metrics by a name of theirs.
func TestLoopbackHasNoOtherName(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := http.Server{Handler: guarded(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))}
	go server.Serve(listener)
	defer server.Close()
	for host, want := range map[string]int{
		listener.Addr().String(): http.StatusOK, "localhost": http.StatusOK, "LOCALHOST:1": http.StatusOK, "[::1]": http.StatusOK,
		"example.com": http.StatusForbidden, "10.0.0.1:80": http.StatusForbidden, "": http.StatusOK,
	} {
		request, err := http.NewRequest(http.MethodGet, "http://"+listener.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("host %q: status %d, want %d", host, response.StatusCode, want)
		}
	}
}
