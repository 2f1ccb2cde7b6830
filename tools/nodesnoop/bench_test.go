package nodesnoop

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ustack/testdata/nodetest"
	"ustack/testdata/nodetest/benchtable"
)

// An effort says how much is measured: enough to show that the benchmark works, or with
// USTACK_BENCH=long and full enough for numbers worth quoting.
type effort struct {
	requests, rounds int
	warm             time.Duration // load before it is measured
}

func chosenEffort() effort {
	if how := os.Getenv("USTACK_BENCH"); how == "long" || how == "full" {
		return effort{requests: 60_000, rounds: 7, warm: 2 * time.Second}
	}
	return effort{requests: 4_000, rounds: 1}
}

// Connections that ask at the same time, and how many requests wait for responses on each.
const benchConnections = 32

// saturate sends requests as fast as they are answered, and returns how many were answered
// in a second.
func saturate(b *testing.B, address, path string, requests int) float64 {
	b.Helper()
	begun := time.Now()
	var asking sync.WaitGroup
	for range benchConnections {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		asking.Go(func() {
			defer conn.Close()
			request := []byte(query{method: "GET", url: path}.text())
			reader := bufio.NewReader(conn)
			for range requests / benchConnections {
				if _, err := conn.Write(request); err != nil {
					b.Error(err)
					return
				}
				if err := skipResponse(reader); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
	return float64(requests) / time.Since(begun).Seconds()
}

// skipResponse reads a response with a length.
func skipResponse(r *bufio.Reader) error {
	length := int64(0)
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == len("\r\n") {
			_, err := io.CopyN(io.Discard, r, length)
			return err
		}
		if text, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.ParseInt(string(bytes.TrimSpace(text)), 10, 64); err != nil {
				return err
			}
		}
	}
}

// spent returns the CPU time that a process has used.
func spent(b *testing.B, pid int) time.Duration {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // of the main thread
	if err != nil {
		b.Fatal(err)
	}
	var ns int64
	if _, err := fmt.Sscan(strings.Fields(string(text))[0], &ns); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ns)
}

// A service is what a server does for each request.
type service struct {
	name, path string
	requests   func(effort) int
	goal       string
}

var services = []service{
	{"hello world", "/hello", func(e effort) int { return e.requests }, "≤ 5 µs, ≥ 0.85"},
	{"1 ms of CPU", "/work", func(e effort) int { return e.requests / 20 }, "≥ 0.99"},
}

// BenchmarkWatching measures the worst case, a server that does nothing but answer, and one
// that works for its answers. It reports the CPU time of its main thread for each request
// without and with a watch, in alternation, and the rate with a watch by that without.
func BenchmarkWatching(b *testing.B) {
	e := chosenEffort()
	command := builtCommand(b)
	t := benchtable.New("Cost of watching requests", watchingMethod, "server", "in", "CPU a request", "more, median", "more, of the best rounds", "its CPU's ratio", "its rate", "goal")
	for _, version := range []string{"20.20.2", "24.21.0"} {
		in := fmt.Sprintf("node%d", nodetest.Major(version))
		for _, of := range services {
			b.Run(in+"/"+of.path[1:], func(b *testing.B) {
				s := startServer(b, prepare(b, version), serving{})
				apart(b, s.PID)
				c := costOf(b, s, command, of, e)
				b.ReportMetric(median(c.bare), "us/bare-request")
				b.ReportMetric(median(c.watched), "us/watched-request")
				b.ReportMetric(median(c.extra), "us/more")
				b.ReportMetric(slices.Min(c.watched)-slices.Min(c.bare), "us/more-at-best")
				b.ReportMetric(median(c.rates), "rate-ratio")
				micros := func(v float64) string { return fmt.Sprintf("%.1f µs", v) }
				t.Row(of.name, in, micros(median(c.bare)), micros(median(c.extra)), micros(slices.Min(c.watched)-slices.Min(c.bare)),
					fmt.Sprintf("× %.3f", median(c.bare)/median(c.watched)), fmt.Sprintf("× %.3f", median(c.rates)), of.goal)
			})
		}
	}
	t.Print(b)
}

// apart gives the server a CPU of its own, and the load and the watch the others.
func apart(b *testing.B, pid int) {
	b.Helper()
	var before, one, others unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		b.Fatal(err)
	}
	if before.Count() < 2 {
		b.Fatal("the server needs a CPU of its own, and there is only one")
	}
	others = before
	for cpu := 0; one.Count() == 0; cpu++ {
		if before.IsSet(cpu) {
			one.Set(cpu)
			others.Clear(cpu)
		}
	}
	pin(b, pid, &one)
	pin(b, os.Getpid(), &others)
	b.Cleanup(func() { pin(b, os.Getpid(), &before) })
}

