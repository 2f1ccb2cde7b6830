package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"ustack/cmd/internal/clitest"
	"ustack/testdata/nodetest"
)

// needReceivers skips the test where it is not asked for.
func needReceivers(t *testing.T) {
	t.Helper()
	if os.Getenv("USTACK_RECEIVERS") != "1" {
		t.Skip("compiles other projects' receivers, which takes some minutes: make test-receivers")
	}
}

// build builds a module of testdata, and returns its program.
func build(t *testing.T, module string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), module)
	cmd := exec.Command("go", "build", "-o", program, ".")
	cmd.Dir = filepath.Join("..", "..", "testdata", module)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", module, err, out)
	}
	return program
}

// freePort returns a port of loopback that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// A receipt is a profile that a receiver has printed.
type receipt struct {
	Labels  map[string]any   `json:"labels"`
	ID      string           `json:"id"`
	Type    string           `json:"type"`
	Period  int64            `json:"period"`
	Sum     uint64           `json:"sum"`
	Stacks  map[string]int64 `json:"stacks"`
	Threads map[string]int64 `json:"threads"`
	Types   []string         `json:"types"` // of Pyroscope's, as Sums
	Sums    []uint64         `json:"sums"`
}

// A receiver is a running program of testdata that takes profiles.
type receiver struct {
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan receipt // closed when it has ended
}

func startReceiver(t *testing.T, program string, addresses ...string) *receiver {
	t.Helper()
	r := &receiver{cmd: exec.Command(program, addresses...), lines: make(chan receipt, 1<<10)}
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := r.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.stdin = stdin
	stdout, err := r.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%s: first line = %q, %v, want ready", program, line, err)
	}
	go func() {
		defer close(r.lines)
		for d := json.NewDecoder(lines); ; {
			var one receipt
			if err := d.Decode(&one); err != nil {
				return
			}
			r.lines <- one
		}
	}()
	return r
}

// stop ends the receiver and returns what it printed that was not taken from lines.
func (r *receiver) stop(t *testing.T) (all []receipt) {
	t.Helper()
	r.stdin.Close()
	for one := range r.lines {
		all = append(all, one)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Errorf("%s: %v", r.cmd.Path, err)
	}
	return all
}

// A profiler is a running jsprof.
type profiler struct {
	cmd    *exec.Cmd
	mutex  sync.Mutex
	stderr bytes.Buffer
	notes  chan string // lines of stderr
}

