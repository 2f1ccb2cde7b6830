package nodetest

import (
	"os"
	"slices"
	"testing"
	"time"
)

// addonsFor returns our own add-ons by the names of their sources.
func addonsFor(t *testing.T, node, flag string) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for _, source := range Addons {
		paths[source] = Addon(t, node, source, flag)
	}
	return paths
}

func carryOut(t *testing.T, node string, plan Plan) []Tally {
	t.Helper()
	jobs := StartJobs(t, node, plan)
	jobs.Begin()
	tallies := jobs.Done()
	jobs.Wait()
	return tallies
}

// checkCounts checks that each step has its jobs, all of which ended well.
func checkCounts(t *testing.T, steps []Step, tallies []Tally) {
	t.Helper()
	if len(tallies) != len(steps) {
		t.Fatalf("tallies = %d, want %d", len(tallies), len(steps))
	}
	for i, step := range steps {
		got := tallies[i]
		ended, well := got.Completed, got.Cancelled == 0
		if step.Call == "cancel" {
			ended, well = got.Cancelled, got.Completed == 0
		}
		if got.Submitted != step.Count || ended != step.Count || !well || got.Failed != 0 {
			t.Errorf("%s %s: tally = %+v, want %d", step.Addon, step.Call, got, step.Count)
		}
		if got.Min < time.Duration(step.Micros)*time.Microsecond && step.Call != "cancel" {
			t.Errorf("%s %s: shortest = %v, want %.0f µs or more", step.Addon, step.Call, got.Min, step.Micros)
		}
	}
}

func TestJobsAreAsManyAsPlanned(t *testing.T) {
	eachVersion(t, func(t *testing.T, version, node string) {
		flag := FramePointers
		if version == "18.20.8" || version == "24.21.0" {
			flag = NoFramePointers
		}
		var steps []Step
		for _, source := range Addons {
			steps = append(
				steps,
				Step{Addon: source, Call: "sleep", Micros: 1000, Count: 23},
				Step{Addon: source, Call: "sleep", Micros: 5000, Count: 7, Resource: "own name"},
				Step{Addon: source, Call: "sleep", Micros: 50_000, Count: 5, InFlight: 4},
				Step{Addon: source, Call: "spin", Micros: 100, Count: 11, InFlight: 2},
				Step{Addon: source, Call: "cancel", Micros: 1000, Count: 13, InFlight: 13, Hold: 4, HoldMicros: 200_000},
			)
		}
		for _, call := range []string{
			"fs.stat", "fs.read", "fs.readdir", "dns.lookup", "crypto.pbkdf2", "crypto.randomBytes", "zlib.deflate",
		} {
			steps = append(steps, Step{Call: call, Count: 17, InFlight: 3})
		}
		checkCounts(t, steps, carryOut(t, node, Plan{Addons: addonsFor(t, node, flag), Steps: steps}))
	})
}

func TestSaturatedPoolMakesJobsWait(t *testing.T) {
	const sleep = 200 * time.Millisecond
	node := Node(t, "22.23.3")
	for _, source := range Addons {
		tallies := carryOut(t, node, Plan{
			Addons: addonsFor(t, node, FramePointers),
			Steps:  []Step{{Addon: source, Call: "sleep", Micros: 200_000, Count: 8, InFlight: 8}},
		})
		durations := tallies[0].Durations
		slices.Sort(durations)
		if len(durations) != 8 {
			t.Fatalf("%s: durations = %v, want 8", source, durations)
		}
		const waited = 3 * sleep / 2 // the last is submitted somewhat later than the first
		if durations[3] >= 2*sleep || durations[4] < waited {
			t.Errorf("%s: durations = %v, want four below %v and four above %v", source, durations, 2*sleep, waited)
		}
	}
}

func TestBlockedLoopDelaysDelivery(t *testing.T) {
	const blocked = 200 * time.Millisecond
	node := Node(t, "22.23.3")
	steps := []Step{
		{Addon: "rawuv.cc", Call: "sleep", Micros: 1000, Count: 3, BlockMillis: 200},
		{Addon: "napi.c", Call: "sleep", Micros: 1000, Count: 3, BlockMillis: 200},
	}
	for _, tally := range carryOut(t, node, Plan{Addons: addonsFor(t, node, FramePointers), Steps: steps}) {
		if tally.Completed != 3 || tally.Min < blocked {
			t.Errorf("tally = %+v, want 3 jobs of %v or more", tally, blocked)
		}
	}
}

func TestRateIsToldEachSecond(t *testing.T) {
	node := Node(t, "22.23.3")
	for _, source := range Addons {
		jobs := StartJobs(t, node, Plan{
			Addons: addonsFor(t, node, FramePointers),
			Steps:  []Step{{Addon: source, Call: "spin", InFlight: 64, Seconds: 2}},
		})
		jobs.Begin()
		rate := jobs.Rate()
		tally := jobs.Done()[0]
		if rate < 1000 || tally.Completed < rate || tally.Completed != tally.Submitted {
			t.Errorf("%s: %d jobs in the first second, tally = %+v", source, rate, tally)
		}
		t.Logf("%s: %.0f jobs a second", source, float64(tally.Completed)/tally.Wall.Seconds())
	}
}

func TestManyJobsInFlight(t *testing.T) {
	const many = 100_000
	node := Node(t, "22.23.3")
	for _, source := range Addons {
		steps := []Step{{Addon: source, Call: "sleep", Count: many, InFlight: many, Hold: 4, HoldMicros: 1000}}
		tallies := carryOut(t, node, Plan{Addons: addonsFor(t, node, FramePointers), Steps: steps})
		checkCounts(t, steps, tallies)
		if len(tallies[0].Durations) != 0 {
			t.Errorf("%s: %d durations, want none of so many jobs", source, len(tallies[0].Durations))
		}
	}
}

func TestWorkersCarryThePlanOutEach(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		var steps []Step
		for _, source := range Addons {
			steps = append(steps, Step{Addon: source, Call: "sleep", Micros: 1000, Count: 13})
		}
		tallies := carryOut(t, node, Plan{Addons: addonsFor(t, node, FramePointers), Steps: steps, Workers: 2})
		checkCounts(t, append(steps, steps...), tallies)
		if first, last := tallies[0].Thread, tallies[len(tallies)-1].Thread; first == 0 || last == 0 || first == last {
			t.Errorf("threads = %d and %d, want two workers", first, last)
		}
	})
}

func TestBcryptHashesOnThePool(t *testing.T) {
	bcrypt := Bcrypt(t)
	if _, err := os.Stat(bcrypt); err != nil {
		t.Fatal(err)
	}
	eachVersion(t, func(t *testing.T, _, node string) {
		steps := []Step{{Addon: "bcrypt", Call: "hash", Count: 7, InFlight: 2}}
		checkCounts(t, steps, carryOut(t, node, Plan{Addons: map[string]string{"bcrypt": bcrypt}, Steps: steps}))
	})
}

func TestProgramStaysWhereItIsToldTo(t *testing.T) {
	jobs := StartJobs(t, Node(t, "22.23.3"), Plan{Stay: true, Steps: []Step{{Call: "fs.stat", Count: 3}}})
	jobs.Begin()
	jobs.Done()
	if !jobs.Alive() {
		t.Error("the program has ended, want it to stay")
	}
}
