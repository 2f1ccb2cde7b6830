package jsprof

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ustack/testdata/nodetest"
	"ustack/tools/profile"
	"ustack/tools/trace"
)

// TestTopCountsNativeWorkForItsFunction profiles mixed.js, which measures how much
// of its CPU time two functions take that do nearly nothing but call native code:
// JSON and PBKDF2.
func TestTopCountsNativeWorkForItsFunction(t *testing.T) {
	nodetest.Root(t)
	for _, version := range someVersions() {
		t.Run(fmt.Sprintf("node%d", nodetest.Major(version)), func(t *testing.T) {
			nodetest.NothingLeft(t, programs...)
			target := nodetest.Start(t, nodetest.Node(t, version), nodetest.Options{
				// Helper threads of V8 would take CPU time for no function.
				Flags: append(nodetest.NoInlining(version), "--single-threaded"), Script: "mixed.js", Args: []string{"--shares"},
			})
			p := profileUntil(t, Options{
				Selection: trace.Selection{PIDs: []int{target.PID}}, Hz: 2999, Duration: time.Minute,
				Started: func(int) {
					target.Signal(syscall.SIGUSR2)
					target.Line() // what was spent before
				},
			}, enoughSamples)
			target.Signal(syscall.SIGUSR2)
			want := make(map[string]float64)
			line := target.Line()
			if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "shares ")), &want); err != nil {
				t.Fatalf("decode %q: %v", line, err)
			}
			table := top(t, p)
			for name, share := range want {
				got := selfAndNative(t, table, name)
				t.Logf("%s: SELF+NATIVE = %.1f %%, measured %.1f %%", name, got, share)
				if share < 1 || math.Abs(got-share) > tolerance {
					t.Errorf("SELF+NATIVE of %s = %.1f %%, want %.1f %% ± %d", name, got, share, tolerance)
				}
			}
			if sum := sumOfRows(t, table); math.Abs(sum-100) > 0.1 {
				t.Errorf("sum of SELF+NATIVE = %.3f %% of the samples, want 100 %%", sum)
			}
		})
	}
}

// top returns the default table, with all its rows.
func top(t *testing.T, p *profile.Profile) string {
	t.Helper()
	var b strings.Builder
	if err := profile.Formats[0].Write(&b, p.WithoutTyped(), profile.Options{Rows: -1}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// selfAndNative returns the percentage in a row of the table.
func selfAndNative(t *testing.T, table, function string) float64 {
	t.Helper()
	row := regexp.MustCompile(`(?m)^ +[\d.]+% +\d+ +([\d.]+)% +[\d.]+%  ` + function + `  `).FindStringSubmatch(table)
	if row == nil {
		t.Fatalf("no row of %s in\n%s", function, table)
	}
	percent, err := strconv.ParseFloat(row[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return percent
}

// sumOfRows returns the share of all samples that the rows of the table have
// together, in percent.
func sumOfRows(t *testing.T, table string) float64 {
	t.Helper()
	all := regexp.MustCompile(`, (\d+) samples`).FindStringSubmatch(table)
	var sum, total float64
	if all == nil {
		t.Fatalf("no number of samples in\n%s", table)
	}
	if _, err := fmt.Sscan(all[1], &total); err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile(`(?m)^ +(?:[\d.]+%)? +(\d+) +[\d.]+% +[\d.]+%  `).FindAllStringSubmatch(table, -1) {
		var samples float64
		if _, err := fmt.Sscan(row[1], &samples); err != nil {
			t.Fatal(err)
		}
		sum += samples
	}
	return 100 * sum / total
}