func startProfiler(t *testing.T, args ...string) *profiler {
	t.Helper()
	p := &profiler{cmd: exec.Command("jsprof", args...), notes: make(chan string, 1<<10)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	go func() {
		defer close(p.notes)
		for s := bufio.NewScanner(stderr); s.Scan(); {
			p.mutex.Lock()
			p.stderr.WriteString(s.Text() + "\n")
			p.mutex.Unlock()
			p.notes <- s.Text()
		}
	}()
	return p
}

// await waits for a line of stderr that contains text.
func (p *profiler) await(t *testing.T, text string) {
	t.Helper()
	for line := range p.notes {
		if strings.Contains(line, text) {
			return
		}
	}
	t.Fatalf("no line with %q:\n%s", text, p.stderr.String())
}

// end ends jsprof as systemd does, and returns what it printed.
func (p *profiler) end(t *testing.T) string {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range p.notes {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("jsprof: %v", err)
	}
	return p.stderr.String()
}

var pushed = regexp.MustCompile(`pushed (\d+) profiles \((\d+) samples\)`)

// pushedIn returns the numbers that jsprof reports at its end.
func pushedIn(t *testing.T, notes string) (profiles int, samples uint64) {
	t.Helper()
	m := pushed.FindStringSubmatch(notes)
	if m == nil {
		t.Fatalf("it is not said what was pushed:\n%s", notes)
	}
	profiles, _ = strconv.Atoi(m[1])
	samples, _ = strconv.ParseUint(m[2], 10, 64)
	return profiles, samples
}

// total returns the sum of receipts' samples, each of another profile.
func total(t *testing.T, all []receipt) (samples uint64) {
	t.Helper()
	seen := make(map[string]bool)
	for _, r := range all {
		if r.ID != "" && seen[r.ID] {
			t.Errorf("profile %s arrived twice", r.ID)
		}
		seen[r.ID] = true
		samples += r.Sum
		if len(r.Sums) > 0 {
			samples += r.Sums[0]
		}
	}
	return samples
}

// TestCollectorGetsEverySampleAcrossARestart pushes continuously to OpenTelemetry's Collector,
// by both transports, which goes away and comes back.
func TestCollectorGetsEverySampleAcrossARestart(t *testing.T) {
	needReceivers(t)
	node := clitest.Node(t, programs...)
	program := build(t, "collector")
	for _, transport := range []string{"http", "grpc"} {
		t.Run(transport, func(t *testing.T) {
			addresses := []string{freePort(t), freePort(t)}
			to := addresses[0]
			if transport == "grpc" {
				to = addresses[1]
			}
			target := nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{"sort"}, Env: []string{"OTEL_SERVICE_NAME=checkout"}})
			idle := nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
			collector := startReceiver(t, program, addresses...)
			p := startProfiler(t, "-p", strconv.Itoa(target.PID)+","+strconv.Itoa(idle.PID), "--continuous", "--interval", "1s",
				"--push", "otlp+"+transport+"://"+to, "--label", "deployment.environment.name=test")
			all := []receipt{<-collector.lines, <-collector.lines}
			all = append(all, collector.stop(t)...)
			p.await(t, "trying again")
			collector = startReceiver(t, program, addresses...)
			p.await(t, "answers again")
			all = append(all, <-collector.lines)
			notes := p.end(t)
			all = append(all, collector.stop(t)...)

			profiles, samples := pushedIn(t, notes)
			if got := total(t, all); got != samples || len(all) != profiles || strings.Contains(notes, "dropped") {
				t.Errorf("%d samples in %d profiles arrived, want %d in %d and none dropped:\n%s", got, len(all), samples, profiles, notes)
			}
			for _, r := range all {
				checkReceipt(t, r, map[string]any{
					"deployment.environment.name": "test", "process.runtime.version": clitest.NodeVersion, "process.runtime.name": "nodejs",
				})
				want := "nested.js"
				if r.Labels["process.pid"] == float64(target.PID) {
					want = "checkout"
				}
				if r.Labels["service.name"] != want {
					t.Errorf("service = %v, want %s", r.Labels["service.name"], want)
				}
			}
		})
	}
}

// checkReceipt checks that a profile says where it is from, and that most of it is of the function
// in which nested.js spins.
func checkReceipt(t *testing.T, r receipt, labels map[string]any) {
	t.Helper()
	for name, want := range labels {
		if r.Labels[name] != want {
			t.Errorf("label %s = %v, want %v", name, r.Labels[name], want)
		}
	}
	host, _ := os.Hostname()
	if r.Labels["host.name"] != host || r.Labels["v8.version"] == nil {
		t.Errorf("labels = %v, want the host's name and V8's version", r.Labels)
	}
	const period = int64(1e9) / 99
	if r.Type != "samples/count" || r.Period < period-1 || r.Period > period+1 {
		t.Errorf("profile of %s, each %d ns", r.Type, r.Period)
	}
	var inLeaf int64
	for stack, n := range r.Stacks {
		if regexp.MustCompile(`(^|;)leaf \S*nested\.js:\d+ \[v8js\]`).MatchString(stack) {
			inLeaf += n
		}
	}
	if r.Sum > 20 && uint64(inLeaf) < r.Sum*3/4 {
		t.Errorf("samples in leaf = %d of %d, want most: %v", inLeaf, r.Sum, r.Stacks)
	}
}

// TestPyroscopeGetsEverySample pushes to a server of Pyroscope's published API.
func TestPyroscopeGetsEverySample(t *testing.T) {
	needReceivers(t)
	node := clitest.Node(t, programs...)
	program := build(t, "pyroscope")
	address := freePort(t)
	target := nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	server := startReceiver(t, program, address)
	p := startProfiler(t, "-p", strconv.Itoa(target.PID), "--continuous", "--interval", "1s", "--service", "env:NONE,name:shop", "--push", "pyroscope+http://"+address)
	all := []receipt{<-server.lines}
	notes := p.end(t)
	all = append(all, server.stop(t)...)
	profiles, samples := pushedIn(t, notes)
	if got := total(t, all); got != samples || len(all) != profiles || samples == 0 {
		t.Errorf("%d samples in %d profiles arrived, want %d in %d:\n%s", got, len(all), samples, profiles, notes)
	}
	for _, r := range all {
		if r.Labels["__name__"] != "process_cpu" || r.Labels["service_name"] != "shop" || r.Labels["pid"] != strconv.Itoa(target.PID) ||
			r.Labels["node_version"] != clitest.NodeVersion {
			t.Errorf("labels = %v", r.Labels)
		}
		if strings.Join(r.Types, " ") != "samples/count cpu/nanoseconds" {
			t.Errorf("types = %v", r.Types)
		}
	}
}

