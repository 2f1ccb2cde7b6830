package space

import (
	"slices"
	"testing"
)

func TestWithoutLeavesOutHoles(t *testing.T) {
	ranges := []Range{{10, 20}, {30, 40}, {50, 60}}
	for _, test := range []struct{ holes, want []Range }{
		{nil, ranges},
		{[]Range{{20, 30}, {0, 10}, {60, 99}}, ranges},
		{[]Range{{12, 14}, {18, 35}}, []Range{{10, 12}, {14, 18}, {35, 40}, {50, 60}}},
		{[]Range{{16, 18}, {12, 17}, {30, 40}}, []Range{{10, 12}, {18, 20}, {50, 60}}},
		{[]Range{{0, 55}}, []Range{{55, 60}}},
		{[]Range{{0, 99}}, nil},
	} {
		if got := Without(ranges, slices.Clone(test.holes)); !slices.Equal(got, test.want) {
			t.Errorf("Without(%v, %v) = %v, want %v", ranges, test.holes, got, test.want)
		}
	}
}
