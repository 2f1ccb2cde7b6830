package sourcemap

import (
	"errors"
	"fmt"
	"math"
)

// A reader reads the segments of one section from its mappings: lines are divided by
// semicolons, segments by commas; a segment has 1, 4 or 5 numbers as base64 VLQ, each the
// difference from that of the segment before.
type reader struct {
	text           string
	sources, names int     // how many the section has
	origin         segment // where the section begins, and its first source and name
	end            segment // where the next section begins
}

var errNegative = errors.New("the source map has a position before the start of a file")

// The numbers of a segment.
const (
	column = iota
	source
	sourceLine
	sourceColumn
	name
	numbers
)

// read passes the segments to add until it returns an error.
func (r *reader) read(add func(segment) error) error {
	var values [numbers]int64
	line, text := int64(0), r.text
	for len(text) > 0 {
		switch text[0] {
		case ';':
			line++
			values[column] = 0
			text = text[1:]
			continue
		case ',':
			text = text[1:]
			continue
		}
		count := 0
		for len(text) > 0 && text[0] != ',' && text[0] != ';' {
			if count == numbers {
				return r.fault(text, "has too many numbers")
			}
			delta, rest, ok := number(text)
			if !ok {
				return r.fault(text, "is not base64 VLQ")
			}
			values[count] += delta
			count++
			text = rest
		}
		s, err := r.segment(line, &values, count)
		if err != nil {
			return r.fault(text, err.Error())
		}
		if !s.before(&r.end) {
			return nil
		}
		if err := add(s); err != nil {
			return err
		}
	}
	return nil
}

// fault says that the segment which rest follows is wrong.
func (r *reader) fault(rest, what string) error {
	return fmt.Errorf("the source map's segment at byte %d of its mappings %s", len(r.text)-len(rest), what)
}

var (
	errCount = errors.New("has not 1, 4 or 5 numbers")
	errRange = errors.New("is out of range")
)

// segment returns the segment that the first count of values describe.
func (r *reader) segment(line int64, values *[numbers]int64, count int) (segment, error) {
	s := segment{source: -1, name: -1}
	at := values[column]
	if line == 0 {
		at += int64(r.origin.column)
	}
	line += int64(r.origin.line)
	switch {
	case count != column+1 && count != sourceColumn+1 && count != name+1:
		return s, errCount
	case !fits(line), !fits(at):
		return s, errRange
	}
	s.line, s.column = int32(line), int32(at)
	if count > source {
		if values[source] < 0 || values[source] >= int64(r.sources) || !fits(values[sourceLine]) || !fits(values[sourceColumn]) {
			return s, errRange
		}
		s.source = r.origin.source + int32(values[source])
		s.sourceLine, s.sourceColumn = int32(values[sourceLine]), int32(values[sourceColumn])
	}
	if count > name {
		if values[name] < 0 || values[name] >= int64(r.names) {
			return s, errRange
		}
		s.name = r.origin.name + int32(values[name])
	}
	return s, nil
}

// fits reports whether a line or column, from 0, can be one.
func fits(n int64) bool { return n >= 0 && n < math.MaxInt32 }

const (
	digitBits    = 5
	continuation = 1 << digitBits
	maxBits      = 35 // of a number of 32 bits with its sign
)

// digits has the value of each base64 digit, or -1.
var digits = func() (values [256]int8) {
	for i := range values {
		values[i] = -1
	}
	for i, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/" {
		values[c] = int8(i)
	}
	return values
}()

// number reads the number that text begins with: its lowest bit is the sign.
func number(text string) (n int64, rest string, ok bool) {
	for shift := 0; shift < maxBits; shift += digitBits {
		if len(text) == 0 {
			return 0, "", false
		}
		digit := digits[text[0]]
		if digit < 0 {
			return 0, "", false
		}
		text = text[1:]
		n |= int64(digit&(continuation-1)) << shift
		if digit&continuation == 0 {
			if n&1 != 0 {
				return -(n >> 1), text, true
			}
			return n >> 1, text, true
		}
	}
	return 0, "", false
}
