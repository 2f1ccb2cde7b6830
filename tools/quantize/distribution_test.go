package quantize

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drawing returns d's rows with the blanks at their ends cut off, without the heading.
func drawing(d Distribution, unit Unit) []string {
	var out bytes.Buffer
	Draw(&out, unit, d)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, line := range lines {
		lines[i] = strings.Join(strings.Fields(line), " ")
	}
	return lines[1:]
}

func TestQuantizeDrawsItsNeighbours(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []int64
		want   []string
	}{
		{"nothing", nil, []string{"-1 | 0", "0 | 0", "1 | 0"}},
		{"zero", []int64{0}, []string{"-1 | 0", "0 |" + strings.Repeat("@", 40) + " 1", "1 | 0"}},
		{"around zero", []int64{-3, -1, 0, 1}, []string{
			"-4 | 0", "-2 |@@@@@@@@@@ 1", "-1 |@@@@@@@@@@ 1", "0 |@@@@@@@@@@ 1", "1 |@@@@@@@@@@ 1", "2 | 0",
		}},
		{"greatest", []int64{math.MaxInt64}, []string{
			"2305843009213693952 | 0", "4611686018427387904 |" + strings.Repeat("@", 40) + " 1",
		}},
		{"least", []int64{math.MinInt64}, []string{
			"-4611686018427387904 |" + strings.Repeat("@", 40) + " 1", "-2305843009213693952 | 0",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := new(Quantize)
			for _, v := range test.values {
				q.count(v)
			}
			if diff := cmp.Diff(test.want, drawing(q, Nanoseconds)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestQuantizeInOtherUnits(t *testing.T) {
	q := new(Quantize)
	q.count(5000)
	if got, want := drawing(q, Microseconds)[1], "4.096 |"+strings.Repeat("@", 40)+" 1"; got != want {
		t.Errorf("row = %q, want %q", got, want)
	}
}

func parse(t *testing.T, text string, unit Unit) *LQuantize {
	t.Helper()
	l, err := ParseLQuantize(text, unit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestLQuantizeDrawsItsEnds(t *testing.T) {
	whole := strings.Repeat("@", 40)
	for _, test := range []struct {
		name, text string
		values     []int64
		want       []string
	}{
		{"nothing", "0,10,2", nil, []string{"< 0 | 0", "0 | 0", "2 | 0"}},
		{"below", "0,10,2", []int64{-1}, []string{"< 0 |" + whole + " 1", "0 | 0"}},
		{"above", "0,10,2", []int64{10}, []string{"8 | 0", ">= 10 |" + whole + " 1"}},
		{"first level", "0,10,2", []int64{0, 1}, []string{"< 0 | 0", "0 |" + whole + " 2", "2 | 0"}},
		{"middle", "-4,10,2", []int64{-1}, []string{"-4 | 0", "-2 |" + whole + " 1", "0 | 0"}},
		{"short last level", "0,11,3", []int64{9}, []string{"6 | 0", ">= 9 |" + whole + " 1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := parse(t, test.text, Nanoseconds)
			for _, v := range test.values {
				l.count(v)
			}
			if diff := cmp.Diff(test.want, drawing(l, Nanoseconds)); diff != "" {
				t.Errorf("rows (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLQuantizeCountsByItsUnit(t *testing.T) {
	l := parse(t, "0, 100, 10", Milliseconds)
	for _, ns := range []int64{49_999_999, 50_000_000} {
		l.count(ns)
	}
	want := []string{
		"30 | 0", "40 |" + strings.Repeat("@", 20) + " 1", "50 |" + strings.Repeat("@", 20) + " 1", "60 | 0",
	}
	if diff := cmp.Diff(want, drawing(l, Milliseconds)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func TestLQuantizeRefusesWhatItCannotCount(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "give LOW,HIGH,STEP",
		"1,2":                     "give LOW,HIGH,STEP",
		"1,2,three":               "give LOW,HIGH,STEP",
		"10,10,1":                 "not below",
		"0,10,0":                  "not above 0",
		"0,10,-5":                 "not above 0",
		"0,10,11":                 "wider",
		"0,100000,1":              "too many",
		"0,9223372036854775807,1": "out of range",
		"-9007199254740992,0,1":   "out of range",
	} {
		_, err := ParseLQuantize(text, Microseconds)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error of %q = %v, want %q in it", text, err, want)
		}
	}
}

func FuzzLQuantize(f *testing.F) {
	f.Add(int64(0), int64(100), int64(10), int64(55))
	f.Add(int64(-7), int64(11), int64(3), int64(11))
	f.Fuzz(func(t *testing.T, low, high, step, v int64) {
		l, err := NewLQuantize(low, high, step)
		if err != nil {
			return
		}
		l.count(v)
		i := slices.Index(l.Counts, 1)
		if i > 0 && v < l.value(i) {
			t.Errorf("%d is in the bucket from %d", v, l.value(i))
		}
		if i <= l.Levels() && v >= l.value(i+1) {
			t.Errorf("%d is in the bucket before %d", v, l.value(i+1))
		}
	})
}

func TestUnits(t *testing.T) {
	for _, test := range []struct {
		unit string
		ns   int64
		want string
	}{
		{"ns", 4096, "4096"},
		{"us", 4096, "4.096"},
		{"us", 8, "0.008"},
		{"us", 10_000, "10"},
		{"us", -1500, "-1.5"},
		{"ms", -1500, "-0.0015"},
		{"ms", 1 << 20, "1.048576"},
		{"ms", 0, "0"},
	} {
		unit, err := ParseUnit(test.unit)
		if err != nil {
			t.Fatal(err)
		}
		if got := unit.format(test.ns); got != test.want {
			t.Errorf("%d in %s = %q, want %q", test.ns, test.unit, got, test.want)
		}
	}
	if _, err := ParseUnit("s"); err == nil {
		t.Error("unit s has no error, want one")
	}
}
