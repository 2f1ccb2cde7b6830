package quantize

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// A Unit is the unit in which values are written; they are counted in
// nanoseconds.
type Unit time.Duration

const (
	Nanoseconds  = Unit(time.Nanosecond)
	Microseconds = Unit(time.Microsecond)
	Milliseconds = Unit(time.Millisecond)
)

// ParseUnit parses "ns", "us" or "ms".
func ParseUnit(text string) (Unit, error) {
	for _, unit := range []Unit{Nanoseconds, Microseconds, Milliseconds} {
		if text == unit.String() {
			return unit, nil
		}
	}
	return 0, fmt.Errorf("read unit %q: no such unit (give ns, us or ms)", text)
}

// String returns the form that ParseUnit parses.
func (u Unit) String() string {
	switch u {
	case Microseconds:
		return "us"
	case Milliseconds:
		return "ms"
	}
	return "ns"
}

// format formats ns nanoseconds in the unit, exactly: 4096 is "4.096"
// microseconds.
func (u Unit) format(ns int64) string {
	whole, rest := ns/int64(u), ns%int64(u)
	if rest == 0 {
		return strconv.FormatInt(whole, 10)
	}
	sign := ""
	if ns < 0 {
		sign, whole, rest = "-", -whole, -rest
	}
	digits := len(strconv.Itoa(int(u))) - 1
	return strings.TrimRight(fmt.Sprintf("%s%d.%0*d", sign, whole, digits, rest), "0")
}
