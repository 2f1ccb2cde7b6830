package addonlat

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ustack/testdata/nodetest"
	"ustack/tools/quantize"
	"ustack/tools/trace"
)

const ms = time.Millisecond

// mixedPlan is a prime number of jobs of each kind and duration, on all add-ons.
func mixedPlan(addons map[string]string) nodetest.Plan {
	plan := nodetest.Plan{Addons: addons}
	for _, source := range nodetest.Addons {
		plan.Steps = append(
			plan.Steps,
			nodetest.Step{Addon: source, Call: "sleep", Micros: 1000, Count: 23},
			nodetest.Step{Addon: source, Call: "sleep", Micros: 5000, Count: 7},
			nodetest.Step{Addon: source, Call: "sleep", Micros: 50_000, Count: 5, InFlight: 4},
			nodetest.Step{Addon: source, Call: "spin", Micros: 100, Count: 11, InFlight: 2},
			nodetest.Step{Addon: source, Call: "cancel", Micros: 1000, Count: 13, InFlight: 13, Hold: 4, HoldMicros: 200_000},
		)
	}
	return plan
}

// TestCountsTimesAndBucketsAreExact checks everything that addonlat counts, on add-ons
// of every build, with and without frame pointers.
func TestCountsTimesAndBucketsAreExact(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		for _, flag := range []string{nodetest.FramePointers, nodetest.NoFramePointers} {
			t.Run(flag[2:], func(t *testing.T) {
				r, tallies := checkExact(t, node, addons(t, node, flag))
				for _, source := range nodetest.Addons {
					sleeps := kind(t, r, keys[source]["sleep"])
					checkBuckets(t, &sleeps, durations(tallies, source))
				}
			})
		}
	})
}

// checkExact makes node run mixedPlan, checks everything in the report except which
// buckets times are in, and returns the report.
func checkExact(t *testing.T, node string, addons map[string]string) (*Report, []nodetest.Tally) {
	t.Helper()
	r, tallies := measure(t, node, mixedPlan(addons), Options{})
	checkCounts(t, r, tallies)
	for _, source := range nodetest.Addons {
		sleeps := kind(t, r, keys[source]["sleep"])
		if got := between(&sleeps.Run, 0, 1*ms); got > 0 {
			t.Errorf("%s: runs shorter than any = %d, want none", sleeps.Key, got)
		}
		if got := between(&sleeps.Run, 50*ms, time.Hour); got < 5+held {
			t.Errorf("%s: runs of 50 ms and more = %d, want %d", sleeps.Key, got, 5+held)
		}
		cancelled := kind(t, r, keys[source]["cancel"])
		if cancelled.Wait.Count+cancelled.Run.Count+cancelled.Delivery.Count > 0 {
			t.Errorf("%s: waiting, running and delivery of cancelled jobs = %d, %d, %d, want none", cancelled.Key,
				cancelled.Wait.Count, cancelled.Run.Count, cancelled.Delivery.Count)
		}
	}
	return r, tallies
}

// held is the number of jobs that mixedPlan has sleep ahead of the cancelled ones.
const held = 4

// checkCounts compares a report on mixedPlan with what the program has counted.
func checkCounts(t *testing.T, r *Report, tallies []nodetest.Tally) {
	t.Helper()
	want := make(map[string]uint64)
	var all, cancelled uint64
	for _, tally := range tallies {
		want[keys[tally.Addon][tally.Call]] += uint64(tally.Submitted)
		all += uint64(tally.Submitted)
		cancelled += uint64(tally.Cancelled)
	}
	for _, source := range nodetest.Addons {
		want[keys[source]["sleep"]] += held
		all += held
	}
	if diff := cmp.Diff(want, counts(r)); diff != "" {
		t.Errorf("jobs by kind (-want +got):\n%s", diff)
	}
	for _, k := range r.Kinds {
		wantCancelled := uint64(0)
		if slices.ContainsFunc(nodetest.Addons, func(source string) bool { return keys[source]["cancel"] == k.Key }) {
			wantCancelled = k.Count
		}
		if k.Cancelled != wantCancelled || k.Total.Count != k.Count || k.Run.Count != k.Count-k.Cancelled {
			t.Errorf("%s: %d jobs, %d cancelled, %d totals, %d runs, want %d cancelled, all with totals, the others with runs",
				k.Key, k.Count, k.Cancelled, k.Total.Count, k.Run.Count, wantCancelled)
		}
		checkSums(t, &k)
	}
	p := pool(t, r)
	got := Pool{Submitted: p.Submitted, Completed: p.Completed, Cancelled: p.Cancelled, Failed: p.Failed, InFlight: p.InFlight, Before: p.Before}
	if diff := cmp.Diff(Pool{Submitted: all, Completed: all, Cancelled: cancelled}, got); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
	if p.Threads != 4 || p.Busy <= 0 || p.Busy >= 1 {
		t.Errorf("threads, busy = %d, %v, want 4, more than 0 and less than 1", p.Threads, p.Busy)
	}
}

