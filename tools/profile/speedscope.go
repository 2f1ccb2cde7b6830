package profile

import (
	"fmt"
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

// writeSpeedscope writes a sampled profile for each thread, named by the thread,
// the versions of what it runs, and the rate. Weights are the values, and CPU time
// instead of samples if the rate is known; the order of samples in time is not kept.
// The format has one line for a frame, and nothing that marks it as inlined: it is where
// the function is defined. If the options separate lines, it is the one that executes, and
// the name of an inlined function says so.
func writeSpeedscope(w io.Writer, p *Profile, o Options) error {
	out := speedscopeFile{
		Schema: speedscopeSchema, Name: o.title(p), Exporter: "ustack",
		Shared:   speedscopeShared{Frames: []speedscopeFrame{}},
		Profiles: []speedscopeProfile{},
	}
	unit, weight := p.speedscopeUnit()
	busiest := uint64(0)
	index := frameIndex{frames: map[symbolize.Frame]int{}, lines: o.Lines}
	for i, t := range p.Merge().threads() {
		title := strings.Join(append([]string{t.String()}, p.versionsOf(t.PID)...), ", ")
		if p.period() > 0 { // weights are times
			title += fmt.Sprintf(", %d Hz", p.Hz)
		}
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

// A frameIndex has the indices of shared frames.
type frameIndex struct {
	frames map[symbolize.Frame]int
	lines  bool // of a function, those with other executing lines are others
}

// indices returns a stack's frames, root first, as indices of shared frames.
func (s *speedscopeShared) indices(stack Stack, index frameIndex) []int {
	var indices []int
	for _, full := range slices.Backward(stack.frames()) {
		f := function(full)
		if index.lines {
			f.Inlined = full.Inlined
			if full.ExecutingLine > 0 {
				f.Line, f.Column = full.ExecutingLine, 0
			}
		}
		i, ok := index.frames[f]
		if !ok {
			i = len(s.Frames)
			index.frames[f] = i
			s.Frames = append(s.Frames, speedscopeFrameOf(f))
		}
		indices = append(indices, i)
	}
	return indices
}

func speedscopeFrameOf(f symbolize.Frame) speedscopeFrame {
	frame := speedscopeFrame{name(f), printable.String(f.File + f.Module), f.Line, f.Column}
	if f.Inlined {
		frame.Name += " (inlined)"
	}
	return frame
}
