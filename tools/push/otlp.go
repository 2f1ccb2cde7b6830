package push

import (
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"

	pprof "github.com/google/pprof/profile"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"ustack/tools/labels"
)

// otlp returns a request of OpenTelemetry's protocol: a profile for each type of values, with
// tables of what they have in common. CPU time is not sent beside the number of samples that it
// follows from.
func otlp(p *Profile, _ *gzip.Writer) ([]byte, error) {
	all := pprofile.NewProfiles()
	resource := all.ResourceProfiles().AppendEmpty()
	for _, l := range p.Labels {
		if n, err := strconv.ParseInt(l.Value, 10, 64); err == nil && l.Name == labels.PID {
			resource.Resource().Attributes().PutInt(l.Name, n)
			continue
		}
		resource.Resource().Attributes().PutStr(l.Name, l.Value)
	}
	scope := resource.ScopeProfiles().AppendEmpty()
	scope.Scope().SetName("ustack")
	t := newTables(all.Dictionary())
	for i, of := range p.Data.SampleType {
		if period := p.Data.PeriodType; len(p.Data.SampleType) > 1 && period != nil && *period == *of {
			continue
		}
		t.profile(scope.Profiles().AppendEmpty(), p.Data, i)
	}
	return (&pprofile.ProtoMarshaler{}).MarshalProfiles(all)
}

// Tables are what the profiles of a request have in common. The first entry of each stands for
// none.
type tables struct {
	pprofile.ProfilesDictionary
	strings    map[string]int32
	attributes map[attribute]int32
	mappings   map[*pprof.Mapping]int32
	functions  map[*pprof.Function]int32
	locations  map[*pprof.Location]int32
	stacks     map[string]int32
}

// An attribute is a name with a text or a number.
type attribute struct {
	name, text string
	number     int64
}

func newTables(d pprofile.ProfilesDictionary) *tables {
	d.StringTable().Append("")
	d.AttributeTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.LinkTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	return &tables{
		ProfilesDictionary: d,
		strings:            map[string]int32{"": 0},
		attributes:         make(map[attribute]int32),
		mappings:           make(map[*pprof.Mapping]int32),
		functions:          make(map[*pprof.Function]int32),
		locations:          make(map[*pprof.Location]int32),
		stacks:             make(map[string]int32),
	}
}

// profile fills in a profile of the samples' values of one type.
func (t *tables) profile(to pprofile.Profile, from *pprof.Profile, number int) {
	var id pprofile.ProfileID
	_, _ = rand.Read(id[:]) // it does not fail
	to.SetProfileID(id)
	to.SetTime(pcommon.Timestamp(from.TimeNanos))
	to.SetDurationNano(uint64(from.DurationNanos))
	t.valueType(to.SampleType(), from.SampleType[number])
	if from.PeriodType != nil {
		t.valueType(to.PeriodType(), from.PeriodType)
		to.SetPeriod(from.Period)
	}
	for _, s := range from.Sample {
		if s.Value[number] == 0 {
			continue
		}
		sample := to.Samples().AppendEmpty()
		sample.SetStackIndex(t.stack(s.Location))
		sample.Values().Append(s.Value[number])
		for _, thread := range s.Label["thread"] {
			sample.AttributeIndices().Append(t.attribute(attribute{name: "thread.name", text: thread}))
		}
		for _, tid := range s.NumLabel["tid"] {
			sample.AttributeIndices().Append(t.attribute(attribute{name: "thread.id", number: tid}))
		}
	}
}

func (t *tables) valueType(to pprofile.ValueType, from *pprof.ValueType) {
	to.SetTypeStrindex(t.string(from.Type))
	to.SetUnitStrindex(t.string(from.Unit))
}

func (t *tables) string(s string) int32 {
	at, ok := t.strings[s]
	if !ok {
		at = int32(t.StringTable().Len())
		t.StringTable().Append(s)
		t.strings[s] = at
	}
	return at
}

func (t *tables) attribute(a attribute) int32 {
	at, ok := t.attributes[a]
	if ok {
		return at
	}
	at = int32(t.AttributeTable().Len())
	to := t.AttributeTable().AppendEmpty()
	to.SetKeyStrindex(t.string(a.name))
	if a.text != "" {
		to.Value().SetStr(a.text)
	} else {
		to.Value().SetInt(a.number)
	}
	t.attributes[a] = at
	return at
}

func (t *tables) stack(locations []*pprof.Location) int32 {
	var key []byte
	for _, l := range locations {
		key = binary.AppendUvarint(key, l.ID)
	}
	at, ok := t.stacks[string(key)]
	if ok {
		return at
	}
	var indices []int32
	for _, l := range locations {
		indices = append(indices, t.location(l))
	}
	at = int32(t.StackTable().Len())
	t.StackTable().AppendEmpty().LocationIndices().Append(indices...)
	t.stacks[string(key)] = at
	return at
}

func (t *tables) location(l *pprof.Location) int32 {
	at, ok := t.locations[l]
	if ok {
		return at
	}
	at = int32(t.LocationTable().Len())
	to := t.LocationTable().AppendEmpty()
	to.SetAddress(l.Address)
	to.SetMappingIndex(t.mapping(l.Mapping))
	to.AttributeIndices().Append(t.attribute(attribute{name: "profile.frame.type", text: frameType(l)}))
	for _, line := range l.Line {
		of := to.Lines().AppendEmpty()
		of.SetFunctionIndex(t.function(line.Function))
		of.SetLine(line.Line)
		of.SetColumn(line.Column)
	}
	t.locations[l] = at
	return at
}

// frameType returns the sort of a location's code, in OpenTelemetry's words.
func frameType(l *pprof.Location) string {
	switch {
	case l.Mapping != nil && l.Mapping.File == "[kernel]":
		return "kernel"
	case l.Mapping == nil && slices.ContainsFunc(l.Line, func(line pprof.Line) bool { return line.Function.Filename != "" }):
		return "v8js"
	}
	return "native"
}

func (t *tables) mapping(m *pprof.Mapping) int32 {
	if m == nil {
		return 0
	}
	at, ok := t.mappings[m]
	if !ok {
		at = int32(t.MappingTable().Len())
		t.MappingTable().AppendEmpty().SetFilenameStrindex(t.string(m.File))
		t.mappings[m] = at
	}
	return at
}

func (t *tables) function(f *pprof.Function) int32 {
	at, ok := t.functions[f]
	if ok {
		return at
	}
	at = int32(t.FunctionTable().Len())
	to := t.FunctionTable().AppendEmpty()
	to.SetNameStrindex(t.string(f.Name))
	to.SetSystemNameStrindex(t.string(cmp.Or(f.SystemName, f.Name)))
	to.SetFilenameStrindex(t.string(f.Filename))
	to.SetStartLine(f.StartLine)
	t.functions[f] = at
	return at
}
