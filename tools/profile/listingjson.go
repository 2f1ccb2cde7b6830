package profile

import (
	"encoding/json"
	"io"
	"slices"

	"ustack/symbolize"
	"ustack/tools/printable"
)

// maxLineText bounds the characters of a line.
const maxLineText = 1000

// Annotated functions in JSON: a contract with other programs. Names are only ever added.
type (
	jsonAnnotated struct {
		ValueType jsonValueType  `json:"value_type"` // of samples, self, self_native and total
		Node      string         `json:"node"`
		V8        string         `json:"v8"`
		Hz        int            `json:"hz"`
		Samples   uint64         `json:"samples"` // of the whole profile
		Functions []jsonFunction `json:"functions"`
	}
	jsonFunction struct {
		symbolize.Frame
		LastLine  int    `json:"last_line,omitempty"` // 0 where it is not known
		TextFrom  string `json:"text_from,omitempty"`
		TextError string `json:"text_error,omitempty"` // why no line has its text
		jsonCount
		InlinedTotal uint64     `json:"inlined_total"` // the part of total that ran inlined in its caller
		Lines        []jsonLine `json:"lines"`
	}
	jsonLine struct {
		Line   int `json:"line"`             // 0: what runs is not known
		Column int `json:"column,omitempty"` // where most of total is
		jsonCount
		Text string `json:"text,omitempty"`
	}
	jsonCount struct {
		Self       uint64 `json:"self"`
		SelfNative uint64 `json:"self_native"`
		Total      uint64 `json:"total"`
	}
)

// writeJSONListings writes one JSON object on one line. A long line is cut.
func writeJSONListings(w io.Writer, p *Profile, all []*listing, o Options) error {
	out := jsonAnnotated{
		ValueType: jsonValueType(p.ValueType.orSamples()), Node: p.Node, V8: p.V8, Hz: p.Hz, Samples: p.Total,
		Functions: []jsonFunction{},
	}
	for _, l := range all {
		out.Functions = append(out.Functions, l.json(o.Context))
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	_, err = w.Write(append(printable.JSON(text), '\n'))
	return err
}

func (l *listing) json(context int) jsonFunction {
	f := jsonFunction{
		Frame: l.frame, LastLine: l.source.LastLine, jsonCount: l.all.json(), InlinedTotal: l.inlined,
		Lines: []jsonLine{},
	}
	if l.source.Text != nil {
		f.TextFrom = l.source.Text.From
	}
	if l.source.Err != nil {
		f.TextError = l.source.Err.Error()
	}
	numbers := l.shown(context)
	if l.lines[0] != nil {
		numbers = slices.Insert(numbers, 0, 0)
	}
	for _, number := range numbers {
		var c lineCount
		if line := l.lines[number]; line != nil {
			c = *line
		}
		text, _ := l.source.Text.line(number)
		f.Lines = append(f.Lines, jsonLine{Line: number, Column: c.column(), jsonCount: c.json(), Text: excerpt(text, c.column(), maxLineText)})
	}
	return f
}

func (c count) json() jsonCount { return jsonCount{c.self, c.native, c.total} }
