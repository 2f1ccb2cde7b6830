package census_test

import (
	"strings"
	"testing"

	"ustack/symbolize/v8/census"
	"ustack/tools/jscore"
)

func stringsAreCounted(t *testing.T, g *jscore.Graph, facts censusFacts) {
	found := census.Strings(t.Context(), g.Graph, census.StringOptions{Contains: "n", Least: 8, Live: true, Limit: 1 << 20})
	names, same := 0, 0
	for _, text := range found.Texts {
		if !strings.Contains(string(text.Text), "n") && text.Length <= census.ShownText || text.Length < 8 {
			t.Errorf("text = %+v, want 8 characters or more, an n among them", text)
		}
		if strings.HasPrefix(string(text.Text), "name ") && text.Length == len("name 1234") {
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
	few := census.Strings(t.Context(), g.Graph, census.StringOptions{Limit: 3})
	if len(few.Texts) != 3 || few.More == 0 || few.Count <= found.Count {
		t.Errorf("texts = %d and %d more of %d strings, want 3 of all", len(few.Texts), few.More, few.Count)
	}
}
