package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
	"ustack/tools/addonlat"
	"ustack/tools/labels"
	"ustack/tools/quantize"
)

// TestScrapeIsWhatTheReportSays: bucket by bucket, for jobs by function and by resource.
func TestScrapeIsWhatTheReportSays(t *testing.T) {
	node := clitest.Node(t, programs...)
	addon := nodetest.Addon(t, node, "napi.c", nodetest.FramePointers)
	for _, by := range []string{"function", "resource"} {
		t.Run(by, func(t *testing.T) {
			const count = 211
			jobs := nodetest.StartJobs(t, node, nodetest.Plan{
				Addons: map[string]string{"napi.c": addon}, Stay: true,
				Steps: []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 3_000, Count: count}},
			})
			cmd := exec.Command("addonlat", "-p", strconv.Itoa(jobs.PID), "--by", by, "--json", "--metrics", "127.0.0.1:0")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			stderr, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() })
			address, notes := "", bufio.NewScanner(stderr)
			for notes.Scan() && !strings.HasPrefix(notes.Text(), "Measuring") {
				if m := regexp.MustCompile(`metrics at (\S+)`).FindStringSubmatch(notes.Text()); m != nil {
					address = m[1]
				}
			}
			jobs.Begin()
			jobs.Done()
			var total, completed *dto.Metric // each may be a second older than the other
			var all map[string]*dto.MetricFamily
			deadline := time.Now().Add(time.Minute)
			for (total.GetHistogram().GetSampleCount() < count || completed.GetCounter().GetValue() < count) && time.Now().Before(deadline) {
				all = clitest.Scrape(t, address)
				for _, m := range all["addonlat_total_seconds"].GetMetric() {
					total = m
				}
				completed = all["addonlat_jobs_completed_total"].GetMetric()[0]
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			var r report
			if err := json.NewDecoder(stdout).Decode(&r); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Fatal(err)
			}
			if len(r.Kinds) != 1 || r.Kinds[0].Count != count {
				t.Fatalf("report = %+v, want %d jobs of one kind", r.Kinds, count)
			}
			k := r.Kinds[0]
			for name, want := range map[string]*histogram{"total": k.Total, "wait": k.Wait, "run": k.Run, "delivery": k.Delivery} {
				m := clitest.Metric(all["addonlat_"+name+"_seconds"], by, k.Key)
				if m == nil {
					t.Errorf("%s: no metric with %s=%q: %v", name, by, k.Key, all["addonlat_"+name+"_seconds"])
					continue
				}
				checkHistogram(t, name, m.GetHistogram(), want)
			}
			if clitest.Metric(all["addonlat_total_seconds"], "service", "jobs.js") == nil {
				t.Errorf("labels = %v, want the script as the service", total.GetLabel())
			}
			if got := completed.GetCounter().GetValue(); got < count {
				t.Errorf("completed jobs = %v, want %d or more", got, count)
			}
		})
	}
}

// checkHistogram compares what Prometheus got with a report.
func checkHistogram(t *testing.T, name string, got *dto.Histogram, want *histogram) {
	t.Helper()
	if got.GetSampleCount() != want.Count {
		t.Errorf("%s: count = %d, want %d", name, got.GetSampleCount(), want.Count)
	}
	if sum := float64(*want.Sum) / 1e9; math.Abs(got.GetSampleSum()-sum) > 1e-9*float64(want.Count) {
		t.Errorf("%s: sum = %v s, want %v", name, got.GetSampleSum(), sum)
	}
	for _, b := range got.GetBucket() {
		var below uint64
		for _, fine := range want.Buckets {
			if float64(*fine.Low) < math.Round(b.GetUpperBound()*1e9) {
				below += fine.Count
			}
		}
		if b.GetCumulativeCount() != below && !math.IsInf(b.GetUpperBound(), 1) {
			t.Errorf("%s: %d took less than %v s, want %d", name, b.GetCumulativeCount(), b.GetUpperBound(), below)
		}
	}
}

// TestSeriesAreBounded measures more kinds than there is room for.
func TestSeriesAreBounded(t *testing.T) {
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newCollected("function", reader)
	const kinds = 2 * maxSeries
	var s addonlat.Slice
	for i := range kinds {
		k := addonlat.SliceKind{PID: 1 << 30, Key: fmt.Sprintf("\x1b%d %s", i, strings.Repeat("é", maxLabel))}
		k.Parts[0][quantize.Slots-1] = 3
		s.Kinds = append(s.Kinds, k)
	}
	m.add(&s)
	m.add(&s)
	if len(m.series) > maxSeries+1 {
		t.Errorf("series = %d, want no more than %d and one of all others", len(m.series), maxSeries)
	}
	var total uint64
	for key, of := range m.series {
		total += of[0].count
		if len(key[3]) > maxLabel || strings.Contains(key[3], "\x1b") {
			t.Errorf("label = %q", key[3])
		}
	}
	if want := uint64(2 * kinds * 3); total != want {
		t.Errorf("jobs in all series = %d, want %d", total, want)
	}
}

// TestCountsDoNotFallWithIntervals: counts begin at 0 again in each interval.
func TestCountsDoNotFallWithIntervals(t *testing.T) {
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		t.Fatal(err)
	}
	m := newCollected("function", reader)
	nothing := func(*addonlat.Report) error { return nil }
	o := addonlat.Options{Report: nothing, Progress: func(addonlat.Pool) {}}
	m.watch(&o)
	o.Progress(addonlat.Pool{Submitted: 5, Completed: 3, InFlight: 2})
	if err := o.Report(&addonlat.Report{Pools: []addonlat.Pool{{Submitted: 4, Completed: 4}, {Submitted: 3, Completed: 1}}}); err != nil {
		t.Fatal(err)
	}
	o.Progress(addonlat.Pool{Submitted: 11, Completed: 10, InFlight: 3})
	if got, want := [2]uint64{m.reported.Submitted + m.current.Submitted, m.reported.Completed + m.current.Completed}, [2]uint64{18, 15}; got != want {
		t.Errorf("submitted and completed = %d, want %d", got, want)
	}
}
