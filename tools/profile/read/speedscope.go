package read

import (
	"fmt"
	"math"
	"path"
	"strings"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// speedscope is the file format of speedscope, as far as a profile has place for it.
type (
	speedscopeFile struct {
		Name     string `json:"name"`
		Exporter string `json:"exporter"`
		Shared   struct {
			Frames []speedscopeFrame `json:"frames"`
		} `json:"shared"`
		Profiles []speedscopeProfile `json:"profiles"`
	}
	speedscopeFrame struct {
		Name string `json:"name"`
		File string `json:"file"`
		Line int    `json:"line"`
		Col  int    `json:"col"`
	}
	speedscopeProfile struct {
		Type    string            `json:"type"`
		Name    string            `json:"name"`
		Unit    string            `json:"unit"`
		Samples [][]int           `json:"samples"` // root first
		Weights []float64         `json:"weights"`
		End     float64           `json:"endValue"`
		Events  []speedscopeEvent `json:"events"`
	}
	speedscopeEvent struct {
		Type  string  `json:"type"` // O for open, C for close
		Frame int     `json:"frame"`
		At    float64 `json:"at"`
	}
)

// nanoseconds of the units of time.
var nanoseconds = map[string]float64{"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}

// ours is the exporter of this program's files.
const ours = "ustack"

var (
	speedscopeThread = lazyregexp.New(`^(?:(.*) )?(\d{1,9})/(\d{1,9})(?:, Node\.js (v\d[^ ,]*))?(?:, V8 (\d[^ ,]*))?(?:, (\d{1,7}) Hz)?$`)
	speedscopeTitle  = lazyregexp.New(`^Profile of (.+?)(?: of Node\.js (\S+))?$`)
)

// A speedscopeReader adds the stacks of all profiles of a file.
type speedscopeReader struct {
	*builder
	file   speedscopeFile
	frames []symbolize.Frame
	hz     int // of the profile that is read; 0 if its weights are no times of samples
}

// readSpeedscope reads all profiles of a file, each of which is a thread. All have one
// unit.
func readSpeedscope(all []byte, b *builder) error {
	r := speedscopeReader{builder: b}
	if err := decode(all, &r.file); err != nil {
		return err
	}
	for _, f := range r.file.Shared.Frames {
		r.frames = append(r.frames, r.frame(f))
	}
	unit := ""
	for i, p := range r.file.Profiles {
		if i > 0 && p.Unit != unit {
			return fmt.Errorf("profiles[%d]: its unit is %s, that of others %s", i, quote(p.Unit), quote(unit))
		}
		unit = p.Unit
		if err := r.read(p); err != nil {
			return fmt.Errorf("profiles[%d]: %w", i, err)
		}
	}
	r.valueType(unit)
	return nil
}

// frame returns a frame. Only scripts have lines; other frames' files are modules.
func (r *speedscopeReader) frame(in speedscopeFrame) symbolize.Frame {
	name, inlined := in.Name, false
	if r.file.Exporter == ours {
		name, inlined = strings.CutSuffix(name, " (inlined)")
	}
	f := symbolize.Frame{Kind: kindOfFile(in.File), File: in.File, Line: max(in.Line, 0), Column: max(in.Col, 0)}
	f.Name, f.Tier = tiered(name)
	if in.Line <= 0 && f.Kind == symbolize.JS && !isScript(in.File) {
		f = inModule(name, in.File)
	}
	f.Inlined = inlined
	return f
}

// isScript reports whether the functions of a file are JavaScript.
func isScript(file string) bool {
	switch strings.TrimLeft(strings.TrimPrefix(path.Ext(file), "."), "cm") {
	case "js", "ts", "jsx", "tsx":
		return true
	}
	return strings.HasPrefix(file, "node:") || strings.HasPrefix(file, "evalmachine.")
}

// read adds the stacks of a profile.
func (r *speedscopeReader) read(p speedscopeProfile) error {
	stack := profile.Stack{Thread: p.Name}
	r.hz = 0
	if m := speedscopeThread.FindStringSubmatch(p.Name); m != nil {
		stack.Thread, stack.PID, stack.TID = m[1], int(number(m[2], 10)), int(number(m[3], 10))
		if m[4] != "" || m[5] != "" {
			r.process(profile.Process{PID: stack.PID, Title: fmt.Sprintf("process %d", stack.PID), Node: m[4], V8: m[5]})
			r.profile.Node, r.profile.V8 = m[4], m[5]
		}
		if p.Unit == profile.Time.Unit {
			r.hz = int(number(m[6], 10))
			r.profile.Hz = r.hz
		}
	}
	if p.Type == "evented" {
		return r.events(p, stack)
	}
	if p.Type != "sampled" {
		return fmt.Errorf("its type is %s, neither sampled nor evented", quote(p.Type))
	}
	if len(p.Weights) != len(p.Samples) {
		return fmt.Errorf("it has %d samples and %d weights", len(p.Samples), len(p.Weights))
	}
	for i, sample := range p.Samples {
		if err := r.add(stack, sample, r.value(p.Unit, p.Weights[i])); err != nil {
			return fmt.Errorf("samples[%d]: %w", i, err)
		}
	}
	return nil
}

// value returns a weight as a whole number: of nanoseconds, if it is a time, or of samples
// at a known rate. It is negative if the weight is no number.
func (r *speedscopeReader) value(unit string, weight float64) float64 {
	if scale, ok := nanoseconds[unit]; ok {
		weight *= scale
	}
	if r.hz > 0 {
		weight /= float64(int(1e9) / r.hz)
	}
	return math.Round(weight)
}

// add adds a stack, whose frames are indices, root first.
func (r *speedscopeReader) add(s profile.Stack, indices []int, value float64) error {
	if !(value >= 0) || value >= math.MaxInt64 {
		return fmt.Errorf("the value %v is not a count", value)
	}
	s.Value, s.Frames = uint64(value), nil
	for i := len(indices) - 1; i >= 0; i-- {
		if indices[i] < 0 || indices[i] >= len(r.frames) {
			return fmt.Errorf("frame %d is not one of the %d that there are", indices[i], len(r.frames))
		}
		if len(s.Frames) <= maxDepth { // the builder cuts it
			s.Frames = append(s.Frames, r.frames[indices[i]])
		}
	}
	if len(s.Frames) == 1 && s.Frames[0] == (symbolize.Frame{Name: symbolize.Unknown}) {
		s.Frames = nil
	}
	return r.builder.add(s)
}

// events adds the stacks between the events at which functions begin and end.
func (r *speedscopeReader) events(p speedscopeProfile, stack profile.Stack) error {
	var open []int
	last := math.Inf(-1)
	for i, e := range p.Events {
		if e.At < last {
			return fmt.Errorf("events[%d]: it is before the one before", i)
		}
		if len(open) > 0 {
			if err := r.add(stack, open, r.value(p.Unit, e.At-last)); err != nil {
				return fmt.Errorf("events[%d]: %w", i, err)
			}
		}
		last = e.At
		switch {
		case e.Type == "O" && len(open) < maxDepth:
			open = append(open, e.Frame)
		case e.Type == "O":
			return fmt.Errorf("events[%d]: more than %d functions are open", i, maxDepth)
		case e.Type != "C":
			return fmt.Errorf("events[%d]: its type is %s, neither O nor C", i, quote(e.Type))
		case len(open) == 0 || open[len(open)-1] != e.Frame:
			return fmt.Errorf("events[%d]: it ends frame %d, which is not the last that began", i, e.Frame)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 && p.End > last {
		return r.add(stack, open, r.value(p.Unit, p.End-last))
	}
	return nil
}

// valueType sets the type of the values, by their unit and by the title of a file of ours.
func (r *speedscopeReader) valueType(unit string) {
	_, isTime := nanoseconds[unit]
	switch {
	case r.profile.Hz > 0:
	case isTime:
		r.profile.ValueType = profile.Time
	case unit == profile.Memory.Unit:
		r.profile.ValueType = profile.Memory
	}
	m := speedscopeTitle.FindStringSubmatch(r.file.Name)
	if r.file.Exporter != ours || m == nil || r.profile.Hz > 0 {
		return
	}
	if r.profile.ValueType.Unit == "" {
		r.profile.ValueType.Unit = profile.Samples.Unit
	}
	r.profile.ValueType.Type = m[1]
}
