package radix

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSortedAsByComparing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	keys := map[string]func(i int) uint64{
		"even":       func(int) uint64 { return random.Uint64() },
		"addresses":  func(int) uint64 { return 0x831000 + random.Uint64N(46<<20) },
		"few":        func(int) uint64 { return random.Uint64N(3) },
		"one":        func(int) uint64 { return 42 },
		"ascending":  func(i int) uint64 { return uint64(i) },
		"descending": func(i int) uint64 { return math.MaxUint64 - uint64(i) },
		"uneven":     func(int) uint64 { return 1 << random.UintN(64) },
		"far apart":  func(i int) uint64 { return uint64(i%2) * math.MaxUint64 },
	}
	for name, key := range keys {
		for _, n := range []int{0, 1, 2, 7, 8, 9, 1000, 300_000} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				got := make([]uint64, n)
				for i := range got {
					got[i] = key(i)
				}
				want := slices.Clone(got)
				slices.Sort(want)
				Sort(got)
				if !slices.Equal(got, want) {
					t.Errorf("the order of %d numbers differs from that by comparing", n)
				}
			})
		}
	}
}

func BenchmarkSort(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]uint64, 170_000) // as many symbols as node 26 has
	for i := range all {
		all[i] = random.Uint64()
	}
	b.Run("radix", func(b *testing.B) {
		for b.Loop() {
			Sort(slices.Clone(all))
		}
	})
	b.Run("comparing", func(b *testing.B) {
		for b.Loop() {
			slices.Sort(slices.Clone(all))
		}
	})
}
