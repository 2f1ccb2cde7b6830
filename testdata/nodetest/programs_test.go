package nodetest

import (
	"encoding/json"
	"math"
	"strings"
	"syscall"
	"testing"
)

// eachVersion runs test as a subtest for every version.
func eachVersion(t *testing.T, test func(t *testing.T, version, node string)) {
	for _, version := range Versions {
		t.Run(version, func(t *testing.T) { test(t, version, Node(t, version)) })
	}
}

func TestNamesAreWhatTheyAreWrittenAs(t *testing.T) {
	want := map[string]string{
		"declaration":            "declared",
		"prototype method":       "Legacy.method",
		"exports.f":              "exports.f",
		"getter":                 "get read",
		"private method":         "#secret",
		"Cyrillic":               "считать",
		"90 letters":             "long_" + strings.Repeat("n", 85),
		"200 captured variables": "captures200",
		"computed key":           "computed",
		"default export":         "default",
		`key "a b"`:              "a b",
		"new Function":           "eval",
	}
	eachVersion(t, func(t *testing.T, version, node string) {
		t.Parallel()
		target := Start(t, node, Options{Script: "names.js"})
		var names Names
		target.Facts(&names)
		if got, want := len(names.Kinds), 120; got < want {
			t.Errorf("kinds = %d, want %d or more", got, want)
		}
		found := 0
		for _, kind := range names.Kinds {
			if name, ok := want[kind.Kind]; ok {
				found++
				if kind.Name != name {
					t.Errorf("name of %s = %q, want %q", kind.Kind, kind.Name, name)
				}
			}
			if kind.Line == 0 || kind.Column == 0 {
				t.Errorf("%s has no definition: %+v", kind.Kind, kind)
			}
		}
		if found != len(want) {
			t.Errorf("known kinds = %d, want %d", found, len(want))
		}
	})
}

func TestSharesAreAsBuilt(t *testing.T) {
	const tolerance = 0.5 // points
	eachVersion(t, func(t *testing.T, version, node string) {
		forms := []string{"plain"}
		if version == Versions[0] || version == Versions[len(Versions)-1] {
			forms = append(forms, "recursive", "mutual", "anonymous", "methods", "async", "deep")
		}
		for _, form := range forms {
			target := Start(t, node, Options{
				Flags: NoInlining(version), Script: "shares.js", Args: []string{form, "--seconds=2"},
			})
			var shares Shares
			target.Facts(&shares)
			spent := readSpent(t, target)
			for i, f := range shares.Functions {
				if f.Line == 0 {
					t.Errorf("%s: %d has no definition", form, i)
				}
				if got := spent.Percents[i]; math.Abs(got-f.Percent) > tolerance {
					t.Errorf("%s: share of %q = %.2f, want %.0f within %.1f", form, f.Name, got, f.Percent, tolerance)
				}
			}
			target.Wait()
		}
	})
}

func TestCollectorRunsBesideTheShares(t *testing.T) {
	eachVersion(t, func(t *testing.T, version, node string) {
		target := launch(t, node, Options{ // V8 reports before the ready line too
			Flags:  append(NoInlining(version), "--max-semi-space-size=1", "--trace-gc"),
			Script: "shares.js", Args: []string{"plain", "--gc", "--seconds=1"},
		})
		collections := 0
		for line := range target.Lines() {
			if strings.Contains(line, "Scavenge") {
				collections++
			}
		}
		if collections < 20 {
			t.Errorf("collections in a second = %d, want 20 or more", collections)
		}
	})
}

func readSpent(t *testing.T, target *Target) Spent {
	t.Helper()
	line := target.Line()
	facts, ok := strings.CutPrefix(line, "shares ")
	if !ok {
		t.Fatalf("line = %q, want shares", line)
	}
	var spent Spent
	if err := json.Unmarshal([]byte(facts), &spent); err != nil {
		t.Fatalf("decode %s: %v", facts, err)
	}
	return spent
}

func TestEndlessProgramsKeepRunning(t *testing.T) {
	programs := []Options{
		{Script: "purecpu.js"},
		{Script: "mixed.js"},
		{Script: "deep.js", Args: []string{"500"}},
		{Script: "gcstress.js", Flags: []string{"--max-semi-space-size=1"}},
		{Script: "workers.js", Args: []string{"3"}},
		{Script: "ticks.js"},
	}
	eachVersion(t, func(t *testing.T, _, node string) {
		for _, program := range programs {
			target := Start(t, node, program)
			var facts struct{ PID int }
			target.Facts(&facts)
			if facts.PID != target.PID {
				t.Errorf("%s: pid = %d, want %d", program.Script, facts.PID, target.PID)
			}
			if !target.Alive() {
				t.Errorf("%s has ended, want it running", program.Script)
			}
			target.Stop()
		}
	})
}

func TestGenerationsEnd(t *testing.T) {
	eachVersion(t, func(t *testing.T, _, node string) {
		target := Start(t, node, Options{
			Script: "gcstress.js", Args: []string{"100"}, Flags: []string{"--max-semi-space-size=1"},
		})
		if state := target.Wait(); !state.Success() {
			t.Errorf("end = %v, want success", state)
		}
	})
}

func TestTicksTellTheLongestGap(t *testing.T) {
	target := Start(t, Node(t, "22.23.3"), Options{Script: "ticks.js"})
	target.Signal(syscall.SIGUSR2)
	line := target.Line()
	var gap struct{ Milliseconds float64 }
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "gap ")), &gap); err != nil {
		t.Fatalf("decode %q: %v", line, err)
	}
	if gap.Milliseconds <= 0 {
		t.Errorf("longest gap = %v ms, want more than 0", gap.Milliseconds)
	}
}

func TestTargetThatFailsWhereItMay(t *testing.T) {
	target := launch(t, Node(t, "22.23.3"), Options{Script: "nested.js", Args: []string{"nonsense"}, MayFail: true})
	if state := target.Wait(); state.Success() {
		t.Error("end = success, want a failure")
	}
	if got, want := target.Stderr(), "no scenario nonsense"; !strings.Contains(got, want) {
		t.Errorf("stderr = %q, want %q in it", got, want)
	}
}
