package read

import (
	"fmt"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	pprof "github.com/google/pprof/profile"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// readPprof reads one of the types of values of a pprof profile: the default one. The
// number of samples and the CPU time that they stand for are one type.
func readPprof(all []byte, b *builder) error {
	in, err := pprof.ParseUncompressed(all)
	if err != nil {
		return err
	}
	if err := in.CheckValid(); err != nil {
		return err
	}
	at, err := pprofValues(in, b)
	if err != nil {
		return err
	}
	if in.TimeNanos > 0 {
		b.profile.Start = time.Unix(0, in.TimeNanos).UTC()
	}
	b.profile.Duration = time.Duration(max(in.DurationNanos, 0))
	for _, comment := range in.Comments {
		pprofComment(comment, &b.profile)
		if p, ok := process(comment); ok {
			b.process(p)
		}
	}
	r := pprofReader{b, map[*pprof.Location][]symbolize.Frame{}}
	for i, s := range in.Sample {
		if s.Value[at] < 0 {
			return fmt.Errorf("sample %d: the value %d is negative", i, s.Value[at])
		}
		if err := r.sample(s, uint64(s.Value[at])); err != nil {
			return fmt.Errorf("sample %d: %w", i, err)
		}
	}
	return nil
}

// pprofValues returns the index of the values that are to be read.
func pprofValues(in *pprof.Profile, b *builder) (int, error) {
	if len(in.SampleType) == 0 {
		return 0, fmt.Errorf("it has no values")
	}
	types := in.SampleType
	period := in.PeriodType
	cpu := len(types) == 2 && period != nil && types[0].Type == "samples" && types[0].Unit == "count" &&
		types[1].Type == period.Type && period.Unit == "nanoseconds" && in.Period > 0
	if cpu {
		types = types[:1]
		b.profile.Hz = int((int64(time.Second) + in.Period/2) / in.Period)
	}
	var names []string
	for _, t := range types {
		names = append(names, t.Type)
	}
	usual := in.DefaultSampleType
	if usual == "" {
		usual = names[len(names)-1] // as pprof does
	}
	at, err := b.choose(names, usual)
	if err != nil {
		return 0, err
	}
	if t := types[at]; t.Type != "" && t.Unit != "" {
		b.profile.ValueType = profile.ValueType{Type: t.Type, Unit: t.Unit}
	}
	return at, nil
}

// What the comments of a profile of ours say.
var (
	commentNode  = lazyregexp.New(`\bNode\.js (v\d[^ ,]*)`)
	commentV8    = lazyregexp.New(`\bV8 (\d[^ ,]*)`)
	commentAsked = lazyregexp.New(`\bat \d+ Hz \(of (\d{1,9})\)`)
	commentLost  = lazyregexp.New(`\b(\d{1,18}) (?:sample|stack|frame)s? (throttled|lost|truncated|unknown)\b`)
)

// pprofComment takes from a comment of ours what no field holds.
func pprofComment(comment string, p *profile.Profile) {
	for what, into := range map[*lazyregexp.Regexp]*string{commentNode: &p.Node, commentV8: &p.V8} {
		if m := what.FindStringSubmatch(comment); m != nil && *into == "" {
			*into = m[1]
		}
	}
	if m := commentAsked.FindStringSubmatch(comment); m != nil {
		p.HzAsked, _ = strconv.Atoi(m[1])
	}
	counts := map[string]*uint64{"throttled": &p.Throttled, "lost": &p.Lost, "truncated": &p.Truncated, "unknown": &p.UnknownFrames}
	for _, m := range commentLost.Compiled().FindAllStringSubmatch(comment, len(counts)) {
		*counts[m[2]] = number(m[1], 10)
	}
}

// A pprofReader adds samples.
type pprofReader struct {
	*builder
	locations map[*pprof.Location][]symbolize.Frame
}

func (r pprofReader) sample(in *pprof.Sample, value uint64) error {
	s := profile.Stack{Value: value, PID: label1(in.NumLabel["pid"]), TID: label1(in.NumLabel["tid"])}
	for _, name := range []string{"thread", "thread_name", "thread name"} {
		if all := in.Label[name]; len(all) > 0 && s.Thread == "" {
			s.Thread = all[0]
		}
	}
	for _, l := range in.Location {
		if len(s.Frames) > maxDepth { // add cuts it
			break
		}
		s.Frames = append(s.Frames, r.location(l)...)
	}
	if len(s.Frames) == 1 && s.Frames[0] == (symbolize.Frame{Name: symbolize.Unknown}) {
		s.Frames = nil
	}
	return r.add(s)
}

// label1 returns a number's label.
func label1(values []int64) int {
	if len(values) == 0 || values[0] < 0 || values[0] > math.MaxInt32 {
		return 0
	}
	return int(values[0])
}

// location returns the frames at a location, leaf first: the last is not inlined.
func (r pprofReader) location(l *pprof.Location) []symbolize.Frame {
	if frames, ok := r.locations[l]; ok {
		return frames
	}
	module := ""
	if l.Mapping != nil {
		module = l.Mapping.File
	}
	var frames []symbolize.Frame
	for i, line := range l.Line {
		if i > maxDepth { // add cuts it
			break
		}
		f := symbolize.Frame{Name: symbolize.Unknown, Module: module}
		if line.Function != nil {
			f = pprofFrame(line, module)
		}
		f.Inlined = i < len(l.Line)-1
		frames = append(frames, f)
	}
	if len(l.Line) == 0 {
		frames = []symbolize.Frame{pprofAddress(l, module)}
	}
	r.locations[l] = frames
	return frames
}

// pprofAddress returns the frame of a location without a function.
func pprofAddress(l *pprof.Location, module string) symbolize.Frame {
	if l.Mapping == nil {
		return symbolize.Frame{Name: symbolize.Unknown, Offset: l.Address}
	}
	return symbolize.Frame{Module: module, Offset: l.Address - l.Mapping.Start + l.Mapping.Offset}
}

// pprofFrame returns the frame of a function. A line that is not that of the function's
// start is the one that executes. On the line of the start, it is not known what the
// column is of.
func pprofFrame(line pprof.Line, module string) symbolize.Frame {
	fn := line.Function
	f := symbolize.Frame{Kind: kindOfFile(fn.Filename), File: fn.Filename, Line: bounded(fn.StartLine)}
	f.Name, f.Tier = tiered(fn.Name)
	system, isBuiltin := strings.CutPrefix(fn.SystemName, builtinPrefix)
	switch {
	case isBuiltin && fn.Filename == "":
		return symbolize.Frame{Kind: symbolize.Builtin, Name: system, Module: module}
	case strings.HasPrefix(fn.SystemName, "<< "):
		return symbolize.Frame{Kind: symbolize.Typed, Name: fn.Name, Module: module}
	case fn.SystemName == anonymous && fn.Filename == "":
		f.Kind = symbolize.JS
	case fn.Filename == "" && f.Line == 0 && line.Line == 0:
		return inModule(fn.Name, module)
	case module != "" && !isScript(fn.Filename): // another language's
		f.Kind, f.Module = symbolize.Native, module
	}
	if cut, place, ok := strings.Cut(f.Name, anonymous+" "); ok && cut == "" && fn.Filename != "" {
		f.Name = anonymous
		if m := pprofPlace.FindStringSubmatch(place); m != nil && strings.HasPrefix(place, path.Base(fn.Filename)+":") {
			f.Column = int(number(m[1], 10))
		}
	}
	if line.Line != fn.StartLine {
		f.ExecutingLine, f.ExecutingColumn = bounded(line.Line), bounded(line.Column)
	}
	return f
}

// pprofPlace matches where a function without a name is.
var pprofPlace = lazyregexp.New(`:\d+:(\d{1,9})$`)

// bounded returns a line or a column, or 0 if it is out of range.
func bounded(n int64) int {
	if n < 0 || n > math.MaxInt32 {
		return 0
	}
	return int(n)
}