// pin has all threads of a process run on some CPUs, and those that they start.
func pin(b *testing.B, pid int, cpus *unix.CPUSet) {
	b.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = unix.SchedSetaffinity(tid, cpus)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			b.Fatal(err)
		}
	}
}

// A cost is the CPU time of each request in µs, by round, and the rates' ratios.
type cost struct{ bare, watched, extra, rates []float64 }

func costOf(b *testing.B, s *server, command string, of service, e effort) (c cost) {
	ports, requests := s.facts.Ports[0], of.requests(e)
	// measure returns how many requests it has sent in all, too.
	measure := func() (micros, rate float64, sent int) {
		other := dial(b, "tcp6", net.JoinHostPort("::1", strconv.Itoa(ports[1])), false)
		if _, err := other.send(query{method: "GET", url: of.path}); err != nil {
			b.Fatal(err)
		}
		sent = 1 // all ports serve, and do so for a time before it counts
		round := requests / benchConnections * benchConnections
		for begun := time.Now(); time.Since(begun) < e.warm; sent += round {
			saturate(b, at(ports[0]), of.path, requests)
		}
		before := spent(b, s.PID)
		rate = saturate(b, at(ports[0]), of.path, requests)
		return (spent(b, s.PID) - before).Seconds() * 1e6 / float64(requests), rate, sent + round
	}
	for b.Loop() {
		for range e.rounds {
			without, rate, _ := measure()
			end := runCommand(b, command, s.PID)
			with, rateWith, sent := measure()
			if lines := end(); lines != sent {
				b.Errorf("%d lines, want %d", lines, sent)
			}
			c.bare, c.watched = append(c.bare, without), append(c.watched, with)
			c.rates, c.extra = append(c.rates, rateWith/rate), append(c.extra, with-without)
		}
	}
	return c
}

// builtCommand returns the command, built.
func builtCommand(b *testing.B) (path string) {
	b.Helper()
	path = filepath.Join(b.TempDir(), "nodesnoop")
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", path, "ustack/cmd/nodesnoop")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build nodesnoop: %v\n%s", err, out)
	}
	return path
}

// runCommand has the command write the requests of a process to a file. It returns when all is attached;
// end ends it and returns how many lines it wrote, without the heading.
func runCommand(b *testing.B, command string, pid int) (end func() (lines int)) {
	b.Helper()
	file, err := os.Create(filepath.Join(b.TempDir(), "lines"))
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.CommandContext(b.Context(), command, "-p", strconv.Itoa(pid), "-s", "-c")
	cmd.Stdout = file
	messages, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	said := bufio.NewReader(messages)
	if line, err := said.ReadString('\n'); err != nil || !strings.HasPrefix(line, "Watching ") {
		b.Fatalf("nodesnoop said %q, %v", line, err)
	}
	return func() int {
		_ = cmd.Process.Signal(os.Interrupt)
		rest, _ := io.ReadAll(said)
		if err := cmd.Wait(); err != nil {
			b.Fatalf("nodesnoop: %v\n%s", err, rest)
		}
		text, err := os.ReadFile(file.Name())
		if err = errors.Join(err, file.Close()); err != nil {
			b.Fatal(err)
		}
		return bytes.Count(text, []byte("\n")) - 1
	}
}

const watchingMethod = `A server answers 32 connections as fast as it can: the worst case with "hello world", or after
about 1 ms of work. Rounds without and with nodesnoop alternate, which writes a line for each request to
a file. The server has one of two CPUs to itself; the load and nodesnoop share the other.`

// fixedRate is how many requests a second must be seen, all of them.
const fixedRate = 20_000