// TestOneProfileIsPushed when sampling is over; if that is not possible, jsprof fails.
func TestOneProfileIsPushed(t *testing.T) {
	needReceivers(t)
	node := clitest.Node(t, programs...)
	target := nodetest.Start(t, node, nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	push := func(to string) (string, error) {
		out, err := exec.Command("jsprof", "-p", strconv.Itoa(target.PID), "-d", "1s", "--push", to).CombinedOutput()
		return string(out), err
	}
	addresses := []string{freePort(t), freePort(t)}
	collector := startReceiver(t, build(t, "collector"), addresses...)
	notes, err := push("otlp+http://" + addresses[0])
	if err != nil {
		t.Fatalf("%v\n%s", err, notes)
	}
	all := collector.stop(t)
	if profiles, samples := pushedIn(t, notes); profiles != 1 || len(all) != 1 || total(t, all) != samples {
		t.Errorf("%d profiles with %d samples arrived, want 1 with %d", len(all), total(t, all), samples)
	}
	notes, err = push("otlp+http://" + addresses[0])
	if err == nil || !strings.Contains(notes, "dropped 1 profiles") || !strings.Contains(notes, "not all profiles were pushed") {
		t.Errorf("without a receiver: %v, want a failure\n%s", err, notes)
	}
}

// TestCollectorGetsEverySampleOfNewSessions has so many processes come and go that sampling begins
// again, more than once.
func TestCollectorGetsEverySampleOfNewSessions(t *testing.T) {
	needReceivers(t)
	node := clitest.Node(t, programs...)
	folder := t.TempDir()
	const name = "comes-and-goes"
	brief, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	lasting := filepath.Join(folder, "node", name)
	short := filepath.Join(folder, "cat", name)
	for link, program := range map[string]string{lasting: node, short: brief} {
		if err := os.Mkdir(filepath.Dir(link), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, link); err != nil {
			t.Fatal(err)
		}
	}
	target := nodetest.Start(t, lasting, nodetest.Options{Script: "nested.js", Args: []string{"sort"}})
	addresses := []string{freePort(t), freePort(t)}
	collector := startReceiver(t, build(t, "collector"), addresses...)
	p := startProfiler(t, "--comm", name, "--continuous", "--interval", "1s", "--push", "otlp+http://"+addresses[0])
	var all []receipt
	next := func() { // waits for the end of an interval
		for r := range collector.lines {
			all = append(all, r)
			if r.Labels["process.pid"] == float64(target.PID) {
				return
			}
		}
		t.Fatal("the collector has ended")
	}
	next()
	const batch = 100
	for range 2*renewEnded/batch + 4 { // twice, and some more: a few end unseen
		stop := startMany(t, short, batch)
		next()
		next()
		stop()
	}
	notes := p.end(t)
	all = append(all, collector.stop(t)...)
	profiles, samples := pushedIn(t, notes)
	if got := total(t, all); got != samples || len(all) != profiles || strings.Contains(notes, "dropped") {
		t.Errorf("%d samples in %d profiles arrived, want %d in %d and none dropped:\n%s", got, len(all), samples, profiles, notes)
	}
	if !regexp.MustCompile(`sampling started again [2-9] times, in which \d+\.\d s were not sampled`).MatchString(notes) {
		t.Errorf("sampling did not start again twice:\n%s", notes)
	}
	if lines := strings.Count(notes, "\n"); lines > 20 {
		t.Errorf("%d lines were printed, want a few:\n%s", lines, notes)
	}
}

// startMany starts processes that wait until they are stopped.
func startMany(t *testing.T, program string, n int) (stop func()) {
	t.Helper()
	var started []*exec.Cmd
	var inputs []io.Closer
	for range n {
		cmd := exec.Command(program)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		started, inputs = append(started, cmd), append(inputs, stdin)
	}
	return func() {
		for i, cmd := range started {
			inputs[i].Close()
			if err := cmd.Wait(); err != nil {
				t.Error(err)
			}
		}
	}
}
