package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize"
	"ustack/tools/addonlat"
	"ustack/tools/quantize"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// noon is when all reports of these tests were made.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 5e8, time.UTC)

// times returns a histogram of durations.
func times(durations ...time.Duration) quantize.Histogram {
	var h quantize.Histogram
	for _, d := range durations {
		one := quantize.Histogram{Count: 1, Sum: uint64(d), Min: uint64(d), Max: uint64(d)}
		bucket := sort.Search(quantize.Slots, func(i int) bool {
			_, high := quantize.Bounds(i)
			return high >= uint64(d)
		})
		one.Buckets[bucket] = 1
		h.Merge(&one)
	}
	return h
}

// sample is a report by hand: three kinds of one process, the heaviest first, as
// the order of keys has it.
func sample() *addonlat.Report {
	us, ms := time.Microsecond, time.Millisecond
	return &addonlat.Report{
		Duration: 10 * time.Second,
		Kinds: []addonlat.Kind{
			{
				PID: 4242, Key: "bcrypt.node`BCryptWorker::Queue()", Count: 3, Cancelled: 1,
				Total: times(60*ms, 61*ms, 130*ms), Wait: times(20*us, 70*ms),
				Run: times(59*ms, 60*ms), Delivery: times(900*us, 1100*us),
			},
			{
				PID: 4242, Key: "fs.stat", Builtin: true, Count: 2, Failed: 1,
				Total: times(90*us, 110*us), Wait: times(10*us, 11*us),
				Run: times(40*us, 50*us), Delivery: times(40*us, 49*us),
			},
			{
				PID: 4242, Key: "zlib", Builtin: true, Count: 2,
				Total: times(100*us, 250*us), Wait: times(10*us, 11*us),
				Run: times(80*us, 200*us), Delivery: times(10*us, 39*us),
			},
		},
		Pools: []addonlat.Pool{{
			PID: 4242, Threads: 4, Busy: 0.125, Deepest: 3,
			Submitted: 8, Completed: 7, Cancelled: 1, Failed: 1, InFlight: 1,
		}},
	}
}

// twoProcesses is a report with all that is seldom.
func twoProcesses() *addonlat.Report {
	r := sample()
	r.Kinds = append(r.Kinds[:1], addonlat.Kind{
		PID: 777, Key: "bcrypt.node`BCryptWorker::Queue()", Count: 1,
		Total: times(time.Millisecond), Wait: times(1000), Run: times(900_000), Delivery: times(99_000),
	})
	r.Pools = append(r.Pools, addonlat.Pool{
		PID: 777, Threads: 12, Busy: 0.5, Deepest: 2, SlowQuota: 3, Submitted: 1, Completed: 1, Before: 2, Uring: 5,
	})
	r.Lost, r.Unfollowed = 6, 7
	return r
}

func TestUnseenCompletionsAreNoNumber(t *testing.T) {
	r := sample()
	r.Pools[0].Unseen = true
	if got := render(t, view{}, r); !strings.Contains(got, "in flight unknown") {
		t.Errorf("report = %q, want no number of jobs in flight", got)
	}
	if got := render(t, view{json: true}, r); strings.Count(got, `"in_flight":null`) != 2 {
		t.Errorf("report = %q, want no number of jobs in flight, in the sum and in the process", got)
	}
}

func withStacks() *addonlat.Report {
	r := sample()
	r.Kinds = r.Kinds[:1]
	r.Kinds[0].Key = "what tells this stack\nfrom others"
	r.Kinds[0].Stack = []symbolize.Frame{
		{Name: "napi_queue_async_work", Module: "/usr/bin/node", Offset: 18},
		{Name: "BCryptWorker::Queue()", Module: "/app/build/bcrypt.node"},
		{Kind: symbolize.JS, Tier: symbolize.Maglev, Name: "hash", File: "/app/login.js", Line: 12, Column: 3},
		{Name: symbolize.Truncated},
	}
	return r
}

func withLinear(t *testing.T) *addonlat.Report {
	t.Helper()
	r := sample()
	for i := range r.Kinds {
		l, err := quantize.ParseLQuantize("0,100,50", quantize.Milliseconds)
		if err != nil {
			t.Fatal(err)
		}
		r.Kinds[i].Linear = l
	}
	linear := r.Kinds[0].Linear
	for _, ms := range []int64{60, 61, 130} {
		linear.Counts[linear.Index(ms*int64(time.Millisecond))]++
	}
	for i := range r.Kinds[1:] {
		r.Kinds[1+i].Linear.Counts[1] = r.Kinds[1+i].Count
	}
	return r
}

