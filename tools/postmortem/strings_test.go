package postmortem

import (
	"bytes"
	"strings"
	"testing"
)

func stringsAreCounted(t *testing.T, g *Graph, facts censusFacts) {
	named := g.Strings(StringOptions{Contains: "name 99", Live: true, Limit: 5})
	if named.Count == 0 || len(named.Texts) != 5 || named.More == 0 {
		t.Errorf("strings = %d in %d texts and %d more, want more than 5", named.Count, len(named.Texts), named.More)
	}
	for _, text := range named.Texts {
		if !strings.Contains(text.Text, "name 99") || text.Length != len(text.Text) {
			t.Errorf("text = %+v, want name 99 in it", text)
		}
	}
	same := g.Strings(StringOptions{Contains: "again and again", Live: true})
	if len(same.Texts) != 1 || same.Texts[0].Count < 100 {
		t.Errorf("texts = %+v, want one, 100 times", same.Texts)
	}
	var text bytes.Buffer
	if err := same.WriteText(&text); err != nil || !strings.Contains(text.String(), `"again and again`) {
		t.Errorf("text = %v\n%s", err, text.String())
	}
	for _, long := range g.Strings(StringOptions{Least: 5000}).Texts {
		if long.Length < 5000 {
			t.Errorf("length = %d, want 5000 at least", long.Length)
		}
	}
}
