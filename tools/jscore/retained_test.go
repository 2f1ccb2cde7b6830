package jscore

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"ustack/symbolize/v8"
	"ustack/symbolize/v8/heap"
)

func retainedIsOfWholeStructures(t *testing.T, g *Graph, facts censusFacts) {
	d := dominated(t, g)
	total := uint64(0)
	for id := range heap.ID(g.Len()) {
		if g.IsLive(id) {
			total += g.Bytes(id)
		}
	}
	if d.Total() != total {
		t.Errorf("all roots retain %d bytes, want %d", d.Total(), total)
	}
	// Each of the holders but the last refers to the next, so the first keeps all of them
	// alive, with their lists, unless the array that also holds them exists.
	holders := d.Retainers(t.Context(), CensusOptions{Class: "Legacy"}, 10)
	if len(holders.Objects) != 10 {
		t.Fatalf("retainers = %d, want 10", len(holders.Objects))
	}
	for _, o := range holders.Objects[1:] {
		// A closure and its context belong to the object alone.
		if o.Retained < o.Size+64+32 {
			t.Errorf("%v retains %d bytes, want its closure, too", o.Brief, o.Retained)
		}
	}
	var text bytes.Buffer
	if err := holders.WriteText(&text); err != nil || strings.Count(text.String(), "Legacy") != 10 {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}

func referencesAreFound(t *testing.T, g *Graph, facts censusFacts) {
	named := v8.Value(mostOf(t, g, CensusOptions{Class: "Named", Live: true}).Address)
	o, err := g.heap.Object(named)
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := g.heap.Own(o, "name")
	if err != nil {
		t.Fatal(err)
	}
	refs, err := g.References(t.Context(), name, RefOptions{Depth: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(refs.Refs) != 1 || refs.Refs[0].Link != (heap.Link{How: heap.ByProperty, Name: "name"}) || refs.Refs[0].Class != "Named" {
		t.Fatalf("the name is referred to by %+v, want property name of a Named", refs.Refs)
	}
	array := refs.Refs[0].Refs
	i := slices.IndexFunc(array, func(r *Reference) bool { return r.How == heap.ByElement && r.Kind == "JSArray" })
	if i < 0 {
		t.Fatalf("the object is referred to by %+v, want an element of an array", array)
	}
	if next := array[i].Refs; !slices.ContainsFunc(next, func(r *Reference) bool { return r.Link == heap.Link{How: heap.ByProperty, Name: "Named"} }) {
		t.Errorf("the array is referred to by %+v, want property Named", next)
	}
	var text bytes.Buffer
	if err := refs.WriteText(&text); err != nil || !strings.Contains(text.String(), ".name of ") {
		t.Errorf("text = %v\n%s", err, text.String())
	}
}

func pathLeadsFromARoot(t *testing.T, g *Graph, facts censusFacts) {
	most := mostOf(t, g, CensusOptions{Class: "Point3", Live: true})
	path, err := g.Path(t.Context(), v8.Value(most.Address))
	if err != nil {
		t.Fatal(err)
	}
	if len(path.Steps) == 0 || path.Root == "" || path.Steps[len(path.Steps)-1].Brief.Address != most.Address {
		t.Errorf("path = %+v, want one to %v", path, most.Address)
	}
	if last := len(path.Steps) - 1; last > 1 {
		if got := path.Steps[last].Link; got.How != heap.ByElement {
			t.Errorf("last link = %v, want an element of an array", got)
		}
		if got, want := path.Steps[last-1].Link, (heap.Link{How: heap.ByProperty, Name: "Point3"}); got != want {
			t.Errorf("link to the array = %v, want %v", got, want)
		}
	}
	if !slices.ContainsFunc(path.Steps, func(s Step) bool { return s.Link == heap.Link{How: heap.ByProperty, Name: "kept"} }) {
		t.Errorf("path = %+v, want one by the global variable kept", path)
	}
	if _, err := g.Path(t.Context(), v8.Ref(8)); err == nil {
		t.Error("path to where no object is has no error")
	}
	for id := range g.Select(t.Context(), CensusOptions{Class: "Named"}) {
		if g.IsLive(id) {
			continue
		}
		path, err := g.Path(t.Context(), g.Object(id).Ref())
		if err != nil || len(path.Steps) > 0 {
			t.Errorf("path to a dead object = %+v, %v, want none", path, err)
		}
		break
	}
}

// dominated returns what each object of a graph keeps alive.
func dominated(t testing.TB, g *Graph) *Dominated {
	t.Helper()
	d, err := g.Dominated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}
