package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"ustack/tools/nodesnoop"
	"ustack/tools/printable"
	"ustack/tools/quantize"
)

// A summary prints events by group, when the run ends.
type summary struct {
	nodesnoop.Summary
	table, json bool
	begun       time.Time
}

func (s *summary) begin() { s.begun = time.Now() }

func (s *summary) event(_ io.Writer, e *nodesnoop.Event) error {
	s.Add(e)
	return nil
}

// title returns a group's key as it is printed.
func title(g *nodesnoop.Group) string { return g.Kind.String() + " " + printable.String(g.Key) }

func (s *summary) end(w io.Writer) error {
	groups := s.Groups()
	switch {
	case s.json:
		return s.printJSON(w, groups)
	case s.table:
		t := quantize.Table{Unit: quantize.Milliseconds, Parts: []string{""}}
		for _, g := range groups {
			t.Rows = append(t.Rows, quantize.TableRow{Prefix: g.Kind.String() + " ", Key: printable.String(g.Key), Histograms: []*quantize.Histogram{&g.Latency}})
		}
		return t.Write(w)
	}
	var entries []quantize.Entry
	for _, g := range groups {
		entries = append(entries, quantize.Entry{Key: title(g), Distribution: g.Latency.Powers()})
	}
	return quantize.Print(w, quantize.Nanoseconds, entries)
}

// jsonSummary is a summary as --json prints it.
type jsonSummary struct {
	Duration int64       `json:"duration_ns"`
	Groups   []jsonGroup `json:"groups"`
}

type jsonGroup struct {
	Probe   string             `json:"probe"`
	Key     string             `json:"key"`
	Errors  uint64             `json:"errors"`
	Latency quantize.Histogram `json:"latency"`
}

func (s *summary) printJSON(w io.Writer, groups []*nodesnoop.Group) error {
	object := jsonSummary{Duration: int64(time.Since(s.begun)), Groups: []jsonGroup{}}
	for _, g := range groups {
		object.Groups = append(object.Groups, jsonGroup{g.Kind.String(), g.Key, g.Errors, g.Latency})
	}
	text, err := json.Marshal(object)
	if err == nil {
		_, err = w.Write(append(printable.JSON(text), '\n'))
	}
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	return nil
}
