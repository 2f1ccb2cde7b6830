package nodetest

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"ustack/symbolize"
)

const minScenarios = 30 // ways to call a function that nested.js knows

func TestVersionsAreFetched(t *testing.T) {
	for _, version := range Versions {
		if path := Node(t, version); !filepath.IsAbs(path) {
			t.Errorf("path of %s = %q, want an absolute one", version, path)
		}
	}
}

func TestTierFlagsHoldEveryFunctionToItsTier(t *testing.T) {
	for _, version := range Versions {
		for _, tier := range Tiers {
			flags, ok := TierFlags(version, tier)
			if !ok {
				continue
			}
			t.Run(version+"/"+tier.String(), func(t *testing.T) {
				t.Parallel()
				target := Start(t, Node(t, version), Options{
					Flags:  flags,
					Script: "nested.js",
					Args:   []string{"--each", "--rounds=1", "--tier=" + tier.String()},
				})
				checkTiers(t, target.Ready, tier)
				scenarios := 1
				for line := range target.Lines() {
					checkTiers(t, json.RawMessage(strings.TrimPrefix(line, "ready")), tier)
					scenarios++
				}
				if scenarios < minScenarios {
					t.Errorf("scenarios = %d, want %d or more", scenarios, minScenarios)
				}
				target.Wait()
			})
		}
	}
}

func checkTiers(t *testing.T, facts json.RawMessage, want symbolize.Tier) {
	t.Helper()
	var nested Nested
	if err := json.Unmarshal(facts, &nested); err != nil {
		t.Fatalf("decode the facts: %v\n%s", err, facts)
	}
	calls := nested.Physical()
	if calls[0].Function != "leaf" || calls[0].Definition == nil {
		t.Errorf("%s: innermost call = %+v, want leaf and its definition", nested.Scenario, calls[0])
	}
	if calls[0].Tier != want.String() {
		t.Errorf("%s: tier of leaf = %q, want %q", nested.Scenario, calls[0].Tier, want)
	}
	for _, call := range calls {
		if call.Tier != "" && call.Tier != want.String() {
			t.Errorf("%s: tier of %s = %q, want %q", nested.Scenario, call.Function, call.Tier, want)
		}
	}
}

func TestNestedStaysInLeaf(t *testing.T) {
	for _, version := range Versions {
		target := Start(t, Node(t, version), Options{Script: "nested.js", Args: []string{"plain"}})
		var nested Nested
		target.Facts(&nested)
		if nested.PID != target.PID {
			t.Errorf("%s: pid = %d, want %d", version, nested.PID, target.PID)
		}
		var got []string
		for _, call := range nested.Physical()[:4] {
			got = append(got, call.Function)
		}
		if got, want := strings.Join(got, " "), "leaf inner middle outer"; got != want {
			t.Errorf("%s: calls = %q, want %q", version, got, want)
		}
		if !target.Alive() {
			t.Errorf("%s: the program has ended, want it spinning", version)
		}
		target.Stop()
	}
}
