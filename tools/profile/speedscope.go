package profile

import (
	"io"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
)

const speedscopeSchema = "https://www.speedscope.app/file-format-schema.json"

// The file format of speedscope, according to its published schema.
type (
	speedscopeFile struct {
		Schema   string              `json:"$schema"`
		Name     string              `json:"name"`
		Exporter string              `json:"exporter"`
		Active   int                 `json:"activeProfileIndex"`
		Shared   speedscopeShared    `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeShared struct {
		Frames []speedscopeFrame `json:"frames"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file,omitempty"`
		Line int    `json:"line,omitempty"`
		Col  int    `json:"col,omitempty"`
	}
	speedscopeProfile struct {
		Type       string  `json:"type"`
		Name       string  `json:"name"`
		Unit       string  `json:"unit"`
		StartValue int64   `json:"startValue"`
		EndValue   int64   `json:"endValue"`
		Samples    [][]int `json:"samples"` // indices of frames, root first
		Weights    []int64 `json:"weights"`
	}
)

// writeSpeedscope writes a sampled profile for each thread, named by the thread
// and the versions of what it runs. Weights are the values, and CPU time
// instead of samples if the rate is known; the order of samples in time is not kept.
func writeSpeedscope(w io.Writer, p *Profile, o Options) error {
	out := speedscopeFile{
		Schema: speedscopeSchema, Name: o.title(p), Exporter: "ustack",
		Shared:   speedscopeShared{Frames: []speedscopeFrame{}},
		Profiles: []speedscopeProfile{},
	}
	unit, weight := p.speedscopeUnit()
	busiest := uint64(0)
	index := map[symbolize.Frame]int{}
	for i, t := range p.Merge().threads() {
		title := strings.Join(append([]string{t.String()}, p.versionsOf(t.PID)...), ", ")
		profile := speedscopeProfile{Type: "sampled", Name: title, Unit: unit, Samples: [][]int{}, Weights: []int64{}}
		var count uint64
		for _, s := range t.Stacks {
			profile.Samples = append(profile.Samples, out.Shared.indices(s, index))
			profile.Weights = append(profile.Weights, int64(s.Value)*weight)
			count += s.Value
		}
		profile.EndValue = int64(count) * weight
		if count > busiest {
			busiest, out.Active = count, i
		}
		out.Profiles = append(out.Profiles, profile)
	}
	return encode(w, out)
}

// speedscopeUnit returns the unit of weights, and the weight of a value of 1.
func (p *Profile) speedscopeUnit() (unit string, weight int64) {
	switch unit := p.ValueType.Unit; unit {
	case Time.Unit, "microseconds", "milliseconds", "seconds", Memory.Unit: // the schema's units
		return unit, 1
	}
	if period := p.period(); period > 0 {
		return Time.Unit, period.Nanoseconds()
	}
	return "none", 1
}

// indices returns a stack's frames, root first, as indices of shared frames;
// index has the indices assigned so far.
func (s *speedscopeShared) indices(stack Stack, index map[symbolize.Frame]int) []int {
	var indices []int
	for _, f := range slices.Backward(stack.frames()) {
		f = function(f)
		i, ok := index[f]
		if !ok {
			i = len(s.Frames)
			index[f] = i
			s.Frames = append(s.Frames, speedscopeFrame{name(f), printable.String(f.File + f.Module), f.Line, f.Column})
		}
		indices = append(indices, i)
	}
	return indices
}
