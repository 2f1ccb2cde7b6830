package jscore

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func leaksAreSuspected(t *testing.T, g *Graph, facts censusFacts) {
	l := dominated(t, g).Leaks(t.Context(), LeakOptions{})
	if i := slices.IndexFunc(l.Classes, func(c ClassShare) bool { return c.Class == "Legacy" }); i < 0 || l.Classes[i].Count < facts.Keep {
		t.Errorf("classes that keep most alive = %+v, want Legacy among them", l.Classes)
	}
	if len(l.Collections) == 0 || l.Collections[0].Kind != "JSArray" {
		t.Errorf("collections that keep most alive = %+v, want an array first", l.Collections)
	}
	if len(l.Closures) == 0 || l.Closures[0].Live < facts.Keep {
		t.Errorf("closures = %+v, want %d of one function", l.Closures, facts.Keep)
	}
	if len(l.Listeners) != 1 || l.Listeners[0].Event != "tick" || l.Listeners[0].Count != 31 {
		t.Errorf("listeners = %+v, want 31 for tick", l.Listeners)
	}
	var text bytes.Buffer
	if err := l.WriteText(&text); err != nil || !strings.Contains(text.String(), `31 for "tick" of `) {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}

func classesRetainNoMoreThanAll(t *testing.T, g *Graph, facts censusFacts) {
	d := dominated(t, g)
	for _, c := range d.Classes() {
		if c.Retained > d.Total() {
			t.Errorf("objects of %s retain %d bytes, want no more than the %d of all", c.Class, c.Retained, d.Total())
		}
		if c.Class == "Holder" && c.Count < facts.Keep {
			t.Errorf("objects of Holder = %d, want %d", c.Count, facts.Keep)
		}
	}
}
