package profile

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"ustack/symbolize"
	"ustack/tools/printable"
	"ustack/tools/quantize"
)

// bucketOfZero is the Bucket of the value 0; the others are as many beside it as the value has bits,
// below it if the value is negative (bpf/event.h: BUCKET_ZERO).
const bucketOfZero = 64

// By says of what there is one distribution each.
type By string

// What distributions can be by.
const (
	ByStack   By = "stack"
	ByJS      By = "js" // the innermost function of JavaScript
	ByEvent   By = "event"
	ByProcess By = "process"
)

// Bys are all of them, the default first.
var Bys = []By{ByStack, ByJS, ByEvent, ByProcess}

// Quantized returns a format that writes the distributions of values that were kept apart, as
// DTrace draws them or in JSON, in place of f, which must be top or json.
func (f Format) Quantized(by By) (Format, error) {
	quantized := f
	quantized.each, quantized.positions, quantized.tiers = false, true, true
	switch f.Name {
	case "top":
		quantized.writeAll = func(w io.Writer, all []*Profile, _ Options) error { return writeQuantized(w, by, all) }
	case "json":
		quantized.writeAll = func(w io.Writer, all []*Profile, _ Options) error { return writeJSONQuantized(w, by, all) }
	default:
		return f, fmt.Errorf("distributions are written as top or json, not as %s", f.Name)
	}
	return quantized, nil
}

// A distribution is the values of events with one key.
type distribution struct {
	key    string
	frames []symbolize.Frame // of the key, leaf first; may be empty
	events uint64
	sum    uint64 // of the values
	counts quantize.Quantize
}

// distributions returns those of p, the one with most events first.
func (p *Profile) distributions(by By) []*distribution {
	all := make(map[string]*distribution)
	ids := map[symbolize.Frame]uint64{}
	for _, s := range p.Stacks {
		key, frames := p.keyOf(by, s)
		id := key
		for _, f := range frames {
			if _, ok := ids[f]; !ok {
				ids[f] = uint64(len(ids))
			}
			id += fmt.Sprintf(" %d", ids[f])
		}
		d := all[id]
		if d == nil {
			d = &distribution{key: key, frames: frames}
			all[id] = d
		}
		events := s.Events
		d.events += events
		d.sum += s.Value
		d.counts.Add(int(s.Bucket)-bucketOfZero, events)
	}
	sorted := make([]*distribution, 0, len(all))
	for _, d := range all {
		sorted = append(sorted, d)
	}
	slices.SortFunc(sorted, func(a, b *distribution) int {
		switch {
		case a.events != b.events && a.events > b.events:
			return -1
		case a.events != b.events:
			return 1
		}
		return strings.Compare(a.key, b.key)
	})
	return sorted
}

// keyOf returns what a stack belongs to: a text, or frames.
func (p *Profile) keyOf(by By, s Stack) (string, []symbolize.Frame) {
	switch by {
	case ByEvent:
		return printable.String(p.Event), nil
	case ByProcess:
		return p.process(s.PID).String(), nil
	case ByJS:
		if i := slices.IndexFunc(s.Frames, ofProgram); i >= 0 {
			return Label(function(s.Frames[i])), nil
		}
		return NoJavaScript, nil
	}
	return "", s.frames()
}

func writeQuantized(w io.Writer, by By, all []*Profile) error {
	for i, p := range all {
		if i > 0 {
			if _, err := io.WriteString(w, "\n"); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintln(w, p.summary()); err != nil {
			return err
		}
		if losses := p.losses(); losses != "" {
			if _, err := fmt.Fprintln(w, losses); err != nil {
				return err
			}
		}
		var entries []quantize.Entry
		for _, d := range p.distributions(by) {
			e := quantize.Entry{Key: d.key, Distribution: &d.counts}
			for _, f := range d.frames {
				e.Stack = append(e.Stack, Label(f))
			}
			entries = append(entries, e)
		}
		if err := quantize.Print(w, quantize.Nanoseconds, entries); err != nil {
			return err
		}
	}
	return nil
}

// Distributions in JSON: a contract with other programs. Names are only ever added.
type (
	jsonQuantized struct {
		ValueType     jsonValueType      `json:"value_type"`
		Event         string             `json:"event"`
		By            By                 `json:"by"`
		Events        uint64             `json:"events"`
		Sum           uint64             `json:"sum"`
		Lost          uint64             `json:"lost"`
		Every         uint64             `json:"every,omitempty"`
		Seen          uint64             `json:"seen,omitempty"`
		Distributions []jsonDistribution `json:"distributions"` // the one with most events first
	}
	jsonDistribution struct {
		Key     string            `json:"key,omitempty"`
		Frames  []symbolize.Frame `json:"frames,omitempty"` // leaf first
		Events  uint64            `json:"events"`
		Sum     uint64            `json:"sum"`
		Buckets []quantize.Bucket `json:"buckets"`
	}
)

// writeJSONQuantized writes one JSON object on a line for each profile.
func writeJSONQuantized(w io.Writer, by By, all []*Profile) error {
	for _, p := range all {
		out := jsonQuantized{
			ValueType: jsonValueType(p.ValueType.orSamples()), Event: p.Event, By: by, Events: p.Events, Sum: p.Total,
			Lost: p.Lost, Every: p.Every, Seen: p.Seen, Distributions: []jsonDistribution{},
		}
		for _, d := range p.distributions(by) {
			out.Distributions = append(out.Distributions, jsonDistribution{d.key, d.frames, d.events, d.sum, d.counts.Buckets()})
		}
		text, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(printable.JSON(text), '\n')); err != nil {
			return err
		}
	}
	return nil
}
