package quantize

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/quick"

	"github.com/google/go-cmp/cmp"
)

func histogram(values ...uint64) *Histogram {
	h := new(Histogram)
	for _, v := range values {
		h.count(v)
	}
	return h
}

func TestEmptyHistogram(t *testing.T) {
	h := new(Histogram)
	if h.Mean() != 0 || h.Percentile(50) != 0 {
		t.Errorf("mean, median = %d, %d, want 0, 0", h.Mean(), h.Percentile(50))
	}
	got, err := json.Marshal(*h)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"count":0,"sum_ns":0,"min_ns":0,"max_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"buckets":[]}`
	if string(got) != want {
		t.Errorf("JSON = %s, want %s", got, want)
	}
}

func TestPercentilesAreExactAtTheEndsAndForOneValue(t *testing.T) {
	h := histogram(5_000_123)
	for _, percent := range []int{-1, 0, 1, 50, 100, 101} {
		if got, want := h.Percentile(percent), uint64(5_000_123); got != want {
			t.Errorf("percentile %d = %d, want %d", percent, got, want)
		}
	}
}

func TestRanksAreNotRoundedUpTwice(t *testing.T) {
	h := new(Histogram)
	for v := range uint64(10) {
		h.count(v)
	}
	for _, test := range []struct {
		percent int
		want    uint64
	}{{10, 0}, {11, 1}, {50, 4}, {70, 6}, {90, 8}, {91, 9}, {99, 9}, {100, 9}} {
		if got := h.Percentile(test.percent); got != test.want {
			t.Errorf("percentile %d of 0 to 9 = %d, want %d", test.percent, got, test.want)
		}
	}
}

func TestPercentilesAreWithinASixteenth(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	check := func(size uint16, percent uint8, shift uint8) bool {
		values := make([]uint64, 1+int(size)%1000)
		for i := range values {
			values[i] = random.Uint64() >> (shift % 64) >> random.IntN(8)
		}
		p := int(percent) % 101
		got := histogram(values...).Percentile(p)
		slices.Sort(values)
		want := values[max((len(values)*p+99)/100, 1)-1]
		return max(got, want)-min(got, want) <= want/16
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

func TestMergeIsAddingEverything(t *testing.T) {
	check := func(a, b []uint64) bool {
		got := histogram(a...)
		got.Merge(histogram(b...))
		return cmp.Equal(histogram(append(a, b...)...), got)
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200}); err != nil {
		t.Error(err)
	}
}

func TestPowersKeepEveryCount(t *testing.T) {
	check := func(values []uint64) bool {
		want := new(Quantize)
		for i, v := range values {
			values[i] = v >> 1 // an int64 must hold it
			want.count(int64(values[i]))
		}
		return cmp.Equal(want, histogram(values...).Powers())
	}
	if err := quick.Check(check, &quick.Config{MaxCount: 200}); err != nil {
		t.Error(err)
	}
	if got := histogram(1 << 63).Powers()[2*powers]; got != 1 {
		t.Errorf("count of the greatest power = %d, want 1", got)
	}
}

func TestJSONHoldsTheBucketsThatHoldAnything(t *testing.T) {
	holder := struct {
		Total Histogram `json:"total"`
	}{*histogram(1000, 1001, 5_000_000)}
	got, err := json.Marshal(holder)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"total":{"count":3,"sum_ns":5002001,"min_ns":1000,"max_ns":5000000,` +
		`"p50_ns":1000,"p90_ns":4980735,"p99_ns":4980735,` +
		`"buckets":[{"low":960,"count":2},{"low":4718592,"count":1}]}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
}
