package addonlat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/testdata/nodetest"
)

// kindsPlan has jobs of all test add-ons, some with a name for their resource.
func kindsPlan(t *testing.T, node, flag string) nodetest.Plan {
	t.Helper()
	return nodetest.Plan{
		Addons: addons(t, node, flag),
		Steps: []nodetest.Step{
			{Addon: "rawuv.cc", Call: "sleep", Micros: 100, Count: 23},
			{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 19},
			{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 17, Resource: "own näme"},
			{Addon: "napi.cc", Call: "spin", Micros: 100, Count: 13},
			{Addon: "napi.cc", Call: "sleep", Micros: 100, Count: 11, Resource: "own näme"},
		},
	}
}

func TestResourcesAreKinds(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		r, _ := measure(t, node, kindsPlan(t, node, nodetest.FramePointers), Options{By: Resource})
		want := map[string]uint64{
			keys["rawuv.cc"]["sleep"]: 23, "napi_c": 19, "napi_cc": 13, "own näme": 17 + 11,
		}
		if diff := cmp.Diff(want, counts(r)); diff != "" {
			t.Errorf("jobs by resource (-want +got):\n%s", diff)
		}
	})
}

// TestCallersInJavaScriptAreKinds has one function of calls.js submit all jobs.
func TestCallersInJavaScriptAreKinds(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		r, _ := measure(t, node, kindsPlan(t, node, nodetest.FramePointers), Options{By: JS})
		var keys []string
		for _, k := range r.Kinds {
			keys = append(keys, k.Key)
		}
		if len(r.Kinds) != 1 || r.Kinds[0].Count != 23+19+17+13+11 {
			t.Fatalf("jobs by JavaScript function = %v, want all under one", counts(r))
		}
		if want := "lib/calls.js:36:10"; !strings.HasPrefix(keys[0], "(anonymous) ") || !strings.Contains(keys[0], want) {
			t.Errorf("key = %q, want an anonymous function of %s", keys[0], want)
		}
	})
}

func TestStacksAreKinds(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		r, _ := measure(t, node, kindsPlan(t, node, nodetest.FramePointers), Options{By: Stack})
		var all uint64
		functions := make(map[string]uint64)
		for _, k := range r.Kinds {
			all += k.Count
			var submitter, caller int
			for i, f := range k.Stack {
				if strings.HasSuffix(f.Module, ".node") && submitter == 0 {
					functions[f.Name] += k.Count
					submitter = i
				}
				if f.Kind == symbolize.JS && caller == 0 {
					caller = i
				}
			}
			if submitter == 0 || caller <= submitter || caller+1 >= len(k.Stack) {
				t.Errorf("stack = %+v, want libuv's, the add-on's and JavaScript's frames", k.Stack)
				continue
			}
			if f := k.Stack[caller]; f.ExecutingLine < f.Line || f.ExecutingColumn == 0 {
				t.Errorf("%s runs %d:%d, want a line from %d", f.Name, f.ExecutingLine, f.ExecutingColumn, f.Line)
			}
		}
		want := map[string]uint64{
			"rawuv::Work::BeginSleep": 23, "begin_sleep": 19 + 17,
			"pool::Spinner::Begin": 13, "pool::Sleeper::Begin": 11,
		}
		if diff := cmp.Diff(want, functions); diff != "" {
			t.Errorf("jobs by the add-on's leaf (-want +got):\n%s", diff)
		}
		if all != 23+19+17+13+11 {
			t.Errorf("jobs = %d, want %d", all, 23+19+17+13+11)
		}
	})
}

// TestCallbacksAreKinds: the callbacks are the add-ons' own, though for Node-API, libuv
// only gets a function of node's.
func TestCallbacksAreKinds(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		r, _ := measure(t, node, kindsPlan(t, node, nodetest.FramePointers), Options{By: Work})
		want := map[string]uint64{
			"rawuv_cc.node`rawuv::Work::Sleep": 23, "napi_c.node`do_sleep": 19 + 17, "napi_cc.node`pool::Worker::Run": 13 + 11,
		}
		if diff := cmp.Diff(want, counts(r)); diff != "" {
			t.Errorf("jobs by callback (-want +got):\n%s", diff)
		}
	})
}

// TestNodesOwnWorkIsShownOnRequest also shows that an add-on's work is not mistaken for it.
func TestNodesOwnWorkIsShownOnRequest(t *testing.T) {
	eachVersion(t, func(t *testing.T, version, node string) {
		paths := addons(t, node, nodetest.FramePointers)
		if version == anyVersion {
			checkNodesOwn(t, node, paths, nil)
		}
		checkNodesOwn(t, node, paths, ownKeys)
	})
}