// checkSums checks that a histogram's contents are consistent, and the parts with
// the total.
func checkSums(t *testing.T, k *Kind) {
	t.Helper()
	for part, h := range map[string]*quantize.Histogram{"total": &k.Total, "wait": &k.Wait, "run": &k.Run, "delivery": &k.Delivery} {
		var n uint64
		for _, count := range h.Buckets {
			n += count
		}
		if n != h.Count || h.Min > h.Max || h.Count > 0 && (h.Mean() < h.Min || h.Mean() > h.Max) {
			t.Errorf("%s: %s of %d in buckets, count %d, sum %d, %d to %d, want all to fit", k.Key, part, n, h.Count, h.Sum, h.Min, h.Max)
		}
	}
	if k.Cancelled == 0 && k.Wait.Sum+k.Run.Sum+k.Delivery.Sum != k.Total.Sum {
		t.Errorf("%s: wait %d + run %d + delivery %d, want the total of %d", k.Key, k.Wait.Sum, k.Run.Sum, k.Delivery.Sum, k.Total.Sum)
	}
}

// durations returns the durations of an add-on's sleeps by the program's own clock.
func durations(tallies []nodetest.Tally, source string) (all []time.Duration) {
	for _, tally := range tallies {
		if tally.Addon == source && tally.Call == "sleep" {
			all = append(all, tally.Durations...)
		}
	}
	return all
}

// checkBuckets checks that the sleeps of mixedPlan are in the buckets of their lengths.
// No job runs shorter than its sleep, and none longer than the program waits for it,
// which may be long on a busy machine.
func checkBuckets(t *testing.T, k *Kind, waited []time.Duration) {
	t.Helper()
	for _, sleep := range []struct {
		low, high time.Duration // high: of a power-of-two bucket, above the sleep's
		shorter   uint64        // sleeps shorter than low
	}{
		{1 * ms, 1 << 21, 0},
		{5 * ms, 1 << 23, 23},
		{50 * ms, 1 << 26, 23 + 7},
		{200 * ms, 1 << 28, 23 + 7 + 5},
	} {
		if got := between(&k.Run, 0, sleep.low); got > sleep.shorter {
			t.Errorf("%s: runs shorter than %v = %d, want %d at most", k.Key, sleep.low, got, sleep.shorter)
		}
		want := uint64(0)
		for _, d := range waited {
			if d < sleep.high {
				want++
			}
		}
		if got := between(&k.Run, 0, sleep.high); got < want {
			t.Errorf("%s: runs shorter than %v = %d, want %d", k.Key, sleep.high, got, want)
		}
	}
}

// checkTotals compares the sleeps with the program's own clock: the program reads it
// before it submits a job, and when the job's callback is called.
func checkTotals(t *testing.T, r *Report, tallies []nodetest.Tally) {
	t.Helper()
	for _, tally := range tallies {
		k := kind(t, r, keys[tally.Addon]["sleep"])
		sum := time.Duration(k.Total.Sum)
		if sum > tally.Sum || sum < tally.Sum*3/4 || k.Total.Max > uint64(tally.Max) {
			t.Errorf("%s: totals of %v, %v at most, want a little less than %v, %v", k.Key,
				sum, time.Duration(k.Total.Max), tally.Sum, tally.Max)
		}
	}
}

// attempts is how often something is measured: a busy machine may start a job late.
const attempts = 5

