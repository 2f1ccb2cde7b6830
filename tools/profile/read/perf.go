package read

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"ustack/symbolize"
	"ustack/tools/profile"
	"ustack/tools/profile/internal/lazyregexp"
)

// perfHeader matches the first line of a sample, as perf script writes it: the name of
// the thread, its numbers, the CPU, the time, the period, and the event.
var perfHeader = lazyregexp.New(`^\s*(\S.*?)\s+(-?\d{1,10})(?:/(-?\d{1,10}))?\s+(?:\[\d+\]\s+)?(?:[.A-Za-z]{4,6}\s+)?(?:(\d{1,12})\.(\d{1,9}):\s+)?(?:(\d{1,18})\s+)?([A-Za-z_][^\s]*?):(?:\s+(.*))?$`)

// Parts of perfHeader.
const (
	perfComm = iota + 1
	perfFirst
	perfSecond
	perfSeconds
	perfFraction
	perfPeriod
	perfEvent
	perfRest
)

var (
	perfFrame    = lazyregexp.New(`^([\da-f]{1,16}) (.*) \((.*)\)$`)
	perfInlined  = lazyregexp.New(`^(?:[\da-f]{1,16} )?(.*) \(inlined\)$`)
	perfSource   = lazyregexp.New(`^(\S+):(\d{1,9})$`)
	perfModifier = lazyregexp.New(`:[ukhHGpPSDWeb]+$`)
	perfMap      = lazyregexp.New(`^(?:.*/)?perf-\d+\.map$|^\[JIT\] tid \d+$|^//anon$`)
)

// perfSample is one sample of perf script's.
type perfSample struct {
	event  string
	period uint64
	time   time.Duration
	stack  profile.Stack
	done   bool // it is on one line
}

// A perfReader reads samples, and takes those of one event.
type perfReader struct {
	*builder
	frames map[string]symbolize.Frame
	event  string          // that is taken
	period uint64          // of all samples so far; 0 if they differ
	times  []time.Duration // of the first sample, and of the last
	events []string        // other ones
}

// readPerf reads what perf script writes. An event of the CPU's clock or its cycles
// counts as a sample, and any other for its period.
func readPerf(l *lines, b *builder) error {
	r := perfReader{builder: b, frames: map[string]symbolize.Frame{}, event: b.values}
	var sample *perfSample
	finish := func() error {
		if sample == nil {
			return nil
		}
		if err := r.take(*sample); err != nil {
			return l.errorf("%w", err)
		}
		sample = nil
		return nil
	}
	for l.next() {
		text := strings.TrimSpace(l.text)
		switch {
		case text == "" || strings.HasPrefix(l.text, "#"):
			if err := finish(); err != nil {
				return err
			}
			continue
		case sample != nil && !sample.done && r.frame(sample, text):
			continue
		}
		if err := finish(); err != nil {
			return err
		}
		m := perfHeader.FindStringSubmatch(l.text)
		if m == nil {
			return l.errorf("neither a sample nor a frame: %s", quote(text))
		}
		sample = r.header(m)
	}
	if err := l.err(); err != nil {
		return err
	}
	if err := finish(); err != nil {
		return err
	}
	return r.end()
}

// header returns the sample that a line begins.
func (r *perfReader) header(m []string) *perfSample {
	s := &perfSample{event: perfModifier.Compiled().ReplaceAllString(m[perfEvent], ""), period: number(m[perfPeriod], 10)}
	s.stack.Thread = strings.Clone(m[perfComm])
	s.stack.TID, _ = strconv.Atoi(m[perfFirst])
	if m[perfSecond] != "" {
		s.stack.PID = s.stack.TID
		s.stack.TID, _ = strconv.Atoi(m[perfSecond])
	}
	if m[perfSeconds] != "" {
		seconds, _ := time.ParseDuration(m[perfSeconds] + "." + m[perfFraction] + "s")
		s.time = seconds
	}
	s.done = m[perfRest] != "" && r.frame(s, m[perfRest])
	return s
}

