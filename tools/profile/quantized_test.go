package profile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"ustack/symbolize"
)

// reads is a profile of values that are kept apart: 3 and 5 events of two functions.
func reads() *Profile {
	js := func(name string) []symbolize.Frame {
		return []symbolize.Frame{
			{Name: "read", Kind: symbolize.Native, Module: "libc.so.6"},
			{Name: name, Kind: symbolize.JS, File: "/srv/a.js", Line: 3, Column: 1},
		}
	}
	return &Profile{
		ValueType: ValueType{"syscall:read:duration", "nanoseconds"}, Event: "syscall:read", Total: 5300, Events: 8,
		Stacks: []Stack{
			{Value: 300, Events: 3, Bucket: bucketOfZero + 7, PID: 7, TID: 7, Frames: js("small")}, // 64 to 127
			{Value: 5000, Events: 4, Bucket: bucketOfZero + 11, PID: 7, TID: 7, Frames: js("large")},
			{Value: 0, Events: 1, Bucket: bucketOfZero - 1, PID: 7, TID: 7, Frames: js("large")}, // -1
		},
	}
}

func TestDistributionsAreByKey(t *testing.T) {
	for by, want := range map[By][]string{
		ByJS:      {"large /srv/a.js:3:1", "small /srv/a.js:3:1"},
		ByEvent:   {"syscall:read"},
		ByProcess: {"process 7"},
		ByStack:   {"", ""},
	} {
		var got []string
		var events uint64
		for _, d := range reads().distributions(by) {
			got = append(got, d.key)
			events += d.events
		}
		if strings.Join(got, "|") != strings.Join(want, "|") || events != 8 {
			t.Errorf("by %s: %d events of %q, want 8 of %q", by, events, got, want)
		}
	}
}

func TestDistributionsInJSON(t *testing.T) {
	f, err := Lookup("json")
	if err != nil {
		t.Fatal(err)
	}
	if f, err = f.Quantized(ByJS); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := f.Write(&out, reads(), Options{}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Events        uint64
		Distributions []struct {
			Key     string
			Sum     uint64
			Buckets []struct {
				Low   int64
				Count uint64
			}
		}
	}
	if err := json.Unmarshal([]byte(out.String()), &got); err != nil {
		t.Fatal(err)
	}
	large := got.Distributions[0]
	if got.Events != 8 || len(large.Buckets) != 2 || large.Buckets[0].Low != -1 || large.Buckets[1].Low != 1024 || large.Buckets[1].Count != 4 {
		t.Errorf("distributions = %+v", got)
	}
	if _, err := (Format{Name: "svg"}).Quantized(ByJS); err == nil {
		t.Error("distributions are accepted as svg")
	}
}

// TestSeveralEventsStayApart writes two profiles of one run in each format that holds them.
func TestSeveralEventsStayApart(t *testing.T) {
	both := []*Profile{server(), reads()}
	for _, f := range Formats {
		var out strings.Builder
		err := f.WriteAll(&out, both, Options{})
		holds := f.each || f.writeAll != nil
		if (err == nil) != holds {
			t.Errorf("%s: err = %v, want one: %v", f.Name, err, !holds)
		}
	}
	p, err := PprofAll(both)
	if err != nil {
		t.Fatal(err)
	}
	var types []string
	for _, v := range p.SampleType {
		types = append(types, v.Type+"/"+v.Unit)
	}
	const want = "samples/count cpu/nanoseconds syscall:read/count syscall:read:duration/nanoseconds"
	if got := strings.Join(types, " "); got != want {
		t.Errorf("sample types = %s, want %s", got, want)
	}
	sums := make([]int64, len(types))
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[i] += v
		}
	}
	if sums[0] != int64(both[0].Total) || sums[2] != 8 || sums[3] != 5300 {
		t.Errorf("sums = %v, want %d, its time, 8 and 5300", sums, both[0].Total)
	}
}

func TestIdleThreadsHaveNothingToDo(t *testing.T) {
	native := func(names ...string) (frames []symbolize.Frame) {
		for _, name := range names {
			frames = append(frames, symbolize.Frame{Name: name, Kind: symbolize.Native, Module: "/usr/bin/node"})
		}
		return frames
	}
	futex := symbolize.Frame{Name: "[futex: lock]", Kind: symbolize.Runtime}
	js := symbolize.Frame{Name: "f", Kind: symbolize.JS, File: "/srv/a.js"}
	c := classifier{}
	for _, tt := range []struct {
		name   string
		frames []symbolize.Frame
		want   bool
	}{
		{"event loop", native("epoll_pwait", "uv__io_poll", "uv_run", "node::Start"), true},
		{"loop of a synchronous call", append(native("epoll_pwait", "uv__io_poll", "uv_run", "node::SyncProcessRunner::Run"), js), false},
		{"pool without a job", append([]symbolize.Frame{futex}, native("pthread_cond_wait", "uv_cond_wait", "worker", "start_thread")...), true},
		{"job that waits", append([]symbolize.Frame{futex}, native("pthread_cond_wait", "addon_job", "uv__queue_work", "worker", "start_thread")...), false},
		{"lock", append([]symbolize.Frame{futex}, native("pthread_mutex_lock", "addon_job", "worker")...), false},
		{"platform", native("pthread_cond_wait", "uv_cond_wait", "node::(anonymous namespace)::PlatformWorkerThread"), true},
	} {
		if got := c.idle(tt.frames); got != tt.want {
			t.Errorf("%s: idle = %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestHTMLShowsOneEventAtATime chooses the second event of a page.
func TestHTMLShowsOneEventAtATime(t *testing.T) {
	f, err := Lookup("html")
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := f.WriteAll(&page, []*Profile{server(), reads()}, Options{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, "events.html", page.String())
	if got := eval[[]string](b, `[...document.getElementById("event").options].map((o) => o.text)`); strings.Join(got, " ") != "samples syscall:read:duration" {
		t.Errorf("events = %q", got)
	}
	if got := b.detail("samples"); !strings.HasPrefix(got, "all samples") {
		t.Errorf("at first: %q, want samples", got)
	}
	eval[any](b, `(() => { const s = document.getElementById("event"); s.selectedIndex = 1; s.dispatchEvent(new Event("change")); return null; })()`)
	const second = `document.readyState === "complete" && location.hash === "#event=1" && document.getElementById("summary").textContent.includes("syscall:read:duration")`
	for deadline := time.Now().Add(time.Minute); !eval[bool](b, second); {
		if time.Now().After(deadline) {
			t.Fatal("the page does not show the second event")
		}
	}
	if got := b.detail("syscall:read:duration"); !strings.Contains(got, "5.300 µs") {
		t.Errorf("then: %q, want 5.300 µs", got)
	}
	b.Screenshot("html-events")
	b.Quiet()
}
