package quantize

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
)

// A Distribution is what DTrace draws: counts in ascending buckets.
type Distribution interface {
	// rows returns what is drawn: from one bucket before the first nonempty one
	// to one after the last.
	rows(unit Unit) []row
	// weight is the sum of each bucket's own value times its count. DTrace
	// sorts by it, rather than by the sum of the values, which it does not
	// know.
	weight() float64
	// zeros is the count of the bucket whose own value is 0, if any. It orders
	// distributions of equal weight.
	zeros() uint64
}

type row struct {
	label string
	count uint64
}

// powers is the number of powers of two that an int64 can have.
const powers = 63

// A Quantize counts signed values by powers of two, as DTrace's quantize does:
// the negative powers ascending to -1, then 0, then the powers from 1.
type Quantize [2*powers + 1]uint64

// powerIndex returns the index of the greatest power of two in v. Values too
// large for an int64 are counted with the greatest power that fits.
func powerIndex(v uint64) int {
	return powers + min(bits.Len64(v), powers)
}

// value returns the value that DTrace prints for bucket i.
func (q *Quantize) value(i int) int64 {
	switch {
	case i > powers:
		return 1 << (i - powers - 1)
	case i < powers:
		return -1 << (powers - 1 - i)
	}
	return 0
}

// Add counts n values of that many bits, negative values if bits is negative.
func (q *Quantize) Add(bits int, n uint64) {
	q[powers+max(-powers, min(bits, powers))] += n
}

// A Bucket is the count of the values from Low on, up to the next power of two.
type Bucket struct {
	Low   int64  `json:"low"`
	Count uint64 `json:"count"`
}

// Buckets returns the nonempty buckets, in order. Of negative values, Low is the greatest.
func (q *Quantize) Buckets() []Bucket {
	buckets := []Bucket{}
	for i, n := range q {
		if n > 0 {
			buckets = append(buckets, Bucket{q.value(i), n})
		}
	}
	return buckets
}

func (q *Quantize) rows(unit Unit) []row {
	first, last, ok := drawn(q[:])
	if !ok {
		first, last = powers-1, powers+1
	}
	rows := make([]row, 0, last-first+1)
	for i := first; i <= last; i++ {
		rows = append(rows, row{unit.format(q.value(i)), q[i]})
	}
	return rows
}

func (q *Quantize) weight() float64 {
	var sum float64
	for i, n := range q {
		sum += float64(q.value(i)) * float64(n)
	}
	return sum
}

func (q *Quantize) zeros() uint64 { return q[powers] }

// Bounds of an LQuantize: the kernel counts it in as many buckets as a
// Histogram has, and some hundred days in nanoseconds leave room for the
// arithmetic.
const (
	MaxLevels = Slots - 2
	maxValue  = 1 << 53
)

// An LQuantize counts values, usually nanoseconds, by equal steps, as DTrace's
// lquantize does.
type LQuantize struct {
	Low, High, Step int64

	// Counts has the values below Low, those of each level, and those from the
	// last level's end on.
	Counts []uint64
}

// ParseLQuantize reads "LOW,HIGH,STEP", whole numbers of unit, and returns an
// empty distribution.
func ParseLQuantize(text string, unit Unit) (*LQuantize, error) {
	var numbers [3]int64
	fields := strings.Split(text, ",")
	if len(fields) != len(numbers) {
		return nil, fmt.Errorf("read lquantize %q: %d numbers (give LOW,HIGH,STEP)", text, len(fields))
	}
	for i, field := range fields {
		n, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read lquantize %q: %w (give LOW,HIGH,STEP)", text, err)
		}
		if limit := maxValue / int64(unit); n < -limit || n > limit {
			return nil, fmt.Errorf("read lquantize %q: %d is out of range (at most %d%v)", text, n, limit, unit)
		}
		numbers[i] = n * int64(unit)
	}
	l, err := NewLQuantize(numbers[0], numbers[1], numbers[2])
	if err != nil {
		return nil, fmt.Errorf("read lquantize %q: %w", text, err)
	}
	return l, nil
}

// NewLQuantize returns an empty distribution. If the levels do not end exactly
// at high, the last one ends before it, as in DTrace.
func NewLQuantize(low, high, step int64) (*LQuantize, error) {
	switch {
	case low < -maxValue || high > maxValue:
		return nil, fmt.Errorf("bounds %d and %d are out of range (at most %d)", low, high, int64(maxValue))
	case low >= high:
		return nil, fmt.Errorf("low bound %d is not below the high bound %d", low, high)
	case step < 1:
		return nil, fmt.Errorf("step %d is not above 0", step)
	case step > high-low:
		return nil, fmt.Errorf("step %d is wider than from %d to %d", step, low, high)
	case (high-low)/step > MaxLevels:
		return nil, fmt.Errorf("%d levels are too many (at most %d; give a wider step)", (high-low)/step, MaxLevels)
	}
	l := &LQuantize{Low: low, High: high, Step: step}
	l.Counts = make([]uint64, l.Levels()+2)
	return l, nil
}

// Levels returns the number of steps between the bounds.
func (l *LQuantize) Levels() int { return int((l.High - l.Low) / l.Step) }

// Index returns the index of v in Counts.
func (l *LQuantize) Index(v int64) int {
	switch end := l.value(l.Levels() + 1); {
	case v < l.Low:
		return 0
	case v >= end:
		return l.Levels() + 1
	}
	return int((v-l.Low)/l.Step) + 1
}

// value returns the least value of bucket i, which must not be the first.
func (l *LQuantize) value(i int) int64 { return l.Low + int64(i-1)*l.Step }

func (l *LQuantize) rows(unit Unit) []row {
	first, last, ok := drawn(l.Counts)
	if !ok {
		first, last = 0, 2
	}
	rows := make([]row, 0, last-first+1)
	for i := first; i <= last; i++ {
		label := unit.format(l.value(i))
		switch i {
		case 0:
			label = "< " + unit.format(l.Low)
		case l.Levels() + 1:
			label = ">= " + label
		}
		rows = append(rows, row{label, l.Counts[i]})
	}
	return rows
}

// own returns the value that DTrace assumes for all of bucket i: the least, or
// for the open-ended buckets, one beyond their only bound.
func (l *LQuantize) own(i int) int64 {
	switch i {
	case 0:
		return l.Low - 1
	case l.Levels() + 1:
		return l.value(i) + 1
	}
	return l.value(i)
}

func (l *LQuantize) weight() float64 {
	var sum float64
	for i, n := range l.Counts {
		sum += float64(l.own(i)) * float64(n)
	}
	return sum
}

func (l *LQuantize) zeros() uint64 {
	for i, n := range l.Counts {
		if l.own(i) == 0 {
			return n
		}
	}
	return 0
}

// drawn returns the first and the last bucket to draw, and false if all are
// empty.
func drawn(counts []uint64) (first, last int, ok bool) {
	first, last = -1, -1
	for i, n := range counts {
		if n == 0 {
			continue
		}
		if first < 0 {
			first = i
		}
		last = i
	}
	if first < 0 {
		return 0, 0, false
	}
	return max(first-1, 0), min(last+1, len(counts)-1), true
}
