package main

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ustack/cmd/internal/cli"
	"ustack/cmd/internal/metrics"
	"ustack/tools/addonlat"
	"ustack/tools/labels"
	"ustack/tools/printable"
	"ustack/tools/quantize"
)

// metricsFlag serves what is measured to Prometheus, if an address is given.
type metricsFlag struct {
	metrics.Server
	collected *collected
}

// metricsPeriod is how old a number may be.
const metricsPeriod = time.Second

// checkMetrics reports what makes no sense with --metrics.
func (f *flags) checkMetrics() error {
	if f.metrics.Addr != "" && f.addonlat.By == addonlat.Stack {
		return cli.Usagef("--metrics needs short names (leave out --by stack)")
	}
	return f.metrics.Check()
}

// watch has what is measured gathered and served.
func (m *metricsFlag) watch(f *flags, o *addonlat.Options, messages *cli.Messages) error {
	if !m.Serves() {
		return nil
	}
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		return err
	}
	m.collected = newCollected(addonlat.Bys[o.By], reader)
	m.collected.watch(o)
	return m.Serve(m.collected, messages)
}

// maxSeries bounds the combinations of labels, each with four histograms. All others are
// together in one.
const maxSeries = 500

// otherSeries is what the labels of those are.
const otherSeries = "[other]"

// maxLabel bounds the bytes of a label's value.
const maxLabel = 200

// Histograms have a bucket for each power of two of nanoseconds from about a microsecond to
// about a minute; a bucket's bound is exclusive.
const (
	leastPower = 10
	mostPower  = 36
)

// collected is what Prometheus collects. Its methods may be called concurrently.
type collected struct {
	reader                         *labels.Reader
	histograms                     [4]*prometheus.Desc
	submitted, completed, inFlight *prometheus.Desc

	mutex     sync.Mutex
	series    map[seriesKey]*series
	reported  addonlat.Pool // sums of intervals that are over
	current   addonlat.Pool // of the current one
	forgotten time.Time     // when processes that have ended were last forgotten
}

// A seriesKey are the values of the labels: service, namespace, pod, and what jobs are grouped by.
type seriesKey [4]string

// A series is the four histograms of one combination of labels.
type series [4]struct {
	count, sum uint64
	powers     [mostPower + 1]uint64 // by the power of two above
}

func newCollected(by string, reader *labels.Reader) *collected {
	m := &collected{reader: reader, series: make(map[seriesKey]*series), forgotten: time.Now()}
	names := []string{"service", "namespace", "pod", by}
	for i, part := range []struct{ name, help string }{
		{"total", "From the submission of a job to its completion on the event loop."},
		{"wait", "From the submission of a job until a thread takes it."},
		{"run", "How long a job runs on its thread."},
		{"delivery", "From there to its completion on the event loop."},
	} {
		m.histograms[i] = prometheus.NewDesc("addonlat_"+part.name+"_seconds", part.help, names, nil)
	}
	m.submitted = prometheus.NewDesc("addonlat_jobs_submitted_total", "Jobs submitted to libuv's pools, node's own too.", nil, nil)
	m.completed = prometheus.NewDesc("addonlat_jobs_completed_total", "Jobs that libuv's pools have completed, node's own too.", nil, nil)
	m.inFlight = prometheus.NewDesc("addonlat_jobs_in_flight", "Jobs that were submitted and are not completed.", nil, nil)
	return m
}

// watch has the numbers of o's run added, besides what it does already.
func (m *collected) watch(o *addonlat.Options) {
	slice, progress, report := o.Slice, o.Progress, o.Report
	if slice == nil {
		o.Every = metricsPeriod
	}
	o.Slice = func(s *addonlat.Slice) time.Duration {
		m.add(s)
		if slice != nil {
			return slice(s)
		}
		return metricsPeriod
	}
	o.Progress = func(p addonlat.Pool) {
		m.pool(p)
		progress(p)
	}
	o.Report = func(r *addonlat.Report) error {
		m.endInterval(r)
		return report(r)
	}
}

// add adds what was counted within a slice.
func (m *collected) add(s *addonlat.Slice) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for i := range s.Kinds {
		k := &s.Kinds[i]
		of := m.of(m.key(k))
		for part := range k.Parts {
			of[part].sum += k.Sums[part]
			for bucket, n := range k.Parts[part] {
				of[part].count += n
				of[part].powers[power(bucket)] += n
			}
		}
	}
	if time.Since(m.forgotten) > time.Minute {
		m.reader.Forget()
		m.forgotten = time.Now()
	}
}

// power returns the power of two above the values of a bucket, as a histogram has it.
func power(bucket int) int {
	_, high := quantize.Bounds(bucket)
	for p := leastPower; p < mostPower; p++ {
		if high>>p == 0 {
			return p
		}
	}
	return mostPower
}

// of returns the series of a key, or that of all others if there are too many.
func (m *collected) of(key seriesKey) *series {
	s := m.series[key]
	if s == nil && len(m.series) >= maxSeries {
		key = seriesKey{otherSeries, otherSeries, otherSeries, otherSeries}
		s = m.series[key]
	}
	if s == nil {
		s = new(series)
		m.series[key] = s
	}
	return s
}

// key returns the labels' values for a kind of jobs.
func (m *collected) key(k *addonlat.SliceKind) seriesKey {
	if !m.reader.Knows(k.PID) {
		m.reader.Read(k.PID)
	}
	var key seriesKey
	for _, l := range m.reader.Of(k.PID) {
		for i, name := range []string{"service.name", "k8s.namespace.name", "k8s.pod.name"} {
			if l.Name == name {
				key[i] = l.Value
			}
		}
	}
	name := printable.String(k.Key)
	key[3] = strings.ToValidUTF8(name[:min(len(name), maxLabel)], "")
	return key
}

func (m *collected) pool(p addonlat.Pool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.current = p
}

// endInterval adds the pools of a report, after which the next numbers begin at 0.
func (m *collected) endInterval(r *addonlat.Report) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, p := range r.Pools {
		m.reported.Submitted += p.Submitted
		m.reported.Completed += p.Completed
	}
	m.current = addonlat.Pool{InFlight: m.current.InFlight}
}

// Describe sends the descriptions of all metrics.
func (m *collected) Describe(to chan<- *prometheus.Desc) {
	for _, d := range append(m.histograms[:], m.submitted, m.completed, m.inFlight) {
		to <- d
	}
}

// Collect sends all metrics.
func (m *collected) Collect(to chan<- prometheus.Metric) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	to <- prometheus.MustNewConstMetric(m.submitted, prometheus.CounterValue, float64(m.reported.Submitted+m.current.Submitted))
	to <- prometheus.MustNewConstMetric(m.completed, prometheus.CounterValue, float64(m.reported.Completed+m.current.Completed))
	to <- prometheus.MustNewConstMetric(m.inFlight, prometheus.GaugeValue, float64(m.current.InFlight))
	for key, s := range m.series {
		for i, part := range s {
			buckets := make(map[float64]uint64)
			var below uint64
			for p := leastPower; p < mostPower; p++ {
				below += part.powers[p]
				buckets[float64(uint64(1)<<p)/float64(time.Second)] = below
			}
			to <- prometheus.MustNewConstHistogram(m.histograms[i], part.count, float64(part.sum)/float64(time.Second), buckets, key[:]...)
		}
	}
}
