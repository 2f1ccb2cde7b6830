package profile

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"ustack/symbolize"
)

// waiting is a profile of time: 1.5 s, 2 ms and 300 ns in three functions.
func waiting() *Profile {
	p := profileOf(
		on(1_500_000_000, []symbolize.Frame{native("main", 0), js("slow", "/srv/a.js", 1, 1)}),
		on(2_000_000, []symbolize.Frame{native("main", 0), js("fast", "/srv/a.js", 9, 1)}),
		on(300, []symbolize.Frame{native("main", 0)}),
	)
	p.ValueType, p.Hz = Time, 0
	return p
}

func valued(t ValueType, p *Profile) *Profile {
	p.ValueType = t
	return p
}

func TestEveryFormatTakesEveryTypeOfValues(t *testing.T) {
	for _, values := range []ValueType{Time, Memory, {"jobs", "count"}, {"distance", "metres"}} {
		for _, f := range Formats {
			var b strings.Builder
			err := f.Write(&b, valued(values, waiting()), Options{})
			if f.Name == "cpuprofile" && values != Time {
				if err == nil || b.Len() > 0 {
					t.Errorf("%s of %v: no error", f.Name, values)
				}
			} else if err != nil || strings.Contains(strings.ToLower(b.String()), " samples") && f.Name != "html" && f.Name != "svg" {
				t.Errorf("%s of %v: error %v in:\n%.1000s", f.Name, values, err, &b)
			}
		}
	}
}

func TestReportsOfTime(t *testing.T) {
	golden(t, "waiting.top", write(t, "top", waiting(), Options{}))
	const want = "<title>slow /srv/a.js:1:1, turbofan: 1.50 s of time, 99.87%; 1.50 s in itself</title>"
	if got := write(t, "svg", waiting(), Options{}); !strings.Contains(got, want) {
		t.Errorf("svg has no %s", want)
	}
}

func TestValuesInOtherToolsFormats(t *testing.T) {
	var scope speedscopeFile
	if err := json.Unmarshal([]byte(write(t, "speedscope", valued(Memory, waiting()), Options{})), &scope); err != nil {
		t.Fatal(err)
	}
	if got := scope.Profiles[0]; got.Unit != "bytes" || got.EndValue != 1_502_000_300 {
		t.Errorf("speedscope: %d %s, want 1502000300 bytes", got.EndValue, got.Unit)
	}
	var cpu cpuProfile
	if err := json.Unmarshal([]byte(write(t, "cpuprofile", waiting(), Options{})), &cpu); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int64{0, 2000}, cpu.TimeDeltas); diff != "" || cpu.EndTime-cpu.StartTime != 1_502_000 {
		t.Errorf("cpuprofile: spans %d µs; deltas (-want +got):\n%s", cpu.EndTime-cpu.StartTime, diff)
	}
	want := []*profile.ValueType{{Type: "time", Unit: "nanoseconds"}}
	p, err := waiting().Pprof()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[0].Type+want[0].Unit, p.SampleType[0].Type+p.SampleType[0].Unit); diff != "" || len(p.SampleType) != 1 || p.CheckValid() != nil {
		t.Errorf("pprof: types %v, want %v, valid: %v", p.SampleType, want, p.CheckValid())
	}
	var object jsonProfile
	if err := json.Unmarshal([]byte(strings.ReplaceAll(write(t, "json", waiting(), Options{}), `"frames"`, `"_"`)), &object); err != nil {
		t.Fatal(err)
	}
	if object.ValueType != (jsonValueType{"time", "nanoseconds"}) || object.Stacks[0].Count != 1_500_000_000 {
		t.Errorf("JSON: %+v, %d", object.ValueType, object.Stacks[0].Count)
	}
}

func TestAmounts(t *testing.T) {
	for _, tt := range []struct {
		values        ValueType
		n             uint64
		amount, short string
	}{
		{ValueType{}, 1, "1 sample", "1"},
		{Samples, 1234567, "1234567 samples", "1234567"},
		{Time, 999, "999 ns of time", "999 ns"},
		{Time, 1_250_000, "1.25 ms of time", "1.25 ms"},
		{Time, 999_600_000, "1000 ms of time", "1000 ms"},
		{Time, 4_000_000_000_000, "4000 s of time", "4000 s"},
		{Memory, 1023, "1023 B of memory", "1023 B"},
		{Memory, 3 << 20, "3.00 MB of memory", "3.00 MB"},
		{ValueType{"jobs", "count"}, 12, "12 jobs", "12"},
		{ValueType{"distance", "metres"}, 7, "7 metres of distance", "7"},
	} {
		if amount, short := tt.values.amount(tt.n), tt.values.short(tt.n); amount != tt.amount || short != tt.short {
			t.Errorf("%d of %v = %q, %q, want %q, %q", tt.n, tt.values, amount, short, tt.amount, tt.short)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	frame := func(f symbolize.Frame) *Profile { return profileOf(on(1, []symbolize.Frame{f})) }
	for what, p := range map[string]*Profile{
		"a type without a unit": valued(ValueType{Type: "x"}, one()),
		"a unit without a type": valued(ValueType{Unit: "x"}, one()),
		"a negative rate":       {Hz: -1},
		"a negative duration":   {Duration: -time.Second},
		"a wrong total":         {Total: 1},
		"an overflow":           profileOf(on(math.MaxUint64, nil), on(2, nil)),
		"too much for int64":    profileOf(on(math.MaxInt64, nil)),
		"an unknown kind":       frame(symbolize.Frame{Kind: 99}),
		"an unknown tier":       frame(symbolize.Frame{Tier: 99}),
		"a negative line":       frame(symbolize.Frame{Line: -1}),
	} {
		for _, f := range Formats {
			var b strings.Builder
			if err := f.Write(&b, p, Options{}); err == nil || b.Len() > 0 {
				t.Errorf("%s: %s is written, error %v", what, f.Name, err)
			}
		}
		if _, err := p.Pprof(); err == nil {
			t.Errorf("%s: Pprof returns no error", what)
		}
	}
	for name, p := range fixtures() {
		if err := p.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		pprof, err := p.Pprof()
		if err == nil {
			err = pprof.CheckValid()
		}
		if err != nil {
			t.Errorf("%s for pprof: %v", name, err)
		}
	}
}
