package logsnoop

import (
	"testing"

	"ustack/testdata/nodetest"
)

// BenchmarkUnwatchedProbe measures what a probe costs that nobody watches, beside a function that
// does nothing.
func BenchmarkUnwatchedProbe(b *testing.B) {
	for _, version := range nodetest.Versions {
		b.Run(version, func(b *testing.B) {
			for b.Loop() {
				node := nodetest.Node(b, version)
				target := nodetest.Start(b, node, nodetest.Options{Script: "fire.js", Args: []string{nodetest.Loggers(b, node)}})
				var cost struct{ Stub, Fresh, Used float64 }
				target.Facts(&cost)
				b.ReportMetric(cost.Stub, "stub-ns")
				b.ReportMetric(cost.Fresh, "fire-ns")
				b.ReportMetric(cost.Used, "fire-after-watching-ns")
			}
		})
	}
}
