package code

import (
	"math/rand/v2"
	"testing"

	"ustack/symbolize"
	"ustack/symbolize/v8"
	"ustack/testdata/nodetest"
)

// FuzzDamagedSafepoints reads what of a frame is not visited from memory of which random
// words are wrong.
func FuzzDamagedSafepoints(f *testing.F) {
	for seed := range uint64(60) {
		f.Add(seed)
	}
	newest := nodetest.Versions[len(nodetest.Versions)-1]
	paths := []string{nodetest.Node(f, nodetest.Versions[0]), nodetest.Node(f, newest)}
	f.Fuzz(func(t *testing.T, seed uint64) {
		m := imageOf(t, paths[seed%2])
		tier := symbolize.Turbofan
		if seed%4 == 3 {
			tier = symbolize.Maglev
		}
		at, _, _ := m.calling(tier, nil)
		finder := m.finder(t)
		code, err := finder.Code(v8.Ref(at))
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(seed, 0))
		m.damage(random)
		end := code.Start + code.Size
		for i := range uint64(safepointHeader) { // of the table, which is small
			m.bytes[end+i-imageBase] ^= byte(random.Uint32() & random.Uint32() & random.Uint32())
		}
		code.slots = random.Uint32()
		for returns := range code.Size {
			spans, _ := finder.Unvisited(code, code.Start+returns)
			for i, s := range spans {
				if s.Start >= s.End || i > 0 && s.Start < spans[i-1].End {
					t.Fatalf("parts of a frame = %v, want them lowest address first", spans)
				}
			}
			if len(spans) > 0 && (spans[0].Start < -(maxSlots+256)*wordSize || spans[len(spans)-1].End > 0) {
				t.Fatalf("parts of a frame = %v, want them within %d words", spans, maxSlots)
			}
		}
	})
}
