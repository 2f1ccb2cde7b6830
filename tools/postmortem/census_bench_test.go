package postmortem

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// BenchmarkMillion takes a core of a process with a million objects of five classes,
// and as many again that these refer to, and looks at it in all ways. It is skipped
// unless USTACK_BENCH is set, since it takes a minute.
func BenchmarkMillion(b *testing.B) {
	if os.Getenv("USTACK_BENCH") == "" {
		b.Skip("USTACK_BENCH is not set")
	}
	const keep, drop = 200_000, 20_000
	d, facts := censusDump(b, "22.23.3", keep, drop)
	var g *Graph
	b.Run("census", func(b *testing.B) {
		for b.Loop() {
			var err error
			if g, err = d.Graph(b.Context()); err != nil {
				b.Fatal(err)
			}
			live := map[string]int{}
			for _, group := range g.Census(CensusOptions{ByClass: true, Live: true}).Groups {
				live[group.Class] = group.Count
			}
			for _, class := range facts.Classes {
				if got := live[class]; got < keep || got > keep+stale {
					b.Errorf("objects of %s = %d, want %d", class, got, keep)
				}
			}
		}
		b.ReportMetric(float64(g.Len()), "objects")
		b.ReportMetric(resident(b), "peak-MB")
	})
	b.Run("shapes", func(b *testing.B) {
		for b.Loop() {
			g.Census(CensusOptions{})
		}
	})
	b.Run("functions", func(b *testing.B) {
		for b.Loop() {
			g.Functions(FunctionOptions{})
		}
	})
	b.Run("retained", func(b *testing.B) {
		for b.Loop() {
			g.in = nil
			g.Dominated().Retainers(CensusOptions{}, 20)
		}
		b.ReportMetric(resident(b), "peak-MB")
	})
	b.Run("export", func(b *testing.B) {
		for b.Loop() {
			written, err := g.Export(b.Context(), io.Discard)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(written.Edges), "edges")
		}
		b.ReportMetric(resident(b), "peak-MB")
	})
}

// resident returns the most memory that the test has had, the core's pages in the
// page cache included, in megabytes.
func resident(b *testing.B) float64 {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return float64(usage.Maxrss) / 1024
}
