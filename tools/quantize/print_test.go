package quantize

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// seed reads histograms as DTrace's author published them. Their site has cut
// off the blanks at the lines' ends, all of which DTrace fills up to 68 columns.
func seed(t *testing.T, file string) string {
	t.Helper()
	const width = 68
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for i, line := range lines {
		if line = strings.TrimSuffix(line, "\n"); line != "" {
			lines[i] = fmt.Sprintf("%-*s\n", width, line)
		}
	}
	return strings.Join(lines, "")
}

var seedRow = regexp.MustCompile(`(?m)^ *(\d+) \|@* +(\d+) *$`)

// counts reads the histograms of a text back from their two columns of numbers.
func counts(t *testing.T, text string) []*Histogram {
	t.Helper()
	var all []*Histogram
	for block := range strings.SplitSeq(text, "\n\n") {
		h := new(Histogram)
		for _, row := range seedRow.FindAllStringSubmatch(block, -1) {
			value, err := strconv.ParseUint(row[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			n, err := strconv.ParseUint(row[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			h.Buckets[Index(value)] += n / 2
			_, high := Bounds(Index(2*value) - 1)
			h.Buckets[Index(high)] += n - n/2
		}
		all = append(all, h)
	}
	return all
}

func TestSeedHistogramsByteForByte(t *testing.T) {
	for file, want := range map[string]int{"workbeginexec.txt": 1, "workload.txt": 5} {
		t.Run(file, func(t *testing.T) {
			text := seed(t, file)
			histograms := counts(t, text)
			if len(histograms) != want {
				t.Fatalf("histograms = %d, want %d", len(histograms), want)
			}
			var entries []Entry
			for i, h := range slices.Backward(histograms) {
				entries = append(entries, Entry{Key: fmt.Sprintf("key %d", i), Distribution: h.Powers()})
			}
			var out bytes.Buffer
			if err := Print(&out, Nanoseconds, entries); err != nil {
				t.Fatal(err)
			}
			for i := range histograms { // the site has lost the lines of the keys
				text = strings.Replace(text, "           value", fmt.Sprintf("  %-50s\nvalue", fmt.Sprintf("key %d", i)), 1)
			}
			text = strings.ReplaceAll(text, "\nvalue", "\n           value") + "\n"
			if diff := cmp.Diff(text, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

func values(vs ...int64) *Quantize {
	q := new(Quantize)
	for _, v := range vs {
		q.count(v)
	}
	return q
}

func keys(t *testing.T, entries []Entry) []string {
	t.Helper()
	var out bytes.Buffer
	if err := Print(&out, Nanoseconds, entries); err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`(?m)^  [a-z]+`).FindAllString(out.String(), -1)
}

func TestOrderIsByWeightThenZerosThenKey(t *testing.T) {
	got := keys(t, []Entry{
		{Key: "heavy", Distribution: values(1000)},
		{Key: "zeros", Distribution: values(1, 1, 0, 0)},
		{Key: "b", Distribution: values(1, 1)},
		{Key: "a", Distribution: values(3)}, // weighs what its bucket does: 2
		{Key: "negative", Distribution: values(-5)},
	})
	want := []string{"  negative", "  a", "  b", "  zeros", "  heavy"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
}

func TestOrderOfLinearDistributions(t *testing.T) {
	of := func(vs ...int64) *LQuantize {
		l := parse(t, "0,10,5", Nanoseconds)
		for _, v := range vs {
			l.count(v)
		}
		return l
	}
	got := keys(t, []Entry{
		{Key: "above", Distribution: of(5000)},
		{Key: "level", Distribution: of(5, 5)},
		{Key: "zeros", Distribution: of(5, 5, 0)},
		{Key: "below", Distribution: of(-5000)},
	})
	want := []string{"  below", "  level", "  zeros", "  above"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	if got := parse(t, "3,10,5", Nanoseconds).zeros(); got != 0 {
		t.Errorf("zeros without a level at 0 = %d, want 0", got)
	}
}

func TestStackIsPrintedAboveItsDistribution(t *testing.T) {
	var out bytes.Buffer
	entry := Entry{Key: "resource", Stack: []string{"libc`read", "main"}, Distribution: values(1)}
	if err := Print(&out, Nanoseconds, []Entry{entry}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("  %-50s", "resource") + `
              libc` + "`" + `read
              main

           value  ------------- Distribution -------------`
	if !strings.HasPrefix(out.String(), want) {
		t.Errorf("output = %q, want it to begin with %q", out.String(), want)
	}
}

func TestPartsAreDrawnBelowTheirTitlesInThePlaceOfTheWhole(t *testing.T) {
	var out bytes.Buffer
	parts := []Part{{"wait", values(1)}, {"run", values(4)}}
	entries := []Entry{
		{Key: "split", Distribution: values(5), Parts: parts},
		{Key: "whole", Distribution: values(2)},
	}
	if err := Print(&out, Nanoseconds, entries); err != nil {
		t.Fatal(err)
	}
	whole, split, _ := strings.Cut(out.String(), "\n\n")
	if !strings.HasPrefix(whole, "  whole ") {
		t.Errorf("first entry = %q, want the lighter one", whole)
	}
	heading := "\n           value  ------------- Distribution ------------- count    \n"
	row := func(value string, bar int, count string) string {
		return fmt.Sprintf("%16s |%-40s %-9s\n", value, strings.Repeat("@", bar), count)
	}
	want := fmt.Sprintf("  %-50s", "split") +
		"\n  wait" + heading + row("0", 0, "0") + row("1", 40, "1") + row("2", 0, "0") +
		"\n  run" + heading + row("2", 0, "0") + row("4", 40, "1") + row("8", 0, "0") + "\n"
	if diff := cmp.Diff(want, split); diff != "" {
		t.Errorf("split entry (-want +got):\n%s", diff)
	}
}

type broken struct{}

var errBroken = errors.New("broken pipe")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrorsAreReturned(t *testing.T) {
	if err := Print(broken{}, Nanoseconds, []Entry{{Distribution: values(1)}}); !errors.Is(err, errBroken) {
		t.Errorf("error of Print = %v, want %v", err, errBroken)
	}
	if err := (&Table{Parts: []string{"total"}}).Write(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("error of Table = %v, want %v", err, errBroken)
	}
}

func TestTable(t *testing.T) {
	table := &Table{
		Unit:  Milliseconds,
		Parts: []string{"wait", "total"},
		Rows: []TableRow{
			{Key: "addon.node`Begin(int)", Histograms: []*Histogram{new(Histogram), histogram(5_000_000)}},
			{Key: "addon.node`Other", Histograms: []*Histogram{histogram(1000, 2000), histogram(50_000_000, 250_000_000)}},
		},
	}
	var out bytes.Buffer
	if err := table.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := strings.TrimPrefix(`
KEY                           count     mean     p50      p90      p99      max  ms
addon.node§Begin(int)  wait       0    0.000   0.000    0.000    0.000    0.000
addon.node§Begin(int)  total      1    5.000   5.000    5.000    5.000    5.000
addon.node§Other       wait       2    0.002   0.001    0.002    0.002    0.002
addon.node§Other       total      2  150.000  50.000  243.270  243.270  250.000
`, "\n")
	want = strings.ReplaceAll(want, "§", "`")
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestTableFitsAHundredColumns(t *testing.T) {
	const hour = 3_600_000_000_000
	key := "addon.node`" + strings.Repeat("Namespace::", 20) + "Begin()"
	for _, unit := range []Unit{Nanoseconds, Microseconds, Milliseconds} {
		var out bytes.Buffer
		table := &Table{Unit: unit, Parts: []string{"delivery"}, Rows: []TableRow{{Key: key, Histograms: []*Histogram{histogram(1, 100, hour)}}}}
		if err := table.Write(&out); err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
			if n := utf8.RuneCountInString(line); n > 100 {
				t.Errorf("line of %d columns, want 100 at most: %s", n, line)
			}
		}
		if !strings.Contains(out.String(), ":Begin()  delivery") {
			t.Errorf("the key's end is not there:\n%s", out.String())
		}
	}
}
