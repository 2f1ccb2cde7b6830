package main

import (
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"ustack/cmd/internal/clitest"
)

// The JSON of --annotate as the manual page describes it.
type (
	annotatedReport struct {
		ValueType struct {
			Type string `json:"type"`
			Unit string `json:"unit"`
		} `json:"value_type"`
		Node      *string             `json:"node"`
		V8        *string             `json:"v8"`
		Hz        *int                `json:"hz"`
		Samples   uint64              `json:"samples"`
		Functions []annotatedFunction `json:"functions"`
	}
	annotatedFunction struct {
		clitest.Frame
		LastLine     int    `json:"last_line"`
		TextFrom     string `json:"text_from"`
		TextError    string `json:"text_error"`
		Self         uint64 `json:"self"`
		SelfNative   uint64 `json:"self_native"`
		Total        uint64 `json:"total"`
		InlinedTotal uint64 `json:"inlined_total"`
		Lines        []struct {
			Line       int    `json:"line"`
			Column     int    `json:"column"`
			Self       uint64 `json:"self"`
			SelfNative uint64 `json:"self_native"`
			Total      uint64 `json:"total"`
			Text       string `json:"text"`
		} `json:"lines"`
	}
)

func annotated(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: annotated FILE NAME LINE")
	}
	hot, err := strconv.Atoi(args[2])
	ts.Check(err)
	reports := clitest.Decode[annotatedReport](ts, args[0])
	if len(reports) != 1 || len(reports[0].Functions) != 1 {
		ts.Fatalf("reports = %+v, want one of one function", reports)
	}
	r, f := reports[0], reports[0].Functions[0]
	if r.Node == nil || r.V8 == nil || r.Hz == nil || r.ValueType.Type != "samples" || r.ValueType.Unit != "count" {
		ts.Fatalf("a field is missing: %+v", r)
	}
	if f.Kind != "js" || f.Name == nil || *f.Name != args[1] || f.File == "" || f.Line == 0 || f.LastLine <= f.Line || f.TextFrom == "" || f.TextError != "" {
		ts.Fatalf("function = %+v, want %s with its place and text", f, args[1])
	}
	var self, native, there uint64
	for _, line := range f.Lines {
		self, native = self+line.Self, native+line.SelfNative
		if line.Line == hot {
			there = line.SelfNative
		}
		if line.Line > 0 && line.Text == "" || line.Self > line.SelfNative || line.SelfNative > line.Total || line.Total > 0 && line.Line > 0 && line.Column == 0 {
			ts.Fatalf("line = %+v", line)
		}
	}
	const wanted = 95 // percent
	if self != f.Self || native != f.SelfNative || f.Total > r.Samples || 100*there < wanted*native || native == 0 {
		ts.Fatalf("self = %d, with native work %d, on line %d %d: function = %+v", self, native, hot, there, f)
	}
}
