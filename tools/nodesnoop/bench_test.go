package nodesnoop

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ustack/testdata/nodetest/benchtable"
)

// An effort says how much is measured: enough to show that the benchmark works, or with
// USTACK_BENCH=long and full enough for numbers worth quoting.
type effort struct{ requests, rounds int }

func chosenEffort() effort {
	if how := os.Getenv("USTACK_BENCH"); how == "long" || how == "full" {
		return effort{requests: 60_000, rounds: 7}
	}
	return effort{requests: 4_000, rounds: 1}
}

// Connections that ask at the same time, and how many requests wait for responses on each.
const benchConnections = 32

// saturate sends requests for a short answer as fast as they are answered, and returns how
// many were answered in a second.
func saturate(b *testing.B, address string, requests int) float64 {
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
			request := []byte("GET /hello HTTP/1.1\r\nHost: test\r\n\r\n")
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

// skipResponse reads a response whose body is "hello world".
func skipResponse(r *bufio.Reader) error {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == len("\r\n") {
			_, err := io.CopyN(io.Discard, r, int64(len("hello world")))
			return err
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

// BenchmarkHelloWorld measures the worst case: a server that does nothing but answer. It
// reports the CPU time of its main thread for each request without and with a watch, in
// alternation, and the rate with a watch by that without. The load comes from the same
// machine.
func BenchmarkHelloWorld(b *testing.B) {
	e := chosenEffort()
	t := benchtable.New("Cost of watching requests", watchingMethod, "server", "CPU a request", "more, median", "more, of the best rounds", "its rate", "goal")
	for _, version := range []string{"20.20.2", "24.21.0"} {
		b.Run("node"+strings.Split(version, ".")[0], func(b *testing.B) {
			s := startServer(b, prepare(b, version), serving{})
			address := at(s.facts.Ports[0][0])
			saturate(b, address, e.requests) // warm
			var bare, watched, rates, extra []float64
			for b.Loop() {
				for range e.rounds {
					measure := func() (micros, rate float64) {
						before := spent(b, s.PID)
						rate = saturate(b, address, e.requests)
						return (spent(b, s.PID) - before).Seconds() * 1e6 / float64(e.requests), rate
					}
					without, rate := measure()
					w := begin(b, Options{Selection: s.selection(), Kinds: Kinds{Server: true, Client: true}})
					with, rateWith := measure()
					if events := w.end(); len(events) != e.requests/benchConnections*benchConnections {
						b.Errorf("%d events, want %d", len(events), e.requests)
					}
					bare, watched = append(bare, without), append(watched, with)
					rates, extra = append(rates, rateWith/rate), append(extra, with-without)
				}
			}
			b.ReportMetric(median(bare), "us/bare-request")
			b.ReportMetric(median(watched), "us/watched-request")
			b.ReportMetric(median(extra), "us/more")
			b.ReportMetric(slices.Min(watched)-slices.Min(bare), "us/more-at-best")
			b.ReportMetric(median(rates), "rate-ratio")
			micros := func(v float64) string { return fmt.Sprintf("%.1f µs", v) }
			t.Row("node"+strings.Split(version, ".")[0], micros(median(bare)), micros(median(extra)),
				micros(slices.Min(watched)-slices.Min(bare)), fmt.Sprintf("× %.2f", median(rates)), "≤ 5 µs, ≥ 0.85")
		})
	}
	t.Print(b)
}

const watchingMethod = `A server answers "hello world" to 32 connections as fast as it can: the worst case. Rounds without
and with nodesnoop alternate. The load and nodesnoop share the server's two CPUs, so its rate
says less than its CPU time a request.`

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
