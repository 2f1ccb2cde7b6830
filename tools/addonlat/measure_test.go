package addonlat

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/quantize"
)

const anyVersion = "22.23.3" // for tests that do not depend on the version

// programs are the kernel's names of the programs that must not be left behind.
var programs = []string{
	"on_queue", "on_submit", "on_run", "on_ran", "on_done", "on_uring",
	"on_create", "on_created", "on_queue_named",
}

// A measurement is a Run in progress.
type measurement struct {
	t      testing.TB
	cancel context.CancelFunc
	ended  chan struct{} // closed once the fields below are set
	report *Report
	err    error
	warned []error
}

// begin returns when everything is attached.
func begin(t testing.TB, o Options) *measurement {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &measurement{t: t, cancel: cancel, ended: make(chan struct{})}
	started := make(chan struct{})
	o.Started = func() { close(started) }
	o.Warn = func(err error) { m.warned = append(m.warned, err) }
	go func() {
		defer close(m.ended)
		m.report, m.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-m.ended
	})
	select {
	case <-started:
	case <-m.ended:
		t.Fatalf("Run: %v", m.err)
	}
	return m
}

// end ends the Run, if it has not ended, and returns its report.
func (m *measurement) end() *Report {
	m.t.Helper()
	m.cancel()
	return m.wait()
}

// wait returns the report once the Run has ended by itself.
func (m *measurement) wait() *Report {
	m.t.Helper()
	const limit = 2 * time.Minute
	select {
	case <-m.ended:
	case <-time.After(limit):
		m.t.Fatalf("Run has not ended in %v", limit)
	}
	if m.err != nil {
		m.t.Fatalf("Run: %v", m.err)
	}
	return m.report
}

// silent checks that there were no warnings, except about the names of JavaScript
// functions if node is stripped. Run must have ended.
func (m *measurement) silent() {
	m.t.Helper()
	for _, err := range m.warned {
		if !strings.Contains(err.Error(), "stripped of symbols, so some names will be missing") {
			m.t.Errorf("warning = %v, want none", err)
		}
	}
}

// measure has a program carry out the plan, measures it from its first job to its last,
// and returns the report and what the program itself counted.
func measure(t testing.TB, node string, plan nodetest.Plan, o Options) (*Report, []nodetest.Tally) {
	t.Helper()
	jobs := nodetest.StartJobs(t, node, plan)
	return measureJobs(t, jobs, o)
}

// measureJobs is measure for a program that has not begun yet.
func measureJobs(t testing.TB, jobs nodetest.Jobs, o Options) (*Report, []nodetest.Tally) {
	t.Helper()
	o.PIDs = []int{jobs.PID}
	m := begin(t, o)
	jobs.Begin()
	tallies := jobs.Done()
	r := m.end()
	m.silent()
	if r.Lost > 0 || r.Unfollowed > 0 {
		t.Errorf("lost %d, unfollowed %d, want none", r.Lost, r.Unfollowed)
	}
	return r, tallies
}

// addons compiles the test add-ons for node, by the names of their sources.
func addons(t testing.TB, node, flag string) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for _, source := range nodetest.Addons {
		paths[source] = nodetest.Addon(t, node, source, flag)
	}
	return paths
}

// keys are the test add-ons' functions that submit the work, by source and call.
var keys = map[string]map[string]string{
	"rawuv.cc": {
		"sleep":  "rawuv_cc.node`rawuv::Work::BeginSleep",
		"spin":   "rawuv_cc.node`rawuv::Work::BeginSpin",
		"cancel": "rawuv_cc.node`rawuv::Work::BeginCancel",
	},
	"napi.c": {
		"sleep":  "napi_c.node`begin_sleep",
		"spin":   "napi_c.node`begin_spin",
		"cancel": "napi_c.node`begin_cancel",
	},
	"napi.cc": {
		"sleep":  "napi_cc.node`pool::Sleeper::Begin",
		"spin":   "napi_cc.node`pool::Spinner::Begin",
		"cancel": "napi_cc.node`pool::Quitter::Begin",
	},
}

// counts returns the number of jobs of each kind, by key.
func counts(r *Report) map[string]uint64 {
	found := make(map[string]uint64)
	for _, k := range r.Kinds {
		found[k.Key] += k.Count
	}
	return found
}

// kind returns that kind from a report, an empty one after a failure.
func kind(t testing.TB, r *Report, key string) Kind {
	t.Helper()
	i := slices.IndexFunc(r.Kinds, func(k Kind) bool { return k.Key == key })
	if i < 0 {
		t.Errorf("kinds = %v, want %s among them", counts(r), key)
		return Kind{Key: key}
	}
	return r.Kinds[i]
}

// pool returns the only pool of a report.
func pool(t testing.TB, r *Report) Pool {
	t.Helper()
	if len(r.Pools) != 1 {
		t.Fatalf("pools = %+v, want 1", r.Pools)
	}
	return r.Pools[0]
}

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	return sort.Search(quantize.Slots, func(i int) bool {
		_, high := quantize.Bounds(i)
		return high >= uint64(d)
	})
}

// between counts the values from low up to but not including high, as precisely as the
// buckets allow: the bounds are those of the buckets that hold them.
func between(h *quantize.Histogram, low, high time.Duration) (n uint64) {
	for _, count := range h.Buckets[bucketOf(low):bucketOf(high)] {
		n += count
	}
	return n
}

// eachVersion runs test on every supported Node.js.
func eachVersion(t *testing.T, test func(t *testing.T, version, node string)) {
	t.Helper()
	for _, version := range nodetest.Versions {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.Root(t)
			nodetest.NothingLeft(t, programs...)
			test(t, version, nodetest.Node(t, version))
		})
	}
}

func devNull(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
