package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ustack/cmd/internal/cli"
	"ustack/tools/addonlat"
	"ustack/tools/labels"
	"ustack/tools/printable"
	"ustack/tools/quantize"
)

// metricsFlag serves what is measured to Prometheus, if an address is given.
type metricsFlag struct {
	addr     string
	listener net.Listener
	server   *http.Server
	metrics  *metrics
}

// Limits for each client, so that a slow or hostile one can hold neither a connection nor the
// measurement.
const (
	metricsPath   = "/metrics"
	scrapeLimit   = 10 * time.Second // for a request, and for its answer
	idleLimit     = 2 * time.Minute  // between two requests on one connection
	maxHeader     = 1 << 14          // bytes
	maxScrapes    = 4                // at the same time
	metricsPeriod = time.Second      // how old a number may be
)

// checkMetrics reports what makes no sense with --metrics.
func (f *flags) checkMetrics() error {
	if f.metrics.addr == "" {
		return nil
	}
	if f.addonlat.By == addonlat.Stack {
		return cli.Usagef("--metrics needs short names (leave out --by stack)")
	}
	if _, _, err := net.SplitHostPort(f.metrics.addr); err != nil {
		return cli.Usagef("--metrics: %v", err)
	}
	return nil
}

// open listens. An address without a host means loopback.
func (m *metricsFlag) open() (err error) {
	if m.addr == "" {
		return nil
	}
	addr := m.addr
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	if m.listener, err = net.Listen("tcp", addr); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

func (m *metricsFlag) close() {
	if m.server != nil {
		_ = m.server.Close() // its connections have nothing more to say
	}
	if m.listener != nil {
		_ = m.listener.Close()
	}
}

// watch has what is measured gathered and served.
func (m *metricsFlag) watch(f *flags, o *addonlat.Options, messages *cli.Messages) error {
	if m.listener == nil {
		return nil
	}
	reader, err := labels.NewReader(labels.Options{})
	if err != nil {
		return err
	}
	m.metrics = newMetrics(addonlat.Bys[o.By], reader)
	m.metrics.watch(o)
	registry := prometheus.NewRegistry()
	if err := registry.Register(m.metrics); err != nil {
		return fmt.Errorf("serve metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+metricsPath, promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	m.server = &http.Server{
		Handler:     guarded(mux),
		ReadTimeout: scrapeLimit, WriteTimeout: scrapeLimit, IdleTimeout: idleLimit, MaxHeaderBytes: maxHeader,
	}
	go func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			messages.Warn(fmt.Errorf("serve metrics: %w", err))
		}
	}()
	messages.Notef("metrics at http://%v%s", m.listener.Addr(), metricsPath)
	return nil
}

// guarded refuses requests for other hosts than loopback if it is loopback that listens: a
// page of another site may have its own name lead here (DNS rebinding).
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local, _ := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
		if local == nil || local.IP.IsLoopback() && !loopback(r.Host) {
			http.Error(w, "this server has another name", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether a Host header names the loopback interface.
func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.IsLoopback() || strings.EqualFold(host, "localhost")
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

// metrics is what Prometheus collects. Its methods may be called concurrently.
type metrics struct {
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

func newMetrics(by string, reader *labels.Reader) *metrics {
	m := &metrics{reader: reader, series: make(map[seriesKey]*series), forgotten: time.Now()}
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
func (m *metrics) watch(o *addonlat.Options) {
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
func (m *metrics) add(s *addonlat.Slice) {
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
func (m *metrics) of(key seriesKey) *series {
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
func (m *metrics) key(k *addonlat.SliceKind) seriesKey {
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

func (m *metrics) pool(p addonlat.Pool) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.current = p
}

// endInterval adds the pools of a report, after which the next numbers begin at 0.
func (m *metrics) endInterval(r *addonlat.Report) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	for _, p := range r.Pools {
		m.reported.Submitted += p.Submitted
		m.reported.Completed += p.Completed
	}
	m.current = addonlat.Pool{InFlight: m.current.InFlight}
}

// Describe sends the descriptions of all metrics.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range append(m.histograms[:], m.submitted, m.completed, m.inFlight) {
		to <- d
	}
}

// Collect sends all metrics.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
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
