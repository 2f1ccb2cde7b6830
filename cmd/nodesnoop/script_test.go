package main

import (
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
)

// programs are the kernel's names of what must not stay behind.
var programs = []string{"on_headers", "on_flush", "on_try_write", "on_tls_write", "on_sent", "on_read", "on_close", "on_gc_prologue"}

func TestMain(m *testing.M) {
	reader.Serve()
	testscript.Main(m, map[string]func(){"nodesnoop": main})
}

// TestScripts runs testdata/*.txtar. Their commands beyond those of every command:
//
//	contract FILE COUNT    FILE has that many events, JSON as the manual page has it
//	calls FILE [COUNT]     the same of system calls
//	connections FILE       the same of all that happens to a connection
func TestScripts(t *testing.T) {
	clitest.Node(t)
	clitest.Scripts{
		Programs: programs,
		Commands: map[string]func(*testscript.TestScript, bool, []string){"contract": contract, "calls": checkCalls, "connections": checkConnections},
	}.Run(t)
}

// The JSON format as the manual page describes it, written down a second time
// on purpose: a field that is renamed breaks other people's programs.
type printed struct {
	Time    string `json:"time"`
	PID     int    `json:"pid"`
	Thread  int    `json:"thread"`
	Probe   string `json:"probe"`
	Begun   int64  `json:"begun_ns"`
	Latency *int64 `json:"latency_ns"`
	Which   string `json:"which"`

	Method    string  `json:"method"`
	URL       string  `json:"url"`
	Path      string  `json:"path"`
	Route     string  `json:"route"`
	Status    *int    `json:"status"`
	Bytes     *uint64 `json:"bytes"`
	TTFB      *int64  `json:"ttfb_ns"`
	GC        *int64  `json:"gc_ns"`
	Busy      *int64  `json:"busy_ns"`
	Encrypted *bool   `json:"encrypted"`
	Host      string  `json:"host"`
	Address   string  `json:"remote_address"`
	Port      int     `json:"remote_port"`
	Local     int     `json:"local_port"`

	Operation string `json:"operation"`
	On        string `json:"on"`
	Error     string `json:"error"`
	Wait      *int64 `json:"wait_ns"`
	Run       *int64 `json:"run_ns"`
}

func contract(ts *testscript.TestScript, _ bool, args []string) {
	events := clitest.Decode[printed](ts, args[0])
	for _, e := range events {
		if e.Time == "" || e.PID == 0 || e.Thread == 0 || e.Probe == "" || e.Begun == 0 || e.Latency == nil || e.Which == "" {
			ts.Fatalf("a field is missing: %+v", e)
		}
		if e.Probe == "io" && (e.Operation == "" || (e.Which == "failed") != (e.Error != "") || (e.Wait == nil) != (e.Operation == "connect")) {
			ts.Fatalf("a field of an operation is missing or wrong: %+v", e)
		}
		if e.Probe == "gc" || e.Probe == "io" {
			continue
		}
		if e.Method == "" || e.URL == "" || e.Path == "" || e.Route == "" || e.Status == nil || e.Bytes == nil || e.TTFB == nil ||
			e.GC == nil || e.Busy == nil || e.Encrypted == nil || e.Address == "" || e.Port == 0 || e.Local == 0 {
			ts.Fatalf("a field of a request is missing: %+v", e)
		}
	}
	if got := len(events); len(args) > 1 && args[1] != "any" && args[1] != strconv.Itoa(got) {
		ts.Fatalf("events = %d, want %s", got, args[1])
	}
}