func render(t *testing.T, v view, r *addonlat.Report) string {
	t.Helper()
	if v.unit == 0 {
		v.unit = quantize.Nanoseconds
	}
	var out bytes.Buffer
	if err := v.write(&out, r, noon); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestViewsAreAsInTheGoldenFiles(t *testing.T) {
	for _, tt := range []struct {
		file   string
		view   view
		report *addonlat.Report
	}{
		{"text", view{}, sample()},
		{"split", view{split: true, unit: quantize.Microseconds}, sample()},
		{"table", view{table: true, unit: quantize.Milliseconds}, sample()},
		{"json", view{json: true}, sample()},
		{"processes", view{}, twoProcesses()},
		{"processes.table", view{table: true}, twoProcesses()},
		{"processes.json", view{json: true, timed: true}, twoProcesses()},
		{"stacks", view{split: true}, withStacks()},
		{"stacks.table", view{table: true}, withStacks()},
		{"stacks.tiers", view{tiers: true}, withStacks()},
		{"stacks.json", view{json: true}, withStacks()},
		{"linear", view{split: true, unit: quantize.Milliseconds}, withLinear(t)},
		{"linear.json", view{json: true}, withLinear(t)},
		{"interval", view{timed: true}, sample()},
		{"nothing", view{}, new(addonlat.Report)},
		{"nothing.json", view{json: true}, new(addonlat.Report)},
	} {
		t.Run(tt.file, func(t *testing.T) {
			got := render(t, tt.view, tt.report)
			file := filepath.Join("testdata", "golden", tt.file)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		})
	}
}

func TestTableFitsAHundredColumns(t *testing.T) {
	r := twoProcesses()
	r.Kinds[0].Key = "addon.node`" + strings.Repeat("Namespace::", 20) + "Queue()"
	got := render(t, view{table: true}, r)
	for _, line := range strings.Split(got, "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("line of %d columns, want 100 at most: %s", n, line)
		}
	}
	if !strings.HasPrefix(got, "KEY ") {
		t.Errorf("the key is not first:\n%s", got)
	}
}

func TestHeaviestKindComesLast(t *testing.T) {
	key := regexp.MustCompile(`BCrypt|fs\.stat|zlib`)
	want := []string{"fs.stat", "zlib", "BCrypt"}
	for _, v := range []view{{}, {split: true}, {table: true}} {
		shown, _, _ := strings.Cut(render(t, v, sample()), "\npool of ")
		got := slices.Compact(key.FindAllString(shown, -1)) // a table has lines for each part
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys of %+v (-want +got):\n%s", v, diff)
		}
	}
}

// TestKeysAndBarsAreDTraces compares with DTrace's own layout of keys, written
// down as its formats have them: "  %-50s" of a string, " %8d" of a number.
func TestKeysAndBarsAreDTraces(t *testing.T) {
	const key = "bcrypt.node`BCryptWorker::Queue()"
	bars := fmt.Sprintf("\n%16s %41s %-9s\n", "value", "------------- Distribution -------------", "count") +
		fmt.Sprintf("%16d |%-40s %-9d\n", 1<<18, "", 0) +
		fmt.Sprintf("%16d |%-40s %-9d\n", 1<<19, strings.Repeat("@", 40), 1) +
		fmt.Sprintf("%16d |%-40s %-9d\n", 1<<20, "", 0)
	r := twoProcesses()
	if got, want := render(t, view{}, r), fmt.Sprintf(" %8d  %-50s", 777, key)+bars+"\n"; !strings.HasPrefix(got, want) {
		t.Errorf("two processes = %q, want it to begin with %q", got, want)
	}
	r.Kinds, r.Pools = r.Kinds[1:], r.Pools[1:]
	if got, want := render(t, view{}, r), fmt.Sprintf("  %-50s", key)+bars+"\n"; !strings.HasPrefix(got, want) {
		t.Errorf("one process = %q, want it to begin with %q", got, want)
	}
}

func TestKeysAreFitForATerminal(t *testing.T) {
	r := sample()
	r.Kinds[0].Key = "evil \x1b[2J\nname"
	for _, v := range []view{{}, {split: true}, {table: true}, {json: true}} {
		got := render(t, v, r)
		if strings.ContainsAny(got, "\x1b") || strings.Contains(got, "\nname") {
			t.Errorf("%+v: report = %q, want nothing that a terminal obeys", v, got)
		}
	}
}

func TestPoolsTogetherAreWhatTheyAreApart(t *testing.T) {
	got := view{}.object(twoProcesses(), noon).Pool.jsonPool
	want := jsonPool{
		Threads: 16, Busy: (4*0.125 + 12*0.5) / 16, Deepest: 3, SlowQuota: 3, Submitted: 9, Completed: 8,
		Cancelled: 1, Failed: 1, InFlight: new(uint64(1)), Before: 2, Uring: 5,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pool (-want +got):\n%s", diff)
	}
}

type full struct{}

var errFull = errors.New("no space left on device")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWriteErrorIsReturned(t *testing.T) {
	for _, v := range []view{{unit: quantize.Nanoseconds}, {table: true}, {json: true}} {
		if err := v.write(full{}, sample(), noon); !errors.Is(err, errFull) {
			t.Errorf("%+v: error = %v, want %v", v, err, errFull)
		}
	}
}