func TestSaturatedPoolIsWaitedFor(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		plan := nodetest.Plan{Addons: addons(t, node, nodetest.FramePointers)}
		for _, source := range nodetest.Addons {
			plan.Steps = append(plan.Steps, nodetest.Step{Addon: source, Call: "sleep", Micros: 200_000, Count: 8, InFlight: 8})
		}
		var err error
		for range attempts {
			r, tallies := measure(t, node, plan, Options{})
			checkTotals(t, r, tallies)
			if p := pool(t, r); p.Threads != 4 || p.Deepest < 4 || p.Deepest > 8 || p.Busy < 0.1 {
				t.Errorf("threads, deepest, busy = %d, %d, %v, want 4, 4 to 8, more than a tenth", p.Threads, p.Deepest, p.Busy)
			}
			if err = saturated(t, r, 200*ms); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// saturated returns an error unless of the eight jobs of each add-on, which sleep for so long on
// four threads, four waited for the others.
func saturated(t *testing.T, r *Report, sleep time.Duration) error {
	for _, source := range nodetest.Addons {
		k := kind(t, r, keys[source]["sleep"])
		if short, long := between(&k.Wait, 0, sleep/2), between(&k.Wait, sleep/2, time.Hour); short != 4 || long != 4 {
			return fmt.Errorf("%s: waits = %d short, %d as long as one job, want 4 of each", k.Key, short, long)
		}
		if time.Duration(k.Delivery.Min) > sleep/2 { // on a busy machine some are late
			return fmt.Errorf("%s: shortest delivery = %v, want it short", k.Key, time.Duration(k.Delivery.Min))
		}
	}
	return nil
}

func TestBlockedLoopDelaysDelivery(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		plan := nodetest.Plan{Addons: addons(t, node, nodetest.FramePointers)}
		for _, source := range nodetest.Addons {
			plan.Steps = append(plan.Steps, nodetest.Step{Addon: source, Call: "sleep", Micros: 1000, Count: 3, BlockMillis: 200})
		}
		var err error
		for range attempts {
			r, tallies := measure(t, node, plan, Options{})
			checkTotals(t, r, tallies)
			if err = delayed(t, r, 200*ms); err == nil {
				return
			}
		}
		t.Error(err)
	})
}

// delayed returns an error unless the three jobs of each add-on spent most of their time
// in delivery, because the loop was blocked for so long.
func delayed(t *testing.T, r *Report, blocked time.Duration) error {
	for _, source := range nodetest.Addons {
		k := kind(t, r, keys[source]["sleep"])
		if got := between(&k.Delivery, blocked/4, time.Hour); got != 3 {
			return fmt.Errorf("%s: long deliveries = %d, want 3", k.Key, got)
		}
		if k.Total.Min < uint64(blocked)*99/100 || k.Delivery.Sum < k.Run.Sum+k.Wait.Sum {
			return fmt.Errorf("%s: totals of %d ns or more, %d of %d in delivery, want %v or more, most in delivery",
				k.Key, k.Total.Min, k.Delivery.Sum, k.Total.Sum, blocked)
		}
	}
	return nil
}

func TestWorkersJobsAreCounted(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		const workers, each = 3, 17
		plan := nodetest.Plan{Addons: addons(t, node, nodetest.FramePointers), Workers: workers}
		want := make(map[string]uint64)
		for _, source := range nodetest.Addons {
			plan.Steps = append(plan.Steps, nodetest.Step{Addon: source, Call: "sleep", Micros: 1000, Count: each, InFlight: 3})
			want[keys[source]["sleep"]] = workers * each
		}
		r, _ := measure(t, node, plan, Options{})
		if diff := cmp.Diff(want, counts(r)); diff != "" {
			t.Errorf("jobs by kind (-want +got):\n%s", diff)
		}
	})
}

func TestManyInFlightAreAllFollowed(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	const (
		many   = 100_000
		source = "napi.c"
	)
	node := nodetest.Node(t, anyVersion)
	r, _ := measure(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: source, Call: "sleep", Count: many, InFlight: many, Hold: held, HoldMicros: 10e6}},
	}, Options{})
	if got, want := kind(t, r, keys[source]["sleep"]).Count, uint64(many+held); got != want {
		t.Errorf("jobs = %d, want %d", got, want)
	}
	if p := pool(t, r); p.InFlight != 0 || p.Deepest < many*9/10 {
		t.Errorf("in flight, deepest = %d, %d, want 0, %d or more", p.InFlight, p.Deepest, many*9/10)
	}
}

