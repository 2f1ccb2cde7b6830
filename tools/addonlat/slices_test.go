package addonlat

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/quantize"
	"ustack/tools/trace"
)

// TestSlicesAddUp: to what the reports have, bucket by bucket, whatever intervals these
// are of; and each begins where the last has ended.
func TestSlicesAddUp(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 10_000, Count: 211}},
	})
	var reported, sliced [4][quantize.Slots]uint64
	var times, slicedTimes [4]uint64
	report := func(r *Report) error {
		for _, k := range r.Kinds {
			for part, h := range []*quantize.Histogram{&k.Total, &k.Wait, &k.Run, &k.Delivery} {
				times[part] += h.Sum
				for i, n := range h.Buckets {
					reported[part][i] += n
				}
			}
		}
		return nil
	}
	var all []Slice
	m := begin(t, Options{
		Selection: trace.Selection{PIDs: []int{jobs.PID}}, Interval: 300 * time.Millisecond, Report: report,
		Every: 20 * time.Millisecond,
		Slice: func(s *Slice) time.Duration {
			all = append(all, *s)
			return 30 * time.Millisecond
		},
	})
	jobs.Begin()
	jobs.Done()
	_ = report(m.end())
	filled := 0
	for i, s := range all {
		if i > 0 && !s.Begin.Equal(all[i-1].End) || s.End.Before(s.Begin) {
			t.Errorf("slice %d is from %v to %v, want it to begin at the end of the last", i, s.Begin, s.End)
		}
		if len(s.Kinds) > 0 {
			filled++
		}
		for _, k := range s.Kinds {
			if k.PID != jobs.PID || k.Key != keys["napi.c"]["sleep"] {
				t.Errorf("kind of slice %d = %s of process %d, want %s of %d", i, k.Key, k.PID, keys["napi.c"]["sleep"], jobs.PID)
			}
			for part := range k.Parts {
				slicedTimes[part] += k.Sums[part]
				for bucket, n := range k.Parts[part] {
					sliced[part][bucket] += n
				}
			}
		}
	}
	if diff := cmp.Diff(reported, sliced); diff != "" {
		t.Errorf("sums of slices (-reports +slices):\n%s", diff)
	}
	if times != slicedTimes {
		t.Errorf("times of slices = %d, want those of the reports, %d", slicedTimes, times)
	}
	if filled < 4 {
		t.Errorf("%d of %d slices have jobs, want 4 or more", filled, len(all))
	}
}
