package quantize

import (
	"math"
	"testing"
)

func TestBucketsOfKnownValues(t *testing.T) {
	for _, test := range []struct {
		value uint64
		want  int
	}{
		{0, 0},
		{1, 1},
		{7, 7},
		{8, 8},
		{15, 15},
		{16, 16},
		{17, 16},
		{18, 17},
		{31, 23},
		{32, 24},
		{1000, 63},
		{1 << 62, 480},
		{1 << 63, 488},
		{math.MaxUint64, 495},
	} {
		if got := Index(test.value); got != test.want {
			t.Errorf("Index(%d) = %d, want %d", test.value, got, test.want)
		}
	}
}

func TestBucketsCoverEverythingOnce(t *testing.T) {
	next := uint64(0)
	for i := range Slots {
		low, high := Bounds(i)
		if low != next || high < low {
			t.Errorf("bucket %d = %d to %d, want it to begin at %d", i, low, high, next)
		}
		if Index(low) != i || Index(high) != i {
			t.Errorf("ends of bucket %d are in %d and %d", i, Index(low), Index(high))
		}
		if i >= 2*fine && (high-low+1) > low/fine {
			t.Errorf("bucket %d = %d to %d is wider than an eighth", i, low, high)
		}
		next = high + 1
	}
	if next != 0 {
		t.Errorf("buckets end before %d, want them to end at the greatest uint64", next)
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(uint64(0), uint64(8))
	f.Add(uint64(4095), uint64(4096))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		i := Index(a)
		if low, high := Bounds(i); a < low || a > high {
			t.Errorf("%d is in bucket %d of %d to %d", a, i, low, high)
		}
		if (a < b && i > Index(b)) || (a > b && i < Index(b)) {
			t.Errorf("buckets of %d and %d = %d and %d, want them in order", a, b, i, Index(b))
		}
	})
}