// frame adds a frame to a sample; false if the text is not a frame.
func (r *perfReader) frame(s *perfSample, text string) bool {
	f, ok := r.frames[text]
	if !ok {
		m := perfFrame.FindStringSubmatch(strings.Replace(text, " (deleted))", ")", 1))
		switch inlined := perfInlined.FindStringSubmatch(text); {
		case inlined != nil:
			f = symbolize.Frame{Name: cutOffset(inlined[1]), Inlined: true}
		case m != nil:
			f = perfFrameOf(m[1], m[2], m[3])
		case perfSource.MatchString(text) && len(s.stack.Frames) > 0:
			last := &s.stack.Frames[len(s.stack.Frames)-1]
			at := perfSource.FindStringSubmatch(text)
			last.File, last.ExecutingLine = strings.Clone(at[1]), int(number(at[2], 10))
			return true
		case isAddress(text): // without symbols
			f = symbolize.Frame{Name: symbolize.Unknown, Offset: number(text, 16)}
		default:
			return false
		}
		if len(r.frames) < maxFrames {
			r.frames[strings.Clone(text)] = f
		}
	}
	if len(s.stack.Frames) <= maxDepth { // add cuts it
		s.stack.Frames = append(s.stack.Frames, f)
	}
	return true
}

func isAddress(text string) bool {
	_, err := strconv.ParseUint(text, 16, 64)
	return err == nil
}

func cutOffset(symbol string) string {
	if m := hexOffset.FindStringSubmatch(symbol); m != nil {
		return m[1]
	}
	return symbol
}

// perfFrameOf returns the frame at an address, by its symbol with an offset and the file.
func perfFrameOf(at, symbol, module string) symbolize.Frame {
	f := symbolize.Frame{Name: strings.Clone(symbol), Module: strings.Clone(module)}
	if m := hexOffset.FindStringSubmatch(f.Name); m != nil {
		f.Name, f.Offset = m[1], number(m[2], 16)
	}
	switch unknown := f.Name == symbolize.Unknown; {
	case isKernel(module):
		f.Kind, f.Module = symbolize.Kernel, kernelModule
		if strings.HasSuffix(module, ".ko") {
			f.Module = module
		}
	case perfMap.MatchString(module):
		if js, ok := perfMapName(f.Name); ok {
			return js
		}
		f.Module = ""
	case unknown && module == symbolize.Unknown:
		return symbolize.Frame{Name: symbolize.Unknown}
	case strings.HasPrefix(f.Name, builtinPrefix):
		return builtinFrame(strings.TrimPrefix(f.Name, builtinPrefix), module)
	}
	if f.Name == symbolize.Unknown && f.Module != "" {
		f.Name, f.Offset = "", number(at, 16)
	}
	return f
}

func isKernel(module string) bool {
	return strings.HasPrefix(module, "[kernel") || strings.HasPrefix(module, "[guest.kernel") || strings.HasSuffix(module, ".ko") ||
		module == "[bpf]" || strings.HasPrefix(module, "bpf_prog_")
}

// clocks are the events that are samples of the CPU time.
func isClock(event string) bool { return event == "cpu-clock" || event == "task-clock" }

func isTime(event string) bool {
	return isClock(event) || event == "cycles" || event == "cpu-cycles" || strings.HasSuffix(event, "/cycles/") || strings.HasSuffix(event, "/cpu-cycles/")
}

// take adds a sample of the event that is wanted; the first one, if none was named.
func (r *perfReader) take(s perfSample) error {
	if r.event == "" {
		r.event = s.event
	}
	if s.event != r.event {
		if !slices.Contains(r.events, s.event) && len(r.events) < maxListed {
			r.events = append(r.events, strings.Clone(s.event))
		}
		return nil
	}
	if len(r.times) == 0 {
		r.times, r.period = []time.Duration{s.time, s.time}, s.period
	}
	r.times[0], r.times[1] = min(r.times[0], s.time), max(r.times[1], s.time)
	if r.period != s.period {
		r.period = 0
	}
	s.stack.Value = 1
	if !isTime(s.event) {
		s.stack.Value = max(1, s.period)
	}
	return r.add(s.stack)
}

// end sets what all samples say together.
func (r *perfReader) end() error {
	types := r.events
	if len(r.times) > 0 {
		types = append([]string{r.event}, types...)
	}
	if len(types) == 0 {
		return nil
	}
	if _, err := r.choose(types, r.event); err != nil {
		return err
	}
	r.profile.Duration = r.times[1] - r.times[0]
	switch {
	case !isTime(r.event):
		r.profile.ValueType = profile.ValueType{Type: r.event, Unit: profile.Samples.Unit}
	case isClock(r.event) && r.period > 0 && r.period <= uint64(time.Second):
		r.profile.Hz = int((uint64(time.Second) + r.period/2) / r.period)
	}
	return nil
}
