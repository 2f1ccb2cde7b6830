package main

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ustack/cmd/internal/cli"
	"ustack/cmd/internal/metrics"
	"ustack/tools/labels"
	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
)

// metricsFlag serves what is seen to Prometheus, if an address is given.
type metricsFlag struct {
	metrics.Server
	collected *collected
}

// begin serves from now on.
func (m *metricsFlag) begin(by nodesnoop.By, messages *cli.Messages) error {
	if !m.Serves() {
		return nil
	}
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		return err
	}
	m.collected = newCollected(by, reader)
	return m.Serve(m.collected, messages)
}

// event counts an event.
func (m *metricsFlag) event(e *nodesnoop.Event) {
	if m.collected != nil && e.Kind != nodesnoop.LoopRun {
		m.collected.event(e)
	}
}

// report keeps how the event loops spend their time.
func (m *metricsFlag) report(loops []nodesnoop.Loop) {
	if m.collected == nil {
		return
	}
	m.collected.mutex.Lock()
	defer m.collected.mutex.Unlock()
	m.collected.loops = loops
}

// maxSeries bounds the combinations of labels. All others are together in one.
const maxSeries = 500

// otherSeries is what the labels of those are.
const otherSeries = "[other]"

// maxLabel bounds the bytes of a label's value.
const maxLabel = 200

// Histograms have a bucket for each power of two of nanoseconds from about 16
// microseconds to about a minute.
const (
	leastPower = 14
	mostPower  = 36
)

// collected is what Prometheus collects. Its methods may be called concurrently.
type collected struct {
	reader                     *labels.Reader
	by                         nodesnoop.Summary // only for its keys
	requests, gc, io           *prometheus.Desc
	bytes, failed, utilization *prometheus.Desc

	mutex     sync.Mutex
	series    map[seriesKey]*series
	loops     []nodesnoop.Loop
	forgotten time.Time // when processes that have ended were last forgotten
}

// A seriesKey are the values of the labels: service, namespace, pod, probe, key, status.
type seriesKey [6]string

// A series is the events of one combination of labels.
type series struct {
	count, sum    uint64
	bytes, failed uint64
	powers        [mostPower + 1]uint64 // by the power of two above
}

func newCollected(by nodesnoop.By, reader *labels.Reader) *collected {
	process := []string{"service", "namespace", "pod"}
	request := append(process, "probe", nodesnoop.Bys[by], "status")
	return &collected{
		reader: reader, by: nodesnoop.Summary{By: by}, series: make(map[seriesKey]*series), forgotten: time.Now(),
		requests:    prometheus.NewDesc("nodesnoop_request_seconds", "From a request to the end of its response.", request, nil),
		bytes:       prometheus.NewDesc("nodesnoop_response_bytes_total", "Bytes of responses, before encryption.", request, nil),
		failed:      prometheus.NewDesc("nodesnoop_requests_failed_total", "Requests without a response, or with a status from 500 on.", request, nil),
		gc:          prometheus.NewDesc("nodesnoop_gc_seconds", "Garbage collections.", append(process, "kind"), nil),
		io:          prometheus.NewDesc("nodesnoop_operation_seconds", "Operations besides HTTP.", append(process, "operation", "result"), nil),
		utilization: prometheus.NewDesc("nodesnoop_event_loop_utilization", "Share of the last second that the main thread's event loop did not wait.", append(process, "pid"), nil),
	}
}

func (c *collected) event(e *nodesnoop.Event) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	key := c.key(e)
	s := c.series[key]
	if s == nil && len(c.series) >= maxSeries {
		key = seriesKey{otherSeries, otherSeries, otherSeries, key[3], otherSeries, otherSeries}
		s = c.series[key]
	}
	if s == nil {
		s = new(series)
		c.series[key] = s
	}
	s.count++
	s.sum += uint64(e.Latency)
	s.bytes += e.Bytes
	if e.Failed() {
		s.failed++
	}
	s.powers[power(uint64(e.Latency))]++
	if time.Since(c.forgotten) > time.Minute {
		c.reader.Forget()
		c.forgotten = time.Now()
	}
}

// power returns the power of two above a value, as a histogram has it.
func power(ns uint64) int {
	for p := leastPower; p < mostPower; p++ {
		if ns>>p == 0 {
			return p
		}
	}
	return mostPower
}

// key returns the labels' values for an event.
func (c *collected) key(e *nodesnoop.Event) seriesKey {
	var key seriesKey
	copy(key[:], c.process(e.PID))
	name := printable.String(c.by.Add(e).Key)
	key[3], key[4] = e.Kind.String(), strings.ToValidUTF8(name[:min(len(name), maxLabel)], "")
	switch {
	case e.Kind == nodesnoop.IO:
		key[5] = which(e)
	case !e.Kind.IsRequest():
	case e.Status == 0:
		key[5] = e.Outcome.String()
	default:
		key[5] = fmt.Sprintf("%dxx", e.Status/100)
	}
	return key
}

// process returns the values of the labels that say which process it is.
func (c *collected) process(pid int) []string {
	if !c.reader.Knows(pid) {
		c.reader.Read(pid)
	}
	values := make([]string, 3)
	for _, l := range c.reader.Of(pid) {
		for i, name := range []string{"service.name", "k8s.namespace.name", "k8s.pod.name"} {
			if l.Name == name {
				values[i] = l.Value
			}
		}
	}
	return values
}

// Describe sends the descriptions of all metrics.
func (c *collected) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.bytes, c.failed, c.gc, c.io, c.utilization} {
		to <- d
	}
}

// Collect sends all metrics.
func (c *collected) Collect(to chan<- prometheus.Metric) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for key, s := range c.series {
		histogram, values := c.requests, key[:]
		switch key[3] {
		case nodesnoop.GC.String():
			histogram, values = c.gc, append(key[:3:3], key[4])
		case nodesnoop.IO.String():
			histogram, values = c.io, append(key[:3:3], key[4:]...)
		default:
			to <- prometheus.MustNewConstMetric(c.bytes, prometheus.CounterValue, float64(s.bytes), values...)
			to <- prometheus.MustNewConstMetric(c.failed, prometheus.CounterValue, float64(s.failed), values...)
		}
		buckets := make(map[float64]uint64)
		var below uint64
		for p := leastPower; p < mostPower; p++ {
			below += s.powers[p]
			buckets[float64(uint64(1)<<p)/float64(time.Second)] = below
		}
		to <- prometheus.MustNewConstHistogram(histogram, s.count, float64(s.sum)/float64(time.Second), buckets, values...)
	}
	for _, l := range c.loops {
		values := append(c.process(l.PID), strconv.Itoa(l.PID))
		to <- prometheus.MustNewConstMetric(c.utilization, prometheus.GaugeValue, l.Utilization, values...)
	}
}