func TestEqualStepsCountTheSame(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	linear, err := quantize.ParseLQuantize("0,100,10", quantize.Milliseconds)
	if err != nil {
		t.Fatal(err)
	}
	r, tallies := measure(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps: []nodetest.Step{
			{Addon: "napi.c", Call: "sleep", Micros: 15_000, Count: 13},
			{Addon: "napi.c", Call: "sleep", Micros: 150_000, Count: 5, InFlight: 2},
		},
	}, Options{Linear: linear})
	k := kind(t, r, keys["napi.c"]["sleep"])
	if k.Linear == nil {
		t.Fatal("no counts by equal steps")
	}
	var all uint64
	for _, n := range k.Linear.Counts {
		all += n
	}
	short, long := k.Linear.Counts[k.Linear.Index(int64(15*ms))], k.Linear.Counts[k.Linear.Levels()+1]
	var prompt uint64 // at most 20 ms by the program's own clock
	for _, d := range durations(tallies, "napi.c") {
		if d < 20*ms {
			prompt++
		}
	}
	if all != 18 || short < prompt || short > 13 || long < 5 {
		t.Errorf("by equal steps = %v, want %d to 13 from 10 ms, 5 above", k.Linear.Counts, prompt)
	}
	for _, other := range linear.Counts {
		if other > 0 {
			t.Errorf("the option's own counts = %v, want them untouched", linear.Counts)
			break
		}
	}
}

func TestIntervalsBeginAnew(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 10_000, Count: 211}},
	})
	var reports []*Report
	m := begin(t, Options{
		Selection: trace.Selection{PIDs: []int{jobs.PID}}, Interval: time.Second / 2,
		Report: func(r *Report) error { reports = append(reports, r); return nil },
	})
	jobs.Begin()
	jobs.Done()
	reports = append(reports, m.end())
	var jobsSeen, submitted, completed uint64
	for _, r := range reports {
		jobsSeen += counts(r)[keys["napi.c"]["sleep"]]
		for _, p := range r.Pools {
			submitted += p.Submitted
			completed += p.Completed
		}
	}
	if jobsSeen != 211 || submitted != 211 || completed != 211 {
		t.Errorf("jobs, submitted, completed of %d intervals = %d, %d, %d, want 211", len(reports), jobsSeen, submitted, completed)
	}
	if len(reports) < 4 {
		t.Errorf("reports = %d, want 4 or more", len(reports))
	}
}

// TestShortIntervalsLoseNoJob takes the kernel's sums while jobs are added to them.
func TestShortIntervalsLoseNoJob(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	const jobsRun = 200_003
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Count: jobsRun, InFlight: 16}},
	})
	var seen, submitted, completed uint64
	intervals := 0
	count := func(r *Report) error {
		seen += counts(r)[keys["napi.c"]["sleep"]]
		for _, p := range r.Pools {
			submitted += p.Submitted
			completed += p.Completed
		}
		intervals++
		return nil
	}
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}, Interval: time.Millisecond, Report: count})
	jobs.Begin()
	jobs.Done()
	if err := count(m.end()); err != nil || seen != jobsRun || submitted != jobsRun || completed != jobsRun {
		t.Errorf("jobs, submitted, completed of %d intervals = %d, %d, %d, %v, want %d", intervals, seen, submitted, completed, err, jobsRun)
	}
	if intervals < 20 {
		t.Errorf("intervals = %d, want many", intervals)
	}
}

func TestBusyShareIsOfTheTimeThatWasMeasured(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	node := nodetest.Node(t, anyVersion)
	jobs := nodetest.StartJobs(t, node, nodetest.Plan{
		Addons: addons(t, node, nodetest.FramePointers),
		Steps:  []nodetest.Step{{Addon: "napi.c", Call: "sleep", Micros: 10_000, Count: 1 << 30, InFlight: 16}},
	})
	m := begin(t, Options{Selection: trace.Selection{PIDs: []int{jobs.PID}}, Duration: 2 * time.Second})
	jobs.Begin()
	r := m.wait()
	if p := pool(t, r); p.Busy < 0.7 || p.Busy > 1 {
		t.Errorf("busy = %v, want almost always", p.Busy)
	}
	if r.Duration < 2*time.Second || r.Duration > 3*time.Second {
		t.Errorf("duration = %v, want 2 s", r.Duration)
	}
}

func TestReportsErrorEndsTheRun(t *testing.T) {
	nodetest.Root(t)
	nodetest.NothingLeft(t, programs...)
	jobs := nodetest.StartJobs(t, nodetest.Node(t, anyVersion), nodetest.Plan{Stay: true})
	want := fmt.Errorf("disk full")
	_, err := Run(t.Context(), Options{
		Selection: trace.Selection{PIDs: []int{jobs.PID}}, Interval: time.Second / 10,
		Report: func(*Report) error { return want },
	})
	if err == nil || err.Error() != want.Error() {
		t.Errorf("error = %v, want %v", err, want)
	}
}
