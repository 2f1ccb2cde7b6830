package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"ustack/cmd/internal/clitest"
	"ustack/tools/labels"
	"ustack/tools/nodesnoop"
)

// TestScrapeIsWhatTheLinesSay compares what Prometheus gets while events are printed with
// the events so far.
func TestScrapeIsWhatTheLinesSay(t *testing.T) {
	target := serving(t)
	pid := strconv.Itoa(target.PID)
	p := clitest.Start(t, "nodesnoop", "-p", pid, "--json", "--metrics", "127.0.0.1:0")
	address := p.Line(`metrics at (\S+)`)
	p.Line("^Watching ")
	echoed(target)
	var all map[string]*dto.MetricFamily
	for deadline := time.Now().Add(time.Minute); clitest.Metric(all["nodesnoop_event_loop_utilization"], "pid", pid) == nil; time.Sleep(100 * time.Millisecond) {
		if all = clitest.Scrape(t, address); time.Now().After(deadline) {
			t.Fatal("no utilization of the event loop")
		}
	}
	if got := p.End(syscall.SIGINT); got.ExitStatus() != 0 {
		t.Errorf("exit status = %d, want 0", got.ExitStatus())
	}
	events := decodeEvents(t, p.Stdout())
	for probe, route := range map[string]string{"server": "GET /echo", "client": "localhost:"} {
		m := clitest.Metric(all["nodesnoop_request_seconds"], "probe", probe)
		if got := label(m, "route"); !strings.HasPrefix(got, route) || label(m, "status") != "2xx" || label(m, "service") != "echoes.js" {
			t.Errorf("%s: labels = %v, want %s, 2xx, echoes.js", probe, m.GetLabel(), route)
		}
		bytes := clitest.Metric(all["nodesnoop_response_bytes_total"], "probe", probe).GetCounter().GetValue()
		checkHistogram(t, probe, events[probe], m.GetHistogram(), bytes)
		if failed := clitest.Metric(all["nodesnoop_requests_failed_total"], "probe", probe); failed == nil || failed.GetCounter().GetValue() != 0 {
			t.Errorf("%s: failed = %v, want 0", probe, failed)
		}
	}
	loop := clitest.Metric(all["nodesnoop_event_loop_utilization"], "pid", pid).GetGauge().GetValue()
	if loop <= 0 || loop >= 1 {
		t.Errorf("utilization = %v, want more than 0 and less than 1", loop)
	}
}

func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// decodeEvents returns events by their probe.
func decodeEvents(t *testing.T, text string) map[string][]printed {
	t.Helper()
	all := make(map[string][]printed)
	for d := json.NewDecoder(strings.NewReader(text)); ; {
		var e printed
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[e.Probe] = append(all[e.Probe], e)
	}
}

// checkHistogram compares a histogram with as many of the first events as it has.
func checkHistogram(t *testing.T, name string, events []printed, got *dto.Histogram, bytes float64) {
	t.Helper()
	n := int(got.GetSampleCount())
	if n < 50 || n > len(events) {
		t.Errorf("%s: count = %d, want 50 or more and no more than %d", name, n, len(events))
		return
	}
	var sum, size uint64
	for _, e := range events[:n] {
		sum += uint64(*e.Latency)
		size += *e.Bytes
	}
	if want := float64(sum) / 1e9; math.Abs(got.GetSampleSum()-want) > 1e-9*float64(n) || bytes != float64(size) {
		t.Errorf("%s: sum = %v s, %v bytes, want %v s, %d bytes", name, got.GetSampleSum(), bytes, want, size)
	}
	for _, b := range got.GetBucket() {
		below := 0
		for _, e := range events[:n] {
			if float64(*e.Latency) < math.Round(b.GetUpperBound()*1e9) {
				below++
			}
		}
		if !math.IsInf(b.GetUpperBound(), 1) && int(b.GetCumulativeCount()) != below {
			t.Errorf("%s: %d took less than %v s, want %d", name, b.GetCumulativeCount(), b.GetUpperBound(), below)
		}
	}
}

// TestEachKindHasItsMetric has an event of each kind that is collected.
func TestEachKindHasItsMetric(t *testing.T) {
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCollected(nodesnoop.ByRoute, reader)
	m := metricsFlag{collected: c}
	for _, e := range []nodesnoop.Event{
		{Kind: nodesnoop.Server, Method: "GET", URL: "/a/1", Status: 404},
		{Kind: nodesnoop.Client, Method: "GET", Host: "host", Outcome: nodesnoop.Closed},
		{Kind: nodesnoop.GC, Collection: "scavenge"},
		{Kind: nodesnoop.IO, Method: "fs.open", URL: "/file", Failure: "ENOENT"},
		{Kind: nodesnoop.IO, Method: "dns.lookup", URL: "host"},
		{Kind: nodesnoop.LoopRun},
	} {
		e.PID = 1 << 30
		m.event(&e)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if h := m.GetHistogram(); h.GetSampleCount() == 1 {
				got = append(got, strings.TrimSpace(strings.Join([]string{
					f.GetName(), label(m, "route") + label(m, "kind") + label(m, "operation"), label(m, "status") + label(m, "result"),
				}, " ")))
			}
		}
	}
	want := []string{
		"nodesnoop_gc_seconds scavenge", "nodesnoop_operation_seconds dns.lookup host done", "nodesnoop_operation_seconds fs.open ENOENT",
		"nodesnoop_request_seconds host closed", "nodesnoop_request_seconds GET /a/:num 4xx",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("histograms (-want +got):\n%s", diff)
	}
}

// TestSeriesAreBounded has more routes than there is room for, with hostile names.
func TestSeriesAreBounded(t *testing.T) {
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := newCollected(nodesnoop.ByPath, reader)
	const paths = 3 * maxSeries
	for i := range paths {
		c.event(&nodesnoop.Event{
			PID: 1 << 30, Method: "GET", URL: fmt.Sprintf("/\x1b%d%s\xff", i, strings.Repeat("é", maxLabel)), Status: 503, Bytes: 2, Latency: time.Hour,
		})
	}
	if len(c.series) > maxSeries+1 {
		t.Errorf("series = %d, want no more than %d and one of all others", len(c.series), maxSeries)
	}
	var count, failed, bytes uint64
	for key, s := range c.series {
		count, failed, bytes = count+s.count, failed+s.failed, bytes+s.bytes
		if len(key[4]) > maxLabel || strings.Contains(key[4], "\x1b") || !utf8.ValidString(key[4]) {
			t.Errorf("label = %q", key[4])
		}
	}
	if count != paths || failed != paths || bytes != 2*paths {
		t.Errorf("count, failed, bytes = %d, %d, %d, want %d, %d, %d", count, failed, bytes, paths, paths, 2*paths)
	}
}
