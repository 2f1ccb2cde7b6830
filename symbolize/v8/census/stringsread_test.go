package census

import (
	"testing"

	"ustack/symbolize/v8/heap"
)

// TestRowOfStringsThatComesBackEnds has strings that are their own first parts.
func TestRowOfStringsThatComesBackEnds(t *testing.T) {
	r := &textReader{parts: map[heap.ID]heap.ID{1: 2, 2: 2, 3: 1}}
	if got := r.part(1); got != 2 {
		t.Errorf("part of a string that was passed = %d, want 2", got)
	}
}
