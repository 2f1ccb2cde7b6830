package jscore

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

func variablesOfClosuresAreNamed(t *testing.T, g *Graph, facts censusFacts) {
	closures := g.Functions(t.Context(), FunctionOptions{Name: "Legacy.call", Live: true})
	if len(closures.Definitions) != 1 {
		t.Fatalf("definitions of Legacy.call = %d, want 1", len(closures.Definitions))
	}
	f, err := g.heap.Object(v8.Value(closures.Definitions[0].Address))
	if err != nil {
		t.Fatal(err)
	}
	context, err := g.heap.FieldOf(f, "JSFunction", "context")
	if err != nil {
		t.Fatal(err)
	}
	refs, err := g.References(t.Context(), context, RefOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs.Refs) != 1 || refs.Refs[0].Link != (heap.Link{How: heap.ByField, Name: "context"}) {
		t.Errorf("the context is referred to by %+v, want the closure's field", refs.Refs)
	}
}

func referencesAreBounded(t *testing.T, g *Graph, facts censusFacts) {
	// The map of many objects.
	m := v8.Ref(g.Map(mostOf(t, g, CensusOptions{Class: "Point", Live: true}).Object).Address)
	refs, err := g.References(t.Context(), m, RefOptions{Limit: 7, Depth: 2, Live: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs.Refs) != 7 || refs.More < facts.Keep-7 {
		t.Errorf("references = %d and %d more, want 7 of %d at least", len(refs.Refs), refs.More, facts.Keep)
	}
	var text bytes.Buffer
	if err := refs.WriteText(&text); err != nil || !strings.Contains(text.String(), "field map of ") {
		t.Errorf("text = %v\n%s", err, text.String())
	}
	var none *NoObjectError
	if _, err := g.References(t.Context(), m+8, RefOptions{}); !errors.As(err, &none) {
		t.Errorf("References of what is no object = %v, want a NoObjectError", err)
	}
	if _, err := g.References(t.Context(), 0, RefOptions{}); !errors.As(err, &none) {
		t.Errorf("References of a small integer = %v, want a NoObjectError", err)
	}
}

func searchesEndWithTheirContext(t *testing.T, g *Graph, _ censusFacts) {
	v := g.Object(mostOf(t, g, CensusOptions{Class: "Point3", Live: true}).Object).Ref()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.References(ended, v, RefOptions{Depth: 3}); !errors.Is(err, context.Canceled) {
		t.Errorf("References after the end = %v, want %v", err, context.Canceled)
	}
	if _, err := g.Path(ended, v); !errors.Is(err, context.Canceled) {
		t.Errorf("Path after the end = %v, want %v", err, context.Canceled)
	}
}

func censusReadsAsMdbs(t *testing.T, g *Graph, _ censusFacts) {
	c := g.Census(t.Context(), CensusOptions{Class: "Point3", Live: true})
	var text bytes.Buffer
	if err := c.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	if got, want := strings.Join(strings.Fields(lines[0]), " "), "OBJECT #OBJECTS #LIVE BYTES #PROPS CLASS: PROPERTIES"; got != want {
		t.Errorf("head = %q, want %q", got, want)
	}
	if !strings.HasSuffix(lines[1], " 3 Point3: x, y, z") {
		t.Errorf("line = %q, want Point3: x, y, z at its end", lines[1])
	}
	if len(c.Addresses()) != len(c.Groups) {
		t.Errorf("addresses = %d, want %d", len(c.Addresses()), len(c.Groups))
	}
}
