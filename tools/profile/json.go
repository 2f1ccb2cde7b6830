package profile

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"

	"ustack/symbolize"
)

// The JSON format: a contract with other programs. Names are only ever added.
type (
	jsonProfile struct {
		ValueType     jsonValueType     `json:"value_type"` // of samples and count
		Node          string            `json:"node"`
		V8            string            `json:"v8"`
		Hz            int               `json:"hz"`
		HzAsked       int               `json:"hz_asked"`
		Throttled     uint64            `json:"throttled"`
		Samples       uint64            `json:"samples"`
		Event         string            `json:"event,omitempty"`
		Events        uint64            `json:"events,omitempty"` // that samples are of, if they are no numbers of events
		Every         uint64            `json:"every,omitempty"`  // one in so many events was taken
		Seen          uint64            `json:"seen,omitempty"`   // events that happened, if only some were taken
		Lost          uint64            `json:"lost"`
		Truncated     uint64            `json:"truncated"`
		UnknownFrames uint64            `json:"unknown_frames"`
		Failures      map[string]uint64 `json:"failures"` // by cause
		Processes     []jsonProcess     `json:"processes"`
		Stacks        []jsonStack       `json:"stacks"`
	}
	jsonValueType struct {
		Type string `json:"type"`
		Unit string `json:"unit"`
	}
	jsonProcess struct {
		PID     int    `json:"pid"`
		Inside  int    `json:"namespace_pid,omitempty"` // if it is another
		Title   string `json:"title"`
		Node    string `json:"node"`
		V8      string `json:"v8"`
		Samples uint64 `json:"samples"`
	}
	jsonStack struct {
		Count  uint64            `json:"count"` // the value
		Events uint64            `json:"events,omitempty"`
		PID    int               `json:"pid"`
		TID    int               `json:"tid"`
		Thread string            `json:"thread"`
		Frames []symbolize.Frame `json:"frames"` // leaf first
	}
)

// writeJSON writes the profile as one JSON object on one line, with nothing
// shortened or renamed; bytes that are not UTF-8 become U+FFFD.
func writeJSON(w io.Writer, p *Profile, _ Options) error {
	p = p.Merge()
	out := jsonProfile{
		ValueType: jsonValueType(p.ValueType.orSamples()), Node: p.Node, V8: p.V8, Hz: p.Hz, HzAsked: max(p.Hz, p.HzAsked), Throttled: p.Throttled, Samples: p.Total,
		Event: p.Event, Events: p.Events, Every: p.Every, Seen: p.Seen,
		Lost: p.Lost, Truncated: p.Truncated, UnknownFrames: p.UnknownFrames,
		Failures: map[string]uint64{}, Processes: []jsonProcess{}, Stacks: make([]jsonStack, 0, len(p.Stacks)),
	}
	maps.Copy(out.Failures, p.Failures)
	for _, part := range p.processes() {
		out.Processes = append(out.Processes, jsonProcess{part.PID, part.Inside, part.Title, part.Node, part.V8, part.total})
	}
	for _, s := range p.Stacks {
		out.Stacks = append(out.Stacks, jsonStack{s.Value, s.Events, s.PID, s.TID, s.Thread, append([]symbolize.Frame{}, s.Frames...)})
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
