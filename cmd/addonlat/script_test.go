package main

import (
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
	"ustack/symbolize/reader"
	"ustack/testdata/nodetest"
)

// programs are the kernel's names of what must not stay behind.
var programs = []string{"on_queue", "on_submit", "on_run", "on_ran", "on_done", "on_uring"}

func TestMain(m *testing.M) {
	reader.Serve()
	testscript.Main(m, map[string]func(){"addonlat": main})
}

// TestScripts runs testdata/*.txtar, in which ADDON is an add-on. Their commands
// beyond those of every command:
//
//	contract FILE               each object in FILE is JSON as the manual page has it
//	count FILE KEY COUNT        FILE, JSON, has that many jobs of a kind
func TestScripts(t *testing.T) {
	node := clitest.Node(t)
	clitest.Scripts{
		Programs: programs,
		Env:      map[string]string{"ADDON": nodetest.Addon(t, node, "napi.c", nodetest.FramePointers)},
		Commands: map[string]func(*testscript.TestScript, bool, []string){
			"contract": contract, "count": count,
		},
	}.Run(t)
}

// The JSON format as the manual page describes it, written down a second time
// on purpose: a field that is renamed breaks other people's programs.
type (
	report struct {
		Time     string            `json:"time"`
		Duration *int64            `json:"duration_ns"`
		Kinds    []kind            `json:"kinds"`
		Pool     *pool             `json:"pool"`
		Lost     *uint64           `json:"lost"`
		Failures map[string]uint64 `json:"failures"`
	}
	kind struct {
		PID       int        `json:"pid"`
		Key       string     `json:"key"`
		Builtin   bool       `json:"builtin"`
		Count     uint64     `json:"count"`
		Cancelled *uint64    `json:"cancelled"`
		Failed    *uint64    `json:"failed"`
		Total     *histogram `json:"total"`
		Wait      *histogram `json:"wait"`
		Run       *histogram `json:"run"`
		Delivery  *histogram `json:"delivery"`
	}
	histogram struct {
		Count   uint64  `json:"count"`
		Sum     *uint64 `json:"sum_ns"`
		Min     *uint64 `json:"min_ns"`
		Max     *uint64 `json:"max_ns"`
		P50     *uint64 `json:"p50_ns"`
		P90     *uint64 `json:"p90_ns"`
		P99     *uint64 `json:"p99_ns"`
		Buckets []struct {
			Low   *uint64 `json:"low"`
			Count uint64  `json:"count"`
		} `json:"buckets"`
	}
	pool struct {
		PID        int      `json:"pid"` // of one process's only
		Threads    *uint64  `json:"threads"`
		Busy       *float64 `json:"busy"`
		Deepest    *uint64  `json:"deepest"`
		SlowQuota  *uint64  `json:"slow_quota"`
		Submitted  *uint64  `json:"submitted"`
		Completed  *uint64  `json:"completed"`
		Cancelled  *uint64  `json:"cancelled"`
		Failed     *uint64  `json:"failed"`
		InFlight   *uint64  `json:"in_flight"`
		Before     *uint64  `json:"before"`
		Uring      *uint64  `json:"io_uring"`
		Unfollowed uint64   `json:"unfollowed"`
		Processes  []pool   `json:"processes"`
	}
)

func contract(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: contract FILE")
	}
	reports := clitest.Decode[report](ts, args[0])
	for _, r := range reports {
		if r.Duration == nil || r.Kinds == nil || r.Pool == nil || r.Lost == nil || r.Failures == nil || (r.Time == "") != (len(reports) == 1) {
			ts.Fatalf("a field is missing: %+v", r)
		}
		if len(r.Pool.Processes) != 1 || r.Pool.Processes[0].PID == 0 {
			ts.Fatalf("processes = %+v, want 1", r.Pool.Processes)
		}
		checkPool(ts, *r.Pool)
		checkPool(ts, r.Pool.Processes[0])
		for _, k := range r.Kinds {
			checkKind(ts, k)
		}
	}
}

func checkPool(ts *testscript.TestScript, p pool) {
	for _, n := range []*uint64{
		p.Threads, p.Deepest, p.SlowQuota, p.Submitted, p.Completed, p.Cancelled, p.Failed, p.InFlight, p.Before, p.Uring,
	} {
		if n == nil {
			ts.Fatalf("pool with a field missing: %+v", p)
		}
	}
	if p.Busy == nil || *p.Busy < 0 || *p.Busy > 1 {
		ts.Fatalf("busy = %v, want 0 to 1", p.Busy)
	}
}

func checkKind(ts *testscript.TestScript, k kind) {
	if k.PID == 0 || k.Key == "" || k.Count == 0 || k.Cancelled == nil || k.Failed == nil {
		ts.Fatalf("kind with a field missing: %+v", k)
	}
	for _, h := range []*histogram{k.Total, k.Wait, k.Run, k.Delivery} {
		if h == nil || h.Sum == nil || h.Min == nil || h.Max == nil || h.P50 == nil || h.P90 == nil || h.P99 == nil {
			ts.Fatalf("%s: histogram with a field missing: %+v", k.Key, h)
		}
		var sum uint64
		for _, b := range h.Buckets {
			sum += b.Count
		}
		if h.Count != k.Count || sum != h.Count {
			ts.Fatalf("%s: count = %d, in buckets %d, want %d", k.Key, h.Count, sum, k.Count)
		}
	}
}

func count(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: count FILE KEY COUNT")
	}
	var got uint64
	for _, r := range clitest.Decode[report](ts, args[0]) {
		for _, k := range r.Kinds {
			if k.Key == args[1] {
				got += k.Count
			}
		}
	}
	if want, err := strconv.ParseUint(args[2], 10, 64); err != nil || got != want {
		ts.Fatalf("jobs of kind %s = %d, want %s", args[1], got, args[2])
	}
}
