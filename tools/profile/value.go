package profile

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// A ValueType says what the values of a profile's stacks are, as pprof does: a
// type and a unit. The zero ValueType means Samples.
type ValueType struct {
	Type string // as "samples"
	Unit string // "count", "nanoseconds", "bytes", or any other
}

// The usual types of values.
var (
	Samples = ValueType{"samples", "count"}
	Time    = ValueType{"time", "nanoseconds"}
	Memory  = ValueType{"memory", "bytes"}
)

func (t ValueType) orSamples() ValueType {
	if t == (ValueType{}) {
		return Samples
	}
	return t
}

// sampled reports whether values are numbers of samples, each of which lasts
// for the period of the profile's rate.
func (t ValueType) sampled() bool { return t.orSamples() == Samples }

// noun is what values are called in a sentence about their share.
func (t ValueType) noun() string { return printable.String(t.orSamples().Type) }

// heading is the title of a page without one of its own.
func (t ValueType) heading() string {
	switch t.orSamples() {
	case Samples:
		return "CPU profile"
	case Time:
		return "Time profile"
	case Memory:
		return "Memory profile"
	}
	return "Profile of " + t.noun()
}

// amount returns a value with its unit, as in "12 samples", "1.25 s of time" or
// "3.40 MB of memory".
func (t ValueType) amount(n uint64) string {
	t = t.orSamples()
	switch t.Unit {
	case Time.Unit, Memory.Unit:
		return t.short(n) + " of " + t.noun()
	case Samples.Unit:
		if t == Samples {
			return plural(n, "sample")
		}
		return fmt.Sprintf("%d %s", n, t.noun())
	}
	return fmt.Sprintf("%d %s of %s", n, printable.String(t.Unit), t.noun())
}

// short returns a value in at most 8 characters where its unit has larger ones:
// "1.25 s", "3.40 MB"; the number itself for all other units.
func (t ValueType) short(n uint64) string {
	switch t.orSamples().Unit {
	case Time.Unit:
		return scaled(n, 1000, []string{"ns", "µs", "ms", "s"})
	case Memory.Unit:
		return scaled(n, 1024, []string{"B", "KB", "MB", "GB", "TB"})
	}
	return fmt.Sprint(n)
}

// scaled returns n in the largest of the units, each of which is factor times
// the one before it, in which it is 1 or more.
func scaled(n uint64, factor float64, units []string) string {
	value := float64(n)
	for value >= factor && len(units) > 1 {
		value, units = value/factor, units[1:]
	}
	switch {
	case value == float64(n) || value >= 100:
		return fmt.Sprintf("%.0f %s", value, units[0])
	case value >= 10:
		return fmt.Sprintf("%.1f %s", value, units[0])
	}
	return fmt.Sprintf("%.2f %s", value, units[0])
}

// Check reports what makes p unfit to be written. Write and Pprof call it, so
// that no writer has to.
func (p *Profile) Check() error {
	if t := p.ValueType; t != (ValueType{}) && (t.Type == "" || t.Unit == "") {
		return fmt.Errorf("check profile: values of type %q have the unit %q (both are needed)", t.Type, t.Unit)
	}
	if p.Hz < 0 || p.Duration < 0 {
		return fmt.Errorf("check profile: the rate is %d Hz, the duration %v", p.Hz, p.Duration)
	}
	var total, carry uint64
	for i := range p.Stacks {
		var over uint64
		total, over = bits.Add64(total, p.Stacks[i].Value, 0)
		carry |= over
		for _, f := range p.Stacks[i].Frames {
			if f.Kind > symbolize.Runtime || f.Tier > symbolize.Liftoff || f.Line < 0 || f.Column < 0 {
				return fmt.Errorf("check profile: invalid frame %+v", f)
			}
		}
	}
	// Formats have signed numbers, of samples and of the nanoseconds they stand for.
	if high, low := bits.Mul64(total, uint64(max(1, p.period()))); carry != 0 || high != 0 || low > math.MaxInt64 {
		return errors.New("check profile: the sum of its values is too large")
	}
	if total != p.Total {
		return fmt.Errorf("check profile: its values sum up to %d, not to %d", total, p.Total)
	}
	return nil
}

// period returns the CPU time that one sample represents; 0 if it is not known
// or values are not samples.
func (p *Profile) period() time.Duration {
	if p.Hz <= 0 || !p.ValueType.sampled() {
		return 0
	}
	return time.Second / time.Duration(p.Hz)
}