// BenchmarkFixedRate sends requests at a fixed rate, or as fast as the machine can if that is
// less, several at once on each connection. None may be lost.
func BenchmarkFixedRate(b *testing.B) {
	duration := time.Second
	if chosenEffort().rounds > 1 {
		duration = 20 * time.Second
	}
	t := benchtable.New("Requests at a fixed rate", "32 connections, several requests at once on each; the load shares the server's two CPUs.", "in", "a second", "requests", "seen", "lost", "goal")
	for _, version := range []string{"20.20.2", "24.21.0"} {
		in := fmt.Sprintf("node%d", nodetest.Major(version))
		b.Run(in, func(b *testing.B) {
			s := startServer(b, prepare(b, version), serving{})
			for b.Loop() {
				w := begin(b, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
				begun := time.Now()
				sent := paced(b, at(s.facts.Ports[0][0]), duration)
				rate := float64(sent) / time.Since(begun).Seconds()
				seen := len(w.end())
				if seen != sent {
					b.Errorf("%d requests seen of %d", seen, sent)
				}
				b.ReportMetric(rate, "requests/s")
				t.Row(in, fmt.Sprintf("%.0f", rate), fmt.Sprint(sent), fmt.Sprint(seen), fmt.Sprint(w.counts.Unsent+w.counts.Unfollowed+w.counts.Unscanned), "0 lost at 20000")
			}
		})
	}
	t.Print(b)
}

// paced sends requests at the fixed rate, and returns how many.
func paced(b *testing.B, address string, duration time.Duration) int {
	b.Helper()
	const atOnce = 5
	rounds := int(duration.Seconds() * fixedRate / benchConnections / atOnce)
	requests := []byte(strings.Repeat(query{method: "GET", url: "/hello"}.text(), atOnce))
	begun := time.Now()
	var asking sync.WaitGroup
	for range benchConnections {
		c := dial(b, "tcp", address, false)
		asking.Go(func() {
			for round := range rounds {
				time.Sleep(time.Until(begun.Add(duration / time.Duration(rounds) * time.Duration(round))))
				if _, err := c.Write(requests); err != nil {
					b.Error(err)
					return
				}
				for range atOnce {
					if err := skipResponse(c.reader); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	asking.Wait()
	return rounds * atOnce * benchConnections
}

// BenchmarkLatency compares the latency of each request with that in the server's own log,
// from the beginning of its handler to when node knows that the response was written.
func BenchmarkLatency(b *testing.B) {
	t := benchtable.New("Latency beside the server's own log", latencyMethod, "in", "requests", "difference, median", "1 to 99 %", "within 2 % + 100 µs", "goal")
	for _, version := range []string{"20.20.2", "24.21.0"} {
		in := fmt.Sprintf("node%d", nodetest.Major(version))
		b.Run(in, func(b *testing.B) {
			s := startServer(b, prepare(b, version), serving{})
			apart(b, s.PID)
			ports := s.facts.Ports[0]
			loadFrom := func(network, address string) {
				load(b, network, []string{address}, false, 8, 12*chosenEffort().rounds, 1)
			}
			loadFrom("tcp6", net.JoinHostPort("::1", strconv.Itoa(ports[1]))) // until node has optimized what serves
			for b.Loop() {
				w := begin(b, Options{Selection: s.selection(), Kinds: Kinds{Server: true}})
				loadFrom("tcp", at(ports[0]))
				events, log := w.end(), s.logs(b)
				var differences []float64
				within := 0
				for _, e := range events {
					own := log[e.URL].Finish - log[e.URL].Begin
					difference := float64(int64(e.Latency)-own) / 1000
					differences = append(differences, difference)
					if math.Abs(difference) <= 0.02*float64(own)/1000+100 {
						within++
					}
				}
				slices.Sort(differences)
				n := len(differences)
				b.ReportMetric(median(differences), "us/more")
				t.Row(in, fmt.Sprint(n), fmt.Sprintf("%.0f µs", median(differences)), fmt.Sprintf("%.0f to %.0f µs", differences[n/100], differences[n-1-n/100]),
					fmt.Sprintf("%.1f %%", 100*float64(within)/float64(n)), "all")
			}
		})
	}
	t.Print(b)
}

const latencyMethod = `Requests of 16 kinds from 8 connections, joined by URL: ours less the server's log, which begins in
the request's handler and ends in the response's "finish". Ours lasts from the system call that reads the request to
the one that writes the response. Between the call and the log node parses (the fields of 50 lines take 100 µs), and
the machine may run something else. The server has one of two CPUs to itself, after a load that warms it.`

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
