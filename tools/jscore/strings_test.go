package jscore

import (
	"bytes"
	"strings"
	"testing"
)

func stringsAreCounted(t *testing.T, g *Graph, facts censusFacts) {
	found := g.Strings(t.Context(), StringOptions{Contains: "n", Least: 8, Live: true, Limit: 1 << 20})
	names, same := 0, 0
	for _, text := range found.Texts {
		if !strings.Contains(text.Text, "n") && text.Length <= shownText || text.Length < 8 {
			t.Errorf("text = %+v, want 8 characters or more, an n among them", text)
		}
		if strings.HasPrefix(text.Text, "name ") && text.Length == len("name 1234") {
			names++
		}
		if text.Text == "again and again" {
			same += text.Count
		}
	}
	if names < facts.Keep*9/10 {
		t.Errorf("different names = %d, want %d", names, facts.Keep*9/10)
	}
	if same < 100 {
		t.Errorf("the same text is there %d times, want 100", same)
	}
	found.keep(g, 3)
	var text bytes.Buffer
	if err := found.WriteText(&text); err != nil || !strings.Contains(text.String(), "more texts") {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}
