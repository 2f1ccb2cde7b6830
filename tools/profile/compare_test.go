package profile

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"ustack/symbolize"
)

// shares returns a profile of samples that come in runs of up to four: functions f0, f1 … have
// those shares, in percent.
func shares(random *rand.Rand, samples int, percents ...int) *Profile {
	values := make([]uint64, len(percents))
	for taken := 0; taken < samples; {
		at, pick := random.IntN(100), 0
		for at >= percents[pick] {
			at -= percents[pick]
			pick++
		}
		run := min(1+random.IntN(3), samples-taken)
		values[pick] += uint64(run)
		taken += run
	}
	var stacks []Stack
	for i, value := range values {
		if value > 0 {
			stacks = append(stacks, on(value, []symbolize.Frame{native("main", 0), js("f"+string(rune('a'+i)), "/srv/a.js", 10*i+1, 1)}))
		}
	}
	return profileOf(stacks...)
}

func compared(t *testing.T, before, after *Profile, o Comparing) *Comparison {
	t.Helper()
	c, err := Compare(before, after, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEqualSharesAreNotMarked(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for trial := range 500 {
		n := []int{100, 1000, 10_000, 100_000}[trial%4]
		c := compared(t, shares(random, n, 30, 20, 20, 10, 10, 5, 4, 1), shares(random, n, 30, 20, 20, 10, 10, 5, 4, 1), Comparing{Absolute: trial%8 > 3})
		if c.beyond() > 0 {
			t.Errorf("%d of %d samples: %d functions are marked", trial, n, c.beyond())
		}
	}
}

func TestChangeOfFivePointsIsMarked(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		c := compared(t, shares(random, 40_000, 30, 50, 20), shares(random, 60_000, 35, 45, 20), Comparing{})
		marked := map[string]bool{}
		for _, ch := range c.changes {
			marked[ch.frame.Name] = ch.self.beyond && ch.total.beyond
		}
		if !marked["fa"] || !marked["fb"] || marked["fc"] {
			t.Errorf("marked = %v, want fa and fb", marked)
		}
	}
}

func TestThinnedEventsAreNotMoreCertain(t *testing.T) {
	before, after := shares(rand.New(rand.NewPCG(5, 6)), 2000, 30, 70), shares(rand.New(rand.NewPCG(7, 8)), 2000, 36, 64)
	faults := ValueType{"page-faults", "count"}
	before.ValueType, after.ValueType = faults, faults
	chance := compared(t, before, after, Comparing{}).changes[0].self.chance
	for _, p := range []*Profile{before, after} {
		p.Total *= 100
		for i := range p.Stacks {
			p.Stacks[i].Value *= 100
		}
	}
	if got := compared(t, before, after, Comparing{}).changes[0].self.chance; got != chance {
		t.Errorf("chance = %v with each event counted for 100, want %v", got, chance)
	}
}

func TestTimesAreNotTested(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	before, after := shares(random, 20_000, 30, 70), shares(random, 20_000, 70, 30)
	before.ValueType, after.ValueType = Time, Time
	if c := compared(t, before, after, Comparing{}); c.beyond() > 0 || !strings.Contains(c.verdict(), "not known") {
		t.Errorf("%d marked: %s", c.beyond(), c.verdict())
	}
	after.ValueType = Memory
	if _, err := Compare(before, after, Comparing{}); err == nil {
		t.Error("time and memory are compared")
	}
}

// TestMovedFunctionsAreTheSame has a file in which two lines were put in after line 15.
func TestMovedFunctionsAreTheSame(t *testing.T) {
	stack := func(names string, lines ...int) *Profile {
		var stacks []Stack
		for i, name := range strings.Fields(names) {
			stacks = append(stacks, on(uint64(i+1), []symbolize.Frame{js(name, "/srv/a.js", lines[i], 7)}))
		}
		return profileOf(stacks...)
	}
	for _, tt := range []struct {
		name          string
		before, after *Profile
		want          int // functions
	}{
		{"moved", stack("f g", 10, 20), stack("f g", 10, 22), 2},
		{"anonymous, moved onto another's line", stack("f (anonymous) (anonymous) g", 10, 12, 20, 30), stack("f (anonymous) (anonymous) g", 20, 22, 30, 40), 4},
		{"anonymous, one not seen", stack("f (anonymous) (anonymous)", 10, 12, 20), stack("f (anonymous)", 20, 30), 3},
		{"in their order", stack("(anonymous) (anonymous)", 10, 20), stack("(anonymous) (anonymous)", 11, 21), 2},
		{"one more", stack("(anonymous) (anonymous)", 10, 20), stack("(anonymous) (anonymous) (anonymous)", 11, 15, 21), 1},
		{"new", stack("f", 10), stack("f g", 10, 20), 2},
	} {
		c := compared(t, tt.before, tt.after, Comparing{})
		if len(c.changes) != tt.want {
			t.Errorf("%s: functions = %d, want %d: %+v", tt.name, len(c.changes), tt.want, c.changes)
		}
	}
	c := compared(t, stack("f (anonymous) (anonymous) g", 10, 12, 20, 30), stack("f (anonymous) (anonymous) g", 20, 22, 30, 40), Comparing{Absolute: true})
	for _, ch := range c.changes {
		if ch.self.before != ch.self.after {
			t.Errorf("%s: %d and %d samples, want as many", Label(ch.frame), ch.self.before, ch.self.after)
		}
	}
}

func TestComparisonFormats(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	c := compared(t, shares(random, 20_000, 30, 70), shares(random, 20_000, 40, 50, 10), Comparing{})
	write := func(format string) string {
		var b strings.Builder
		if err := c.Write(&b, format, Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	table := write("top")
	for _, want := range []string{` [23]\d\.\d% +[34]\d\.\d% +\+\d+\.\d\* .*  fa  a\.js:1:1\n`, ` -\d\d\.\d\* .*  fb  a\.js:11:1\n`, `The changes of 3 functions are beyond noise`} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("the table has no %s:\n%s", want, table)
		}
	}
	var got jsonComparison
	if err := json.Unmarshal([]byte(write("json")), &got); err != nil || len(got.Functions) != 3 || !got.Functions[0].Self.BeyondNoise {
		t.Errorf("%v: %+v", err, got)
	}
	svg := write("svg")
	for _, want := range []string{`<title>fb /srv/a.js:11:1: before \d+ samples, [67]\d\.\d+%; after \d+ samples, [45]\d\.\d+%; -\d+\.\d+ points</title><rect [^>]*fill="#(\w\w)\w\w(\w\w)"`} {
		m := regexp.MustCompile(want).FindStringSubmatch(svg)
		if m == nil || m[1] >= m[2] {
			t.Errorf("the box of what shrank is %v, want it blue", m)
		}
	}
}

func TestComparisonPageHasBothProfiles(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 14))
	before, after := shares(random, 20_000, 30, 70), shares(random, 20_000, 40, 60)
	c := compared(t, before, after, Comparing{})
	var page strings.Builder
	if err := c.Write(&page, "html", Options{}); err != nil {
		t.Fatal(err)
	}
	b := open(t, "diff.html", page.String())
	b.Wait(`document.getElementById("legend").textContent.includes("grew")`)
	if got := eval[string](b, `document.getElementById("color").value`); got != "change" {
		t.Errorf("color = %q, want change", got)
	}
	want := "before" + c.after.ValueType.amount(before.Total)[:5]
	if got := eval[string](b, `document.getElementById("details").textContent`); !strings.Contains(got, want) {
		t.Errorf("details = %q, want %q in it", got, want)
	}
}
