package jscore

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8"
)

func TestBackwardEdgesAreTheForwardOnes(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const n = 500
	out, want := make([][]ID, n), make([][]ID, n)
	for range partSize + 1000 { // in two parts
		from, to := ID(random.IntN(n)), ID(random.IntN(n))
		out[from] = append(out[from], to)
	}
	for from := range ID(n) {
		for _, to := range out[from] {
			want[to] = append(want[to], from)
		}
	}
	pairs := []weakPair{{table: 0, key: 1, value: 2}}
	want[2] = append(want[2], 1)
	g := madeGraph(out, []ID{0}, pairs)
	in := g.backward()
	for id := range ID(n) {
		var got []ID
		in.each(id, func(from ID) { got = append(got, from) })
		slices.Sort(got)
		slices.Sort(want[id])
		if !slices.Equal(got, want[id]) {
			t.Fatalf("object %d is referred to by %v, want %v", id, got, want[id])
		}
	}
}

func TestPairsOfADeadTableReferToNothing(t *testing.T) {
	g := madeGraph([][]ID{{1}, nil, nil, nil}, []ID{0}, []weakPair{{table: 3, key: 1, value: 2}})
	g.backward().each(2, func(from ID) { t.Errorf("object 2 is referred to by %d, want nothing", from) })
	if g.IsLive(2) {
		t.Error("the value of a pair of a dead table is live")
	}
}

func TestLinksReadAsInAProgram(t *testing.T) {
	for link, want := range map[Link]string{
		{ByProperty, "name"}:   ".name",
		{ByElement, "3"}:       "[3]",
		{ByVariable, "count"}:  "variable count",
		{ByEntry, ""}:          "entry",
		{ByField, "prototype"}: "field prototype",
	} {
		if got := link.String(); got != want {
			t.Errorf("%+v = %q, want %q", link, got, want)
		}
	}
}

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
	o, err := g.heap.Object(context)
	if err != nil {
		t.Fatal(err)
	}
	const first = 2 // slot of a variable, after the scope and the enclosing context
	if got, want := g.link(o, arrayHeader+first*wordSize), (Link{ByVariable, "i"}); got != want {
		t.Errorf("first variable = %+v, want %+v", got, want)
	}
	refs, err := g.References(t.Context(), context, RefOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs.Refs) != 1 || refs.Refs[0].Link != (Link{ByField, "context"}) {
		t.Errorf("the context is referred to by %+v, want the closure's field", refs.Refs)
	}
}

func referencesAreBounded(t *testing.T, g *Graph, facts censusFacts) {
	// The map of many objects.
	m := v8.Ref(g.Map(mostOf(t, g, CensusOptions{Class: "Point", Live: true}).object).Address)
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
	v := g.Object(mostOf(t, g, CensusOptions{Class: "Point3", Live: true}).object).Ref()
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
