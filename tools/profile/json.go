package profile

import (
	"bufio"
	"encoding/json"
	"io"
)

// The JSON format: a contract with other programs. Names are only ever added.
type (
	jsonProfile struct {
		Node          string        `json:"node"`
		V8            string        `json:"v8"`
		Hz            int           `json:"hz"`
		HzAsked       int           `json:"hz_asked"`
		Throttled     uint64        `json:"throttled"`
		Samples       uint64        `json:"samples"`
		Lost          uint64        `json:"lost"`
		Truncated     uint64        `json:"truncated"`
		UnknownFrames uint64        `json:"unknown_frames"`
		Processes     []jsonProcess `json:"processes"`
		Stacks        []jsonStack   `json:"stacks"`
	}
	jsonProcess struct {
		PID     int    `json:"pid"`
		Title   string `json:"title"`
		Node    string `json:"node"`
		V8      string `json:"v8"`
		Samples uint64 `json:"samples"`
	}
	jsonStack struct {
		Count  uint64      `json:"count"`
		PID    int         `json:"pid"`
		TID    int         `json:"tid"`
		Thread string      `json:"thread"`
		Frames []jsonFrame `json:"frames"` // leaf first
	}
	jsonFrame struct {
		Kind   string `json:"kind"`
		Name   string `json:"name"`
		File   string `json:"file,omitempty"`
		Line   int    `json:"line,omitempty"`
		Column int    `json:"column,omitempty"`
		Tier   string `json:"tier,omitempty"`
		Module string `json:"module,omitempty"`
		Offset uint64 `json:"offset,omitempty"`
	}
)

// writeJSON writes the profile as one JSON object on one line, with nothing
// shortened or renamed; bytes that are not UTF-8 become U+FFFD.
func writeJSON(w io.Writer, p *Profile, _ Options) error {
	p = p.Merge()
	out := jsonProfile{
		Node: p.Node, V8: p.V8, Hz: p.Hz, HzAsked: max(p.Hz, p.HzAsked), Throttled: p.Throttled, Samples: p.Samples,
		Lost: p.Lost, Truncated: p.Truncated, UnknownFrames: p.UnknownFrames,
		Processes: []jsonProcess{}, Stacks: make([]jsonStack, 0, len(p.Stacks)),
	}
	for _, part := range p.processes() {
		out.Processes = append(out.Processes, jsonProcess{part.PID, part.Title, part.Node, part.V8, part.samples})
	}
	for _, s := range p.Stacks {
		stack := jsonStack{s.Count, s.PID, s.TID, s.Thread, make([]jsonFrame, 0, len(s.Frames))}
		for _, f := range s.Frames {
			stack.Frames = append(stack.Frames, jsonFrame{
				f.Kind.String(), f.Name, f.File, f.Line, f.Column, f.Tier.String(), f.Module, f.Offset,
			})
		}
		out.Stacks = append(out.Stacks, stack)
	}
	return encode(w, out)
}

// encode writes v as readable JSON: <, > and & are not escaped.
func encode(w io.Writer, v any) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err
	}
	return b.Flush()
}
