package jscore

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRepetitionsAreFolded(t *testing.T) {
	for _, tt := range []struct{ lines, want string }{
		{"a", "a"},
		{"a a b", "a a b"},
		{"a a a b", "a (2) b"},
		{"x a b a b a b y", "x a b (2x2) y"},
		{"a b a b", "a b (2x1)"},
		{"a b b b a b b b c", "a b b b (4x1) c"},
		{"a b c d e f g h i a b c d e f g h i", "a b c d e f g h i a b c d e f g h i"},
	} {
		got := strings.Join(foldCycles(strings.Fields(tt.lines)), " ")
		got = strings.NewReplacer("        (and 2 more times)", "(2)", "        (these 2, 2 more times)", "(2x2)", "        (these 2, once more)", "(2x1)", "        (these 4, once more)", "(4x1)").Replace(got)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s folded (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func TestFoldedStackFitsOneScreen(t *testing.T) {
	var deep strings.Builder
	for i := range 1000 {
		deep.WriteString(strings.Repeat("x", i%97) + "\n")
	}
	got := folded(deep.String() + "root\n")
	if lines := strings.Count(got, "\n"); lines != shownTop+shownLast+1 || !strings.HasSuffix(got, "\nroot\n") {
		t.Errorf("lines = %d, want %d:\n%s", lines, shownTop+shownLast+1, got)
	}
}
