package symbolize_test

import (
	"encoding/json"
	"testing"

	"ustack/symbolize"
)

// TestEveryKindAndTierHasAWord checks that each kind and each tier is written as a word of
// its own, and any other value as "unknown".
func TestEveryKindAndTierHasAWord(t *testing.T) {
	words := map[string]bool{"": true} // NoTier has none
	for kind := symbolize.Native; kind <= symbolize.Runtime; kind++ {
		if words[kind.String()] {
			t.Errorf("kind %d = %q, as another kind", kind, kind)
		}
		words[kind.String()] = true
	}
	for tier := symbolize.Interpreted; tier <= symbolize.Liftoff; tier++ {
		if words[tier.String()] {
			t.Errorf("tier %d = %q, as another tier", tier, tier)
		}
		words[tier.String()] = true
	}
	if kind, tier := symbolize.Kind(200), symbolize.Tier(200); kind.String() != "unknown" || tier.String() != "unknown" || words["unknown"] {
		t.Errorf("kind and tier 200 = %q and %q, want unknown, which no other is", kind, tier)
	}
}

// TestFrameIsTheJSONThatIsDocumented fails if a name of the contract changes.
func TestFrameIsTheJSONThatIsDocumented(t *testing.T) {
	for want, frame := range map[string]symbolize.Frame{
		`{"kind":"js","name":"f","file":"/a.js","line":3,"column":7,"tier":"turbofan"}`: {
			Kind: symbolize.JS, Name: "f", File: "/a.js", Line: 3, Column: 7, Tier: symbolize.Turbofan,
		},
		`{"kind":"js","name":"g","line":3,"column":7,"executing_line":5,"executing_column":9,"inlined":true}`: {
			Kind: symbolize.JS, Name: "g", Line: 3, Column: 7, ExecutingLine: 5, ExecutingColumn: 9, Inlined: true,
		},
		`{"kind":"js","name":"h","file":"/a.ts","line":1,"generated_file":"/a.js","generated_line":2}`: {
			Kind: symbolize.JS, Name: "h", File: "/a.ts", Line: 1, GeneratedFile: "/a.js", GeneratedLine: 2,
		},
		`{"kind":"native","name":"main","module":"/bin/x","offset":12}`: {Name: "main", Module: "/bin/x", Offset: 12},
		`{"kind":"wasm","name":"add","tier":"liftoff"}`:                 {Kind: symbolize.Wasm, Name: "add", Tier: symbolize.Liftoff},
		`{"kind":"runtime","name":"[GC scavenge]"}`:                     {Kind: symbolize.Runtime, Name: "[GC scavenge]"},
		`{"kind":"native","name":"[gap]"}`:                              {Name: symbolize.Broken},
	} {
		if got, err := json.Marshal(frame); string(got) != want || err != nil {
			t.Errorf("frame = %s, %v, want %s", got, err, want)
		}
	}
}
