package heatmap

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"time"

	"ustack/tools/printable"
)

//go:embed page.tmpl
var page string

//go:embed page.css
var style string

//go:embed page.js
var script string

// Text is what a page says about a map.
type Text struct {
	Title   string
	Summary string
	Parts   []string // what they are called, in their order
	Noun    string   // what the values are of, in the plural, such as "jobs"
}

// What page.js reads.
type (
	pageData struct {
		Noun   string       `json:"noun"`
		Parts  []string     `json:"parts"`
		Begin  int64        `json:"begin"` // ms since 1970
		Times  []float64    `json:"times"` // ms since then at which columns begin, and the last ends
		Series []pageSeries `json:"series"`
	}
	pageSeries struct {
		Name  string `json:"name"`
		Count uint64 `json:"count"`
		// Cells has three numbers for each filled cell of each part: the column, the bucket
		// of package quantize and the count.
		Cells [][]uint64 `json:"cells"`
	}
)

// WriteHTML writes a page that draws the map in a browser: all series or one,
// by part, with the counts of each cell. It makes no requests.
func (m *Map) WriteHTML(w io.Writer, t Text) error {
	parsed, err := template.New("page").Parse(page)
	if err != nil {
		return err
	}
	// Marshal escapes <, > and &: no name ends the script element.
	data, err := json.Marshal(m.data(t))
	if err != nil {
		return err
	}
	b := bufio.NewWriter(w)
	if err := parsed.Execute(b, map[string]any{
		"Title": printable.String(t.Title), "Summary": printable.String(t.Summary),
		"Style": template.CSS(style), "Script": template.JS(script), "Data": template.JS(data),
	}); err != nil {
		return err
	}
	return b.Flush()
}

func (m *Map) data(t Text) pageData {
	d := pageData{Noun: t.Noun, Parts: t.Parts, Times: []float64{}, Series: []pageSeries{}}
	if len(m.begins) > 0 {
		begin := m.begins[0]
		d.Begin = begin.UnixMilli()
		for _, at := range append(m.begins[:len(m.begins):len(m.begins)], m.end) {
			d.Times = append(d.Times, float64(at.Sub(begin))/float64(time.Millisecond))
		}
	}
	for _, s := range m.ranked() {
		out := pageSeries{Name: printable.String(s.name), Count: s.count}
		for _, columns := range s.parts {
			cells := []uint64{}
			for i, c := range columns {
				for _, cell := range c {
					cells = append(cells, uint64(i), uint64(cell.bucket), cell.count)
				}
			}
			out.Cells = append(out.Cells, cells)
		}
		d.Series = append(d.Series, out)
	}
	return d
}
