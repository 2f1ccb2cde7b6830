package heatmap

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 11, 21, 11, 47, 12, 0, time.UTC)

// counts returns counts of which some are not zero: pairs of a bucket and its count.
func counts(pairs ...uint64) []Counts {
	var c Counts
	for i := 0; i < len(pairs); i += 2 {
		c[pairs[i]] = pairs[i+1]
	}
	return []Counts{c}
}

// column begins the ith column of a second.
func (m *Map) column(i int) {
	m.Begin(start.Add(time.Duration(i)*time.Second), start.Add(time.Duration(i+1)*time.Second))
}

func TestSeriesAreRankedAndCellsInOrder(t *testing.T) {
	m := New(2, time.Second)
	m.column(0)
	m.Add("few", "few", counts(10, 3))
	m.Add("many", "many", append(counts(12, 7, 9, 2), counts(4, 11)...))
	m.Add("many", "many", counts(9, 5, 3, 1)) // twice in a column
	m.column(1)
	m.column(2)
	m.Add("many", "many", counts(20, 1))
	got := m.data(Text{Noun: "jobs", Parts: []string{"a", "b"}})
	want := pageData{
		Noun: "jobs", Parts: []string{"a", "b"}, Begin: start.UnixMilli(), Times: []float64{0, 1000, 2000, 3000},
		Series: []pageSeries{
			{Name: "many", Count: 16, Cells: [][]uint64{{0, 3, 1, 0, 9, 7, 0, 12, 7, 2, 20, 1}, {0, 4, 11}}},
			{Name: "few", Count: 3, Cells: [][]uint64{{0, 10, 3}, {}}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if m.Count() != 19 || len(m.begins) != 3 || m.Width() != time.Second {
		t.Errorf("%d values in %d columns, the next of %v, want 19 in 3, the next of 1s", m.Count(), len(m.begins), m.Width())
	}
}

func TestSeriesAreShownByTheirLastName(t *testing.T) {
	m := New(1, time.Second)
	m.column(0)
	m.Add(1, "(unknown)", counts(10, 3))
	m.Add(2, "read", counts(10, 1, 11, 1))
	m.column(1)
	m.Add(1, "read", counts(7, 2))
	want := []pageSeries{{Name: "read", Count: 7, Cells: [][]uint64{{0, 10, 4, 0, 11, 1, 1, 7, 2}}}}
	if diff := cmp.Diff(want, m.data(Text{}).Series); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

func TestEmptyMap(t *testing.T) {
	if diff := cmp.Diff(pageData{Times: []float64{}, Series: []pageSeries{}}, New(1, time.Second).data(Text{})); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
}

// sum returns the values in all cells of a part, and how many cells there are.
func (m *Map) sum(part int) (n uint64, cells int) {
	for _, s := range m.series {
		for _, c := range s.parts[part] {
			cells += len(c)
			for _, cell := range c {
				n += cell.count
			}
		}
	}
	return n, cells
}

// TestLongRunsAreMerged: however long a run is, there are few columns, and each value is
// in one that contains its time.
func TestLongRunsAreMerged(t *testing.T) {
	m := New(1, time.Second)
	const seconds = 10_007
	for i := range seconds {
		m.column(i)
		m.Add("all", "all", counts(uint64(100+i%7), 1))
		if i == 6_007 {
			m.Add("outlier", "outlier", counts(490, 1))
		}
		if len(m.begins) > maxColumns {
			t.Fatalf("columns = %d, want %d at most", len(m.begins), maxColumns)
		}
	}
	if n, _ := m.sum(0); n != seconds+1 || m.Count() != seconds+1 {
		t.Errorf("values = %d, counted %d, want %d", n, m.Count(), seconds+1)
	}
	if m.Width() != 64*time.Second || len(m.begins) < maxColumns/2 {
		t.Errorf("columns = %d, the next of %v, want %d or more, of 1m4s", len(m.begins), m.Width(), maxColumns/2)
	}
	d := m.data(Text{})
	if got := d.Times[len(d.Times)-1]; got != seconds*1000 {
		t.Errorf("end = %v ms, want %d", got, seconds*1000)
	}
	outlier := d.Series[1].Cells[0]
	if at := outlier[0]; d.Times[at] > 6_007_000 || d.Times[at+1] <= 6_007_000 || outlier[1] != 490 || outlier[2] != 1 {
		t.Errorf("outlier = %d, in the column from %v to %v, want it at 6007000", outlier, d.Times[at], d.Times[at+1])
	}
}

func TestBoundsOfSeriesAndCells(t *testing.T) {
	m := New(4, time.Second)
	var full Counts
	const filled = 100
	for i := range filled {
		full[3*i] = 1
	}
	parts := []Counts{full, full, full, full}
	for i := range 3 {
		m.column(i)
		for k := range maxSeries + 11 {
			m.Add(fmt.Sprint(k), fmt.Sprint(k), parts)
			if _, cells := m.sum(0); k%50 == 0 && cells*4 > maxCells {
				t.Fatalf("cells = %d, want %d at most", 4*cells, maxCells)
			}
		}
	}
	if len(m.series) != maxSeries+1 || m.ranked()[0].name != Others {
		t.Errorf("series = %d, the first %q, want %d and %q", len(m.series), m.ranked()[0].name, maxSeries+1, Others)
	}
	const want = 3 * (maxSeries + 11) * uint64(filled)
	cells := 0
	for part := range 4 {
		n, some := m.sum(part)
		cells += some
		if n != want {
			t.Errorf("values of part %d = %d, want %d", part, n, want)
		}
	}
	if cells != m.cells {
		t.Errorf("cells = %d, counted %d", cells, m.cells)
	}
}
