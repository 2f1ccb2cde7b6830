package push

import (
	"testing"

	pprof "github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"ustack/tools/labels"
)

// decode returns a request's profiles, as its receivers read them.
func decode(t *testing.T, p *Profile) pprofile.Profiles {
	t.Helper()
	body, err := otlp(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(body)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestFirstEntriesStandForNothing, as the protocol demands of each table.
func TestFirstEntriesStandForNothing(t *testing.T) {
	p := sample(3, "f")
	d := decode(t, &p).Dictionary()
	f, l, m := d.FunctionTable().At(0), d.LocationTable().At(0), d.MappingTable().At(0)
	if d.StringTable().At(0) != "" || f.NameStrindex() != 0 || l.Lines().Len() != 0 || m.FilenameStrindex() != 0 ||
		d.StackTable().At(0).LocationIndices().Len() != 0 || d.AttributeTable().At(0).KeyStrindex() != 0 || d.LinkTable().Len() != 1 {
		t.Error("a first entry says something")
	}
	for i, s := range d.StringTable().All() {
		for j, other := range d.StringTable().All() {
			if i < j && s == other {
				t.Errorf("strings %d and %d are both %q", i, j, s)
			}
		}
	}
}

// TestStacksAreWhatTheyWere has an inlined function, a native one, one of the kernel, and two
// threads with the same stack.
func TestStacksAreWhatTheyWere(t *testing.T) {
	p := sample(3, "f")
	p.Labels = append(p.Labels, labels.Label{Name: labels.PID, Value: "42"})
	native := &pprof.Mapping{ID: 1, File: "/usr/bin/node"}
	kernel := &pprof.Mapping{ID: 2, File: "[kernel]"}
	data := p.Data
	inlined := &pprof.Function{ID: 2, Name: "inlined", Filename: "app.js", StartLine: 11}
	data.Location[0].Line = append([]pprof.Line{{Function: inlined, Line: 12}}, data.Location[0].Line...)
	for i, m := range []*pprof.Mapping{native, kernel} {
		f := &pprof.Function{ID: uint64(3 + i), Name: m.File + "'s"}
		data.Location = append(data.Location, &pprof.Location{ID: uint64(2 + i), Mapping: m, Line: []pprof.Line{{Function: f}}})
	}
	data.Sample[0].Location = []*pprof.Location{data.Location[2], data.Location[1], data.Location[0]}
	other := *data.Sample[0]
	other.Value, other.Label = []int64{5, 5 * data.Period}, map[string][]string{"thread": {"worker"}}
	data.Sample = append(data.Sample, &other)

	all := decode(t, &p)
	d := all.Dictionary()
	resource := all.ResourceProfiles().At(0)
	if pid, _ := resource.Resource().Attributes().Get(labels.PID); pid.Int() != 42 {
		t.Errorf("pid = %v, want the number 42", pid.AsRaw())
	}
	profiles := resource.ScopeProfiles().At(0).Profiles()
	if profiles.Len() != 1 {
		t.Fatalf("profiles = %d, want 1: CPU time follows from samples", profiles.Len())
	}
	of := profiles.At(0)
	if got := d.StringTable().At(int(of.SampleType().TypeStrindex())); got != "samples" || of.Period() != data.Period {
		t.Errorf("profile of %s, each %d, want samples, each %d", got, of.Period(), data.Period)
	}
	if of.ProfileID() == (pprofile.ProfileID{}) {
		t.Error("the profile has no ID by which one that arrives twice is recognized")
	}
	text := func(i int32) string { return d.StringTable().At(int(i)) }
	attribute := func(indices []int32, name string) string {
		for _, i := range indices {
			if a := d.AttributeTable().At(int(i)); text(a.KeyStrindex()) == name {
				return a.Value().AsString()
			}
		}
		return ""
	}
	for i, want := range []struct {
		value  int64
		thread string
	}{{3, "node"}, {5, "worker"}} {
		s := of.Samples().At(i)
		if s.Values().Len() != 1 || s.Values().At(0) != want.value || attribute(s.AttributeIndices().AsRaw(), "thread.name") != want.thread ||
			attribute(s.AttributeIndices().AsRaw(), "thread.id") != "42" || s.StackIndex() != of.Samples().At(0).StackIndex() {
			t.Errorf("sample %d = %v of stack %d in %s, want %+v, of one stack", i, s.Values().AsRaw(), s.StackIndex(), attribute(s.AttributeIndices().AsRaw(), "thread.name"), want)
		}
	}
	var got []string
	for _, i := range d.StackTable().At(int(of.Samples().At(0).StackIndex())).LocationIndices().All() {
		l := d.LocationTable().At(int(i))
		for _, line := range l.Lines().All() {
			f := d.FunctionTable().At(int(line.FunctionIndex()))
			got = append(got, text(f.NameStrindex())+" "+attribute(l.AttributeIndices().AsRaw(), "profile.frame.type"))
		}
	}
	want := []string{"[kernel]'s kernel", "/usr/bin/node's native", "inlined v8js", "f v8js"}
	if len(got) != len(want) {
		t.Fatalf("frames = %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("frame %d = %q, want %q", i, got[i], want[i])
		}
	}
}

// TestEventsHaveProfilesOfTheirOwn: of values that do not follow from each other.
func TestEventsHaveProfilesOfTheirOwn(t *testing.T) {
	p := sample(3, "f")
	p.Data.SampleType = append(p.Data.SampleType, &pprof.ValueType{Type: "page-faults", Unit: "count"})
	p.Data.Sample[0].Value = append(p.Data.Sample[0].Value, 0)
	second := *p.Data.Sample[0]
	second.Value = []int64{0, 0, 7}
	p.Data.Sample = append(p.Data.Sample, &second)
	all := decode(t, &p)
	profiles := all.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles()
	if profiles.Len() != 2 {
		t.Fatalf("profiles = %d, want 2", profiles.Len())
	}
	for i, want := range []int64{3, 7} {
		samples := profiles.At(i).Samples()
		if samples.Len() != 1 || samples.At(0).Values().At(0) != want {
			t.Errorf("profile %d has %d samples, the first of %d, want one of %d", i, samples.Len(), samples.At(0).Values().At(0), want)
		}
	}
}