// ownCalls are calls that make node do work of its own, with their numbers of jobs.
var ownCalls = []struct {
	call  string
	count int
}{
	{"fs.stat", 23},
	{"fs.read", 19},
	{"fs.readdir", 17},
	{"dns.lookup", 13},
	{"crypto.pbkdf2", 11},
	{"crypto.randomBytes", 7},
	{"zlib.deflate", 5},
}

// ownKeys are the keys of these calls' jobs.
var ownKeys = map[string]string{
	"fs.stat": "fs.stat", "fs.read": "fs.read", "fs.readdir": "fs.readdir", "dns.lookup": "dns.lookup",
	"crypto.pbkdf2": "crypto.PBKDF2", "crypto.randomBytes": "random", "zlib.deflate": "zlib",
}

// checkNodesOwn has node do some work of its own besides an add-on's, and checks that
// it appears under ownKeys, or not at all if ownKeys is empty.
func checkNodesOwn(t *testing.T, node string, addons, ownKeys map[string]string) {
	t.Helper()
	plan := nodetest.Plan{
		Addons: addons,
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 100, Count: 29}},
	}
	want := map[string]uint64{keys["napi.c"]["sleep"]: 29}
	for _, own := range ownCalls {
		plan.Steps = append(plan.Steps, nodetest.Step{Call: own.call, Count: own.count, InFlight: 3})
		if key, ok := ownKeys[own.call]; ok {
			want[key] = uint64(own.count)
		}
	}
	r, _ := measure(t, node, plan, Options{Builtin: ownKeys != nil})
	if diff := cmp.Diff(want, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
	for _, k := range r.Kinds {
		if got, want := k.Builtin, k.Key != keys["napi.c"]["sleep"]; got != want {
			t.Errorf("%s: node's own = %v, want %v", k.Key, got, want)
		}
		if k.Total.Count != k.Count || k.Run.Count != k.Count {
			t.Errorf("%s: totals, runs of %d = %d, %d, want all", k.Key, k.Count, k.Total.Count, k.Run.Count)
		}
	}
	if p := pool(t, r); p.Completed+p.Uring < 29+23+19+17+13+11+7+5 {
		t.Errorf("pool = %+v, want node's own jobs counted in any case", p)
	}
}

// TestStrippedAddonsJobsGoByTheResourcesName: Node-API knows a name if the file has
// none. An add-on that calls libuv itself is identified by its place in the file.
func TestStrippedAddonsJobsGoByTheResourcesName(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	plan := kindsPlan(t, node, nodetest.FramePointers)
	for source := range plan.Addons {
		const unexported = "-fvisibility=hidden" // otherwise a C++ class's functions keep their names
		plan.Addons[source] = stripped(t, nodetest.Addon(t, node, source, nodetest.FramePointers, unexported))
	}
	r, _ := measure(t, node, plan, Options{})
	got := make(map[string]uint64)
	for key, count := range counts(r) {
		key, _, _ = strings.Cut(key, "0x")
		got[key] += count
	}
	want := map[string]uint64{"rawuv_cc.node`": 23, "napi_c": 19, "napi_cc": 13, "own näme": 17 + 11}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
}

// TestBcryptsWorkersAreKinds: the add-on from npm is stripped, so its work is
// identified by the resource's name.
func TestBcryptsWorkersAreKinds(t *testing.T) {
	bcrypt := nodetest.Bcrypt(t)
	eachVersion(t, func(t *testing.T, _, node string) {
		r, _ := measure(t, node, nodetest.Plan{
			Addons: map[string]string{"bcrypt": bcrypt},
			Steps:  []nodetest.Step{{Addon: "bcrypt", Call: "hash", Count: 37, InFlight: 2}},
		}, Options{})
		if len(r.Kinds) != 1 || r.Kinds[0].Count != 37 || r.Kinds[0].Key != "bcrypt:EncryptAsyncWorker" {
			t.Fatalf("kinds = %v, want 37 of bcrypt's", counts(r))
		}
		if r.Kinds[0].Run.Min < uint64(ms)/10 {
			t.Errorf("shortest run = %d ns, want what a hash takes", r.Kinds[0].Run.Min)
		}
	})
}

func TestTiersDistinguishStacksOnRequest(t *testing.T) {
	hash := symbolize.Frame{Kind: symbolize.JS, Tier: symbolize.Maglev, Name: "hash", File: "/app/login.js", Line: 12, Column: 3}
	interpreted := hash
	interpreted.Tier = symbolize.Interpreted
	for _, tiers := range []bool{false, true} {
		o := Options{Tiers: tiers}
		if differ := o.text([]symbolize.Frame{hash}) != o.text([]symbolize.Frame{interpreted}); differ != tiers {
			t.Errorf("with tiers %v, stacks of two tiers differ: %v", tiers, differ)
		}
	}
}
