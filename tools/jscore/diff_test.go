package jscore

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ustack/symbolize/v8/census"
)

func TestDiffTellsWhatGrew(t *testing.T) {
	before := &Census{Census: &census.Census{Groups: []*census.Group{
		{Class: "Session", Tally: census.Tally{Count: 10, Bytes: 1000, Address: 1}},
		{Class: "Same", Tally: census.Tally{Count: 3, Bytes: 30, Address: 2}},
		{Class: "Gone", Tally: census.Tally{Count: 1, Bytes: 8, Address: 3}},
	}}}
	after := &Census{Census: &census.Census{Groups: []*census.Group{
		{Class: "Session", Tally: census.Tally{Count: 20, Bytes: 2500, Address: 0x21}},
		{Class: "Session", Tally: census.Tally{Count: 5, Bytes: 400, Address: 0x31}},
		{Class: "New", Tally: census.Tally{Count: 2, Bytes: 64, Address: 0x41}},
		{Class: "Same", Tally: census.Tally{Count: 3, Bytes: 30, Address: 0x51}},
	}}}
	got := Diff(before, after)
	want := &Difference{[]Growth{
		{"Session", 10, 25, 15, 1900, 0x21},
		{"New", 0, 2, 2, 64, 0x41},
		{"Gone", 1, 0, -1, -8, 0},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference (-want +got):\n%s", diff)
	}
	if n := len(got.Addresses()); n != 2 {
		t.Errorf("addresses = %d, want those of 2 classes", n)
	}
	var text bytes.Buffer
	if err := got.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	const first = "              21        10        25        +15        +1900 Session\n"
	if lines := text.String(); !bytes.Contains(text.Bytes(), []byte(first)) {
		t.Errorf("text =\n%s\nwant a line\n%s", lines, first)
	}
}

func TestDiffOfTwoCores(t *testing.T) {
	few, _ := censusGraph(t, "24.21.0", 100, 0)
	many, _ := censusGraph(t, "24.21.0", 600, 0)
	o := CensusOptions{ByClass: true, Live: true}
	d := Diff(few.Census(t.Context(), o), many.Census(t.Context(), o))
	for _, g := range d.Classes {
		if g.Class == "Named" && g.Count != 500 {
			t.Errorf("objects of Named grew by %d, want 500", g.Count)
		}
	}
	if len(d.Classes) < 5 {
		t.Errorf("classes that grew = %d, want five at least", len(d.Classes))
	}
}
