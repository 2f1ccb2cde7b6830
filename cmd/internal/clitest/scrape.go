package clitest

import (
	"net/http"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Scrape returns the metrics at an address, by their names, as Prometheus would read them.
func Scrape(t testing.TB, address string) map[string]*dto.MetricFamily {
	t.Helper()
	response, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %s: %v", response.Status, err)
	}
	return all
}

// Metric returns the metric of a family with this value of a label; nil if there is none.
func Metric(f *dto.MetricFamily, label, value string) *dto.Metric {
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() == value {
				return m
			}
		}
	}
	return nil
}
