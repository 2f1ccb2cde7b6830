// Package heatmap collects how latencies are distributed over time, within
// bounds, and writes them as a page that draws them: time to the right, latency
// upwards, counts by colour.
package heatmap

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"ustack/tools/quantize"
)

// Bounds of a Map. Where one is reached, each two columns are merged, or what
// does not fit into a series is counted in one called Others.
const (
	maxColumns = 300
	maxSeries  = 1024
	maxCells   = 1 << 20 // unless one column has more
)

// Others is the name of the series of all that is too much.
const Others = "(others)"

// Counts are how many values are in each bucket of a quantize.Histogram.
type Counts = [quantize.Slots]uint64

// A Key identifies a series.
type Key any

// A Map is counts by time and latency, of several series. Each has the same
// parts, which are counted side by side: a total and what it consists of.
type Map struct {
	parts   int
	width   time.Duration // of the columns to come
	begins  []time.Time   // of the columns
	end     time.Time     // of the last
	series  []*series
	indexes map[Key]int // of series
	cells   int
}

type series struct {
	name  string
	count uint64     // of values in the first part
	parts [][]column // each with as many columns as the map, or fewer if the last are empty
}

// A column is the filled cells between two instants, by bucket.
type column []cell

type cell struct {
	bucket uint16
	count  uint64
}

// New returns an empty map whose series have so many parts, and whose columns
// are so wide at first.
func New(parts int, width time.Duration) *Map {
	return &Map{parts: parts, width: width, indexes: make(map[Key]int)}
}

// Width is how wide the next column is to be. It grows as the map fills.
func (m *Map) Width() time.Duration { return m.width }

// Begin appends a column, from begin to end, or if it is narrow makes the last one longer.
// Add adds to it.
func (m *Map) Begin(begin, end time.Time) {
	if n := len(m.begins); n > 0 && end.Sub(m.begins[n-1]) <= m.width {
		m.end = end
		return
	}
	if len(m.begins) == maxColumns {
		m.merge()
	}
	m.begins = append(m.begins, begin)
	m.end = end
}

// Add counts the values of a series in the last column. The series gets a new name; those
// that have the same name in the end are shown as one.
func (m *Map) Add(key Key, name string, parts []Counts) {
	s := m.seriesOf(key, name)
	for i := range parts {
		m.addPart(s, i, &parts[i])
	}
	for m.cells > maxCells && len(m.begins) > 1 {
		m.merge()
	}
}

func (m *Map) addPart(s *series, part int, counts *Counts) {
	last := len(m.begins) - 1
	columns := s.parts[part]
	for len(columns) <= last {
		columns = append(columns, nil)
	}
	s.parts[part] = columns
	before := len(columns[last])
	var added column
	for bucket, n := range counts {
		if n > 0 {
			added = append(added, cell{uint16(bucket), n})
			if part == 0 {
				s.count += n
			}
		}
	}
	columns[last] = plus(columns[last], added)
	m.cells += len(columns[last]) - before
}

func (m *Map) seriesOf(key Key, name string) *series {
	if _, known := m.indexes[key]; !known && len(m.series) >= maxSeries {
		key, name = nil, Others
	}
	i, ok := m.indexes[key]
	if !ok {
		i = len(m.series)
		m.indexes[key] = i
		m.series = append(m.series, &series{parts: make([][]column, m.parts)})
	}
	m.series[i].name = name
	return m.series[i]
}

// merge makes one column of each two.
func (m *Map) merge() {
	m.width *= 2
	m.cells = 0
	m.begins = everySecond(m.begins)
	for _, s := range m.series {
		for part, columns := range s.parts {
			merged := everySecond(columns)
			for i := range merged {
				if 2*i+1 < len(columns) {
					merged[i] = plus(columns[2*i], columns[2*i+1])
				}
				m.cells += len(merged[i])
			}
			s.parts[part] = merged
		}
	}
}

// everySecond returns a copy of the elements at 0, 2, 4 …
func everySecond[T any](all []T) []T {
	half := make([]T, 0, maxColumns)
	for i := 0; i < len(all); i += 2 {
		half = append(half, all[i])
	}
	return half
}

// plus returns the sums of the cells of a and b.
func plus(a, b column) column {
	if len(a) == 0 {
		return b
	}
	sum := make(column, 0, max(len(a), len(b)))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].bucket < b[0].bucket:
			sum, a = append(sum, a[0]), a[1:]
		case a[0].bucket > b[0].bucket:
			sum, b = append(sum, b[0]), b[1:]
		default:
			sum = append(sum, cell{a[0].bucket, a[0].count + b[0].count})
			a, b = a[1:], b[1:]
		}
	}
	return append(append(sum, a...), b...)
}

// Count is the number of values of all series' first parts.
func (m *Map) Count() (n uint64) {
	for _, s := range m.series {
		n += s.count
	}
	return n
}

// ranked returns the series by name, those with the most values first.
func (m *Map) ranked() []*series {
	byName := make(map[string]*series)
	for _, s := range m.series {
		sum := byName[s.name]
		if sum == nil {
			sum = &series{name: s.name, parts: make([][]column, m.parts)}
			byName[s.name] = sum
		}
		sum.count += s.count
		for part, columns := range s.parts {
			sum.parts[part] = append(sum.parts[part], make([]column, max(0, len(columns)-len(sum.parts[part])))...)
			for i := range columns {
				sum.parts[part][i] = plus(sum.parts[part][i], columns[i])
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *series) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.name, b.name))
	})
}
